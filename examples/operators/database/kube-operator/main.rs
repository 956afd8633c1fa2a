//! The Database webhooks on kube-operator.

use std::{net::Ipv4Addr, path::PathBuf};

use clap::Parser;
use kube::{Client, CustomResource};
use kube_operator::{
    Manager, ManagerOptions, shutdown_signal,
    webhook::{AdmissionRequest, Conversion, Denied, WebhookCertificate, WebhookOptions, Webhooks},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Database", namespaced)]
#[serde(rename_all = "camelCase")]
struct DatabaseSpec {
    storage_gib: u32,
    replicas: Option<u32>,
}

mod v1beta1 {
    use super::{CustomResource, Deserialize, JsonSchema, Serialize};

    #[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
    #[kube(group = "example.com", version = "v1beta1", kind = "Database", namespaced)]
    pub(super) struct DatabaseSpec {
        pub(super) size: String,
        pub(super) replicas: Option<u32>,
    }
}

impl TryFrom<v1beta1::Database> for Database {
    type Error = String;

    fn try_from(old: v1beta1::Database) -> Result<Self, Self::Error> {
        let v1beta1::DatabaseSpec { size, replicas } = old.spec;
        let storage_gib = size.strip_suffix("Gi").unwrap_or(&size).parse();
        let storage_gib =
            storage_gib.map_err(|error| format!("spec.size {size:?} is not like 10Gi: {error}"))?;
        Ok(Self { metadata: old.metadata, spec: DatabaseSpec { storage_gib, replicas } })
    }
}

impl From<Database> for v1beta1::Database {
    fn from(new: Database) -> Self {
        let DatabaseSpec { storage_gib, replicas } = new.spec;
        let spec = v1beta1::DatabaseSpec { size: format!("{storage_gib}Gi"), replicas };
        Self { metadata: new.metadata, spec }
    }
}

fn webhooks() -> Webhooks {
    Webhooks::new()
        .mutate("/mutate-example-com-v1-database", |mut database: Database, _| async move {
            database.spec.replicas.get_or_insert(1);
            Ok::<_, Denied>(database)
        })
        .validate("/validate-example-com-v1-database", |request: AdmissionRequest<Database>| async move {
            let size = |database: Option<Database>| database.map_or(0, |database| database.spec.storage_gib);
            let (old, new) = (size(request.old_object), size(request.object));
            if new < old {
                return Err(Denied::new(format!("spec.storageGib: cannot shrink from {old} to {new}")));
            }
            Ok(())
        })
        .convert("/convert", Conversion::<Database>::new().version::<v1beta1::Database>())
}

/// Serves the webhooks of Databases.
#[derive(Parser)]
struct Flags {
    /// The port of the webhooks.
    #[arg(long, default_value_t = 9443)]
    webhook_port: u16,
    /// The folder with tls.crt and tls.key.
    #[arg(long, default_value = "/certs")]
    cert_dir: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Flags { webhook_port, cert_dir } = Flags::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).init();
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let mut manager = Manager::new(Client::try_default().await?, options)?;
    let certificate =
        WebhookCertificate::Files { certificate: cert_dir.join("tls.crt"), key: cert_dir.join("tls.key") };
    let bind_address = (Ipv4Addr::UNSPECIFIED, webhook_port).into();
    manager
        .serve_webhooks(webhooks(), WebhookOptions { bind_address, ..WebhookOptions::new(certificate) })?;
    manager.run_and_exit(shutdown_signal()).await
}
