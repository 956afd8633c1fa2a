//! Runs the same scenario with each Bucket operator.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube_informer_operators::cluster::Cluster;
use kube_informer_operators::programs::{Library, Program, Replicas};
use kube_informer_operators::storage::StoredBucket;
use kube_informer_operators::storage_server::StorageServer;
use kube_testserver::{Server, Verb};
use serde_json::{Value, json};
use tokio::time::timeout;

/// The time limit for each expected change of the storage service.
const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// The number of polls or failures to wait for.
const REPEATS: u64 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_operator_on_controller_runtime() -> Result<()> {
    match Program::controller_runtime("bucket").await? {
        Some(program) => check(&program).await,
        None => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_operator_on_kube_operator() -> Result<()> {
    check(&Program::new(Library::KubeOperator, env!("CARGO_BIN_EXE_bucket-kube-operator"))).await
}

/// Two replicas share the objects. If one stops, the other takes its slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_operator_with_shards() -> Result<()> {
    let program = Program::new(Library::KubeOperator, env!("CARGO_BIN_EXE_bucket-kube-operator"));
    check(&program.sharded("bucket-shards", 2)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_operator_on_kube_rs() -> Result<()> {
    check(&Program::new(Library::KubeRs, env!("CARGO_BIN_EXE_bucket-kube-rs"))).await
}

async fn check(program: &Program) -> Result<()> {
    let cluster = Cluster::start(&[], &["bucket"]).await?;
    let storage = StorageServer::start().await?;
    let scenario = Scenario { program, cluster: &cluster, storage: &storage };
    let result = scenario.run().await;
    let log = std::fs::read_to_string(cluster.folder().join("operator.log")).unwrap_or_default();
    cluster.stop().await;
    result.with_context(|| format!("the log of the operator:\n{log}"))
}

struct Scenario<'a> {
    program: &'a Program,
    cluster: &'a Cluster,
    storage: &'a StorageServer,
}

impl Scenario<'_> {
    async fn run(&self) -> Result<()> {
        let operator = self.start()?;
        self.cluster.wait_for_shards(self.program).await?;
        self.bucket_is_created().await?;
        self.changes_are_applied().await?;
        self.drift_is_repaired().await?;
        self.use_is_reported().await?;
        self.polls_without_changes_write_nothing().await?;
        self.failures_are_retried().await?;
        operator.stop().await?;
        let operator = self.drift_while_down_is_repaired().await?;
        self.failed_deletion_is_retried().await?;
        self.bucket_is_created().await?;
        operator.stop().await?;
        let operator = self.bucket_is_deleted_while_down().await?;
        operator.stop().await
    }

    fn start(&self) -> Result<Replicas> {
        let arguments = ["--storage-url", &self.storage.url(), "--poll-seconds", "1"];
        self.program.start_replicas(&self.cluster.kubeconfig(), self.cluster.folder(), &arguments)
    }

    async fn bucket_is_created(&self) -> Result<()> {
        self.cluster.server().create(&json!({
            "apiVersion": "example.com/v1", "kind": "Bucket",
            "metadata": {"name": "logs", "namespace": "default"}, "spec": {"region": "north", "quota": 100},
        }))?;
        self.until_stored("the bucket is created", &stored(100, 0)).await?;
        self.until_status(1, 0, ("True", "Synced", "the bucket has the desired state")).await?;
        let bucket = get(self.cluster.server()).context("the Bucket exists")?;
        assert_eq!(bucket["metadata"]["finalizers"], json!(["example.com/bucket"]));
        Ok(())
    }

    async fn changes_are_applied(&self) -> Result<()> {
        self.set_quota(200)?;
        self.until_stored("the quota is changed", &stored(200, 0)).await?;
        self.until_status(2, 0, ("True", "Synced", "the bucket has the desired state")).await
    }

    async fn drift_is_repaired(&self) -> Result<()> {
        self.storage.set_bucket("default", "logs", Some(stored(1, 0)));
        self.until_stored("the quota is repaired", &stored(200, 0)).await?;
        self.storage.set_bucket("default", "logs", None);
        self.until_stored("the bucket is created again", &stored(200, 0)).await
    }

    async fn use_is_reported(&self) -> Result<()> {
        self.storage.set_bucket("default", "logs", Some(stored(200, 300)));
        let exceeded = "the bucket contains more than 200 bytes";
        self.until_status(2, 300, ("False", "QuotaExceeded", exceeded)).await?;
        self.storage.set_bucket("default", "logs", Some(stored(200, 150)));
        self.until_status(2, 150, ("True", "Synced", "the bucket has the desired state")).await
    }

    async fn polls_without_changes_write_nothing(&self) -> Result<()> {
        self.until_polled().await?;
        let mark = self.cluster.server().journal().mark();
        let puts = self.storage.requests().puts;
        self.until_polled().await?;
        assert_eq!(self.storage.requests().puts, puts);
        let is_write = |verb| matches!(verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete);
        let writes =
            self.cluster.server().journal().count_since(mark, |request| {
                is_write(request.info.verb) && request.info.resource == "buckets"
            });
        assert_eq!(writes, 0);
        Ok(())
    }

    async fn failures_are_retried(&self) -> Result<()> {
        self.storage.set_failing(true);
        self.set_quota(250)?;
        self.until_failed().await?;
        assert_eq!(self.storage.bucket("default", "logs"), Some(stored(200, 150)));
        self.storage.set_failing(false);
        self.until_stored("the quota is changed after failures", &stored(250, 150)).await?;
        self.until_status(3, 150, ("True", "Synced", "the bucket has the desired state")).await
    }

    async fn drift_while_down_is_repaired(&self) -> Result<Replicas> {
        self.storage.set_bucket("default", "logs", Some(stored(1, 10)));
        let operator = self.start()?;
        self.until_stored("the quota is repaired after a restart", &stored(250, 10)).await?;
        self.until_status(3, 10, ("True", "Synced", "the bucket has the desired state")).await?;
        Ok(operator)
    }

    async fn failed_deletion_is_retried(&self) -> Result<()> {
        self.storage.set_failing(true);
        self.delete()?;
        self.until_failed().await?;
        assert!(get(self.cluster.server()).is_some(), "the Bucket was deleted before its external bucket");
        self.storage.set_failing(false);
        self.until_deleted().await
    }

    async fn bucket_is_deleted_while_down(&self) -> Result<Replicas> {
        self.delete()?;
        let operator = self.start()?;
        self.until_deleted().await?;
        Ok(operator)
    }

    async fn until_stored(&self, what: &str, expected: &StoredBucket) -> Result<()> {
        let is_stored = |storage: &StorageServer| {
            (storage.bucket("default", "logs").as_ref() == Some(expected)).then_some(())
        };
        self.until_storage(what, is_stored).await
    }

    /// Waits until the operator has polled several times.
    async fn until_polled(&self) -> Result<()> {
        let before = self.storage.requests().gets;
        let is_polled = |storage: &StorageServer| (storage.requests().gets >= before + REPEATS).then_some(());
        self.until_storage("the operator polls", is_polled).await
    }

    /// Waits until several requests have failed.
    async fn until_failed(&self) -> Result<()> {
        let before = self.storage.requests().failed;
        let has_failed =
            |storage: &StorageServer| (storage.requests().failed >= before + REPEATS).then_some(());
        self.until_storage("the operator retries", has_failed).await
    }

    async fn until_storage<T>(
        &self,
        what: &str,
        check: impl FnMut(&StorageServer) -> Option<T>,
    ) -> Result<T> {
        let waited = timeout(WAIT_LIMIT, self.storage.wait_until(check)).await;
        waited.with_context(|| format!("timed out after {WAIT_LIMIT:?} while waiting until {what}"))
    }

    /// Waits until the Bucket is deleted, and checks that the external bucket does not exist then.
    async fn until_deleted(&self) -> Result<()> {
        let deleted = |server: &Server| get(server).is_none().then_some(());
        self.cluster.wait_until("the Bucket is deleted", deleted).await?;
        assert_eq!(self.storage.bucket("default", "logs"), None);
        Ok(())
    }

    async fn until_status(
        &self,
        generation: u64,
        used_bytes: u64,
        (status, reason, message): (&str, &str, &str),
    ) -> Result<()> {
        let is_reported = |server: &Server| {
            let bucket = get(server)?;
            let reported = &bucket["status"];
            let [condition] = reported["conditions"].as_array()?.as_slice() else { return None };
            let is_right = reported["observedGeneration"] == generation
                && reported["usedBytes"].as_u64().unwrap_or_default() == used_bytes
                && condition["type"] == "Ready"
                && condition["status"] == status
                && condition["reason"] == reason
                && condition["message"] == message
                && condition["observedGeneration"] == generation;
            is_right.then_some(())
        };
        let what = format!("generation {generation} is reported with {used_bytes} used bytes and {reason}");
        self.cluster.wait_until(&what, is_reported).await
    }

    fn set_quota(&self, quota: i64) -> Result<()> {
        let patch = json!({"spec": {"quota": quota}});
        self.cluster.server().patch_untyped("example.com/v1", "Bucket", Some("default"), "logs", &patch)?;
        Ok(())
    }

    fn delete(&self) -> Result<()> {
        self.cluster.server().delete_untyped("example.com/v1", "Bucket", Some("default"), "logs")?;
        Ok(())
    }
}

fn stored(quota: i64, used_bytes: i64) -> StoredBucket {
    StoredBucket { region: "north".to_owned(), quota, used_bytes }
}

fn get(server: &Server) -> Option<Value> {
    server.get_untyped("example.com/v1", "Bucket", Some("default"), "logs").ok()
}
