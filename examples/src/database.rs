//! The CRD `Database` with two versions, and its webhooks.

use std::num::ParseIntError;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, WebhookClientConfig, WebhookConversion,
};
use kube::{CustomResource, CustomResourceExt};
use kube_client::core::crd::{MergeError, merge_crds};
use kube_operator::webhook::{AdmissionRequest, Conversion, Denied, Webhooks};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The name of the CRD.
pub const CRD: &str = "databases.examples.kube-informer.dev";

/// A database, in the version that the API server stores.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "examples.kube-informer.dev", version = "v1", kind = "Database", namespaced)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSpec {
    /// The size of the volume in GiB.
    pub storage_gib: u32,
    /// The number of Pods. The webhook sets 1 if it is missing.
    pub replicas: Option<u32>,
}

/// The version of the first release, which clients can still use.
pub mod v1beta1 {
    use super::{CustomResource, Deserialize, JsonSchema, Serialize};

    /// A database whose size is a text.
    #[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
    #[kube(group = "examples.kube-informer.dev", version = "v1beta1", kind = "Database", namespaced)]
    pub struct DatabaseSpec {
        /// The size of the volume, for example `10Gi`.
        pub size: String,
        /// The number of Pods.
        pub replicas: Option<u32>,
    }
}

impl TryFrom<v1beta1::Database> for Database {
    type Error = String;

    fn try_from(old: v1beta1::Database) -> Result<Self, Self::Error> {
        let v1beta1::DatabaseSpec { size, replicas } = old.spec;
        let storage_gib = size.strip_suffix("Gi").unwrap_or(&size).parse();
        let storage_gib = storage_gib
            .map_err(|error: ParseIntError| format!("spec.size {size:?} is not like 10Gi: {error}"))?;
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

/// Returns the webhooks of the CRD.
pub fn webhooks() -> Webhooks {
    Webhooks::new()
        .mutate("/default", |mut database: Database, _| async move {
            database.spec.replicas.get_or_insert(1);
            Ok::<_, Denied>(database)
        })
        .validate("/validate", |request: AdmissionRequest<Database>| async move {
            let size = |database: Option<Database>| database.map_or(0, |database| database.spec.storage_gib);
            let (old, new) = (size(request.old_object), size(request.object));
            if new < old {
                return Err(Denied::invalid(format!("spec.storageGib: cannot shrink from {old} to {new}")));
            }
            Ok(())
        })
        .convert("/convert", Conversion::<Database>::new().version::<v1beta1::Database>())
}

/// Returns the CRD. `base_url` is the address of the webhooks for the API server.
///
/// # Errors
///
/// Fails if the versions of the CRD contradict each other.
pub fn crd(base_url: &str) -> Result<CustomResourceDefinition, MergeError> {
    let mut crd = merge_crds(vec![v1beta1::Database::crd(), Database::crd()], "v1")?;
    let url = Some(format!("{base_url}/convert"));
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig { url, ..WebhookClientConfig::default() }),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    });
    Ok(crd)
}

/// Returns the configurations of the admission webhooks. `base_url` is the address of the webhooks for the
/// API server.
pub fn configurations(base_url: &str) -> [Value; 2] {
    let configuration = |kind: &str, path: &str| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "databases"},
            "webhooks": [{
                "name": format!("{path}.{CRD}"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "timeoutSeconds": 5,
                "clientConfig": {"url": format!("{base_url}/{path}")},
                // The API server converts objects of other versions to v1 before it calls the webhook.
                "rules": [{
                    "apiGroups": ["examples.kube-informer.dev"], "apiVersions": ["v1"],
                    "resources": ["databases"], "operations": ["CREATE", "UPDATE"],
                }],
            }],
        })
    };
    [
        configuration("MutatingWebhookConfiguration", "default"),
        configuration("ValidatingWebhookConfiguration", "validate"),
    ]
}
