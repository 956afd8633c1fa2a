//! The Bucket operator on kube-operator.

use std::{env, sync::Arc, time::Duration};

use clap::Parser;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Client, CustomResource, ResourceExt};
use kube_informer_operators::storage::Storage;
use kube_operator::{
    Action, CachedClient, Cleanup, Controller, ElectionOptions, Failure, Finalizer, Manager, ManagerOptions,
    Reconciler, Request, ShardOptions, WriteKind, new_condition, set_condition, shutdown_signal,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Bucket", namespaced, status = "BucketStatus")]
struct BucketSpec {
    region: String,
    quota: i64,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct BucketStatus {
    observed_generation: Option<i64>,
    used_bytes: i64,
    conditions: Vec<Condition>,
}

struct Buckets {
    client: CachedClient,
    finalizer: Finalizer,
    storage: Storage,
    poll_interval: Duration,
}

impl Reconciler<Bucket> for Buckets {
    async fn reconcile(&self, request: Request<Bucket>) -> Result<Action, Failure> {
        let buckets = self.client.api_of::<Bucket>(&request.key)?;
        let delete = async |bucket: Arc<Bucket>| {
            self.storage.delete(&bucket.namespace().unwrap_or_default(), &bucket.name_any()).await?;
            Ok(Cleanup::Done)
        };
        self.finalizer.reconcile(&buckets, request.object, |bucket| self.apply(bucket), delete).await
    }
}

impl Buckets {
    /// Creates or updates the bucket in the storage service, and reports its use.
    async fn apply(&self, bucket: Arc<Bucket>) -> Result<Action, Failure> {
        let (namespace, name) = (bucket.namespace().unwrap_or_default(), bucket.name_any());
        let BucketSpec { region, quota } = &bucket.spec;
        let stored = match self.storage.get(&namespace, &name).await? {
            Some(stored) if stored.region == *region && stored.quota == *quota => stored,
            _ => self.storage.put(&namespace, &name, region, *quota).await?,
        };
        let (value, reason, message) = if stored.used_bytes > *quota {
            ("False", "QuotaExceeded", format!("the bucket contains more than {quota} bytes"))
        } else {
            ("True", "Synced", "the bucket has the desired state".into())
        };
        let condition = new_condition("Ready", value, reason, &message);
        self.client
            .patch_status(bucket, |bucket| {
                let status = bucket.status.get_or_insert_default();
                status.observed_generation = bucket.metadata.generation;
                status.used_bytes = stored.used_bytes;
                let observed_generation = bucket.metadata.generation;
                set_condition(&mut status.conditions, Condition { observed_generation, ..condition });
                Ok(())
            })
            .await?;
        Ok(Action::RequeueAfter(self.poll_interval))
    }
}

#[derive(Parser)]
struct Options {
    /// URL of the storage service.
    #[arg(long, default_value = "http://127.0.0.1:9000")]
    storage_url: String,
    /// Interval of the polls of the storage service.
    #[arg(long, default_value_t = 60)]
    poll_seconds: u64,
    /// Print the roles that the operator needs, and exit.
    #[arg(value_parser = ["rbac"])]
    command: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).init();
    let Options { storage_url, poll_seconds, command } = Options::parse();
    let client = Client::try_default().await?;
    let options = ManagerOptions {
        election: Some(ElectionOptions::new(client.default_namespace(), "bucket-operator")),
        bind_address: None,
        shards: env::var("SHARD_GROUP").ok().map(|name| ShardOptions::new(client.default_namespace(), name)),
        ..ManagerOptions::default()
    };
    let mut manager = Manager::new(client, options)?;
    let client = manager.cached_client("bucket");
    manager.require_writes::<Bucket>(&[WriteKind::Finalizer, WriteKind::PatchStatus]);
    let controller = Controller::new(&client.informer::<Bucket>()?).concurrency(4);
    let buckets = Buckets {
        client,
        finalizer: Finalizer::new("example.com/bucket"),
        storage: Storage::new(&storage_url),
        poll_interval: Duration::from_secs(poll_seconds),
    };
    manager.add_controller(controller, buckets);
    if command.is_some() {
        print!("{}", manager.rbac_roles("bucket-operator"));
        return Ok(());
    }
    manager.run_and_exit(shutdown_signal()).await
}
