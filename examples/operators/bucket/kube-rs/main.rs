//! The Bucket operator on kube-rs.

use std::{sync::Arc, time::Duration};

use clap::Parser;
use futures_util::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, Client, CustomResource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        controller::{Action, Config, Controller},
        finalizer::{self, Event, finalizer},
        watcher,
    },
};
use kube_informer_operators::storage::{Storage, StorageError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;
use tracing::{info, warn};

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Bucket", namespaced, status = "BucketStatus")]
struct BucketSpec {
    region: String,
    quota: i64,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct BucketStatus {
    observed_generation: Option<i64>,
    used_bytes: i64,
    conditions: Vec<Condition>,
}

#[derive(Debug, Error)]
enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Finalizer(Box<finalizer::Error<Error>>),
}

struct Context {
    client: Client,
    storage: Storage,
    poll_interval: Duration,
}

async fn reconcile(bucket: Arc<Bucket>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = bucket.namespace().unwrap_or_default();
    let buckets: Api<Bucket> = Api::namespaced(context.client.clone(), &namespace);
    finalizer(&buckets, "example.com/bucket", bucket, |event| async {
        match event {
            Event::Apply(bucket) => context.apply(&buckets, &bucket).await,
            Event::Cleanup(bucket) => {
                context.storage.delete(&namespace, &bucket.name_any()).await?;
                Ok(Action::await_change())
            }
        }
    })
    .await
    .map_err(|error| Error::Finalizer(Box::new(error)))
}

impl Context {
    /// Creates or updates the bucket in the storage service, and reports its use.
    async fn apply(&self, buckets: &Api<Bucket>, bucket: &Bucket) -> Result<Action, Error> {
        let (namespace, name) = (bucket.namespace().unwrap_or_default(), bucket.name_any());
        let BucketSpec { region, quota } = &bucket.spec;
        let stored = match self.storage.get(&namespace, &name).await? {
            Some(stored) if stored.region == *region && stored.quota == *quota => stored,
            _ => self.storage.put(&namespace, &name, region, *quota).await?,
        };
        let status = desired_status(bucket, stored.used_bytes);
        if bucket.status.as_ref() != Some(&status) {
            let patch = Patch::Merge(json!({ "status": status }));
            buckets.patch_status(&name, &PatchParams::default(), &patch).await?;
        }
        Ok(Action::requeue(self.poll_interval))
    }
}

fn desired_status(bucket: &Bucket, used_bytes: i64) -> BucketStatus {
    let quota = bucket.spec.quota;
    let (status, reason, message) = if used_bytes > quota {
        ("False", "QuotaExceeded", format!("the bucket contains more than {quota} bytes"))
    } else {
        ("True", "Synced", "the bucket has the desired state".into())
    };
    let conditions = bucket.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let previous =
        conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == status);
    let ready = Condition {
        type_: "Ready".into(),
        status: status.into(),
        reason: reason.into(),
        message,
        observed_generation: bucket.metadata.generation,
        last_transition_time: previous
            .map_or_else(|| Time(Timestamp::now()), |previous| previous.last_transition_time.clone()),
    };
    BucketStatus { observed_generation: bucket.metadata.generation, used_bytes, conditions: vec![ready] }
}

fn error_policy(_bucket: Arc<Bucket>, _error: &Error, _context: Arc<Context>) -> Action {
    Action::requeue(Duration::from_secs(1))
}

#[derive(Parser)]
struct Options {
    /// URL of the storage service.
    #[arg(long, default_value = "http://127.0.0.1:9000")]
    storage_url: String,
    /// Interval of the polls of the storage service.
    #[arg(long, default_value_t = 60)]
    poll_seconds: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let options = Options::parse();
    let client = Client::try_default().await?;
    let context = Context {
        client: client.clone(),
        storage: Storage::new(&options.storage_url),
        poll_interval: Duration::from_secs(options.poll_seconds),
    };
    Controller::new(Api::<Bucket>::all(client), watcher::Config::default())
        .with_config(Config::default().concurrency(4))
        .shutdown_on_signal()
        .run(reconcile, error_policy, Arc::new(context))
        .for_each(|result| async move {
            match result {
                Ok((bucket, _)) => info!("reconciled {bucket}"),
                Err(error) => warn!("reconcile failed: {error}"),
            }
        })
        .await;
    Ok(())
}
