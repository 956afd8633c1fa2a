//! Runs the same scenario with each Secret mirror.

use anyhow::{Context as _, Result};
use kube_informer_operators::cluster::Cluster;
use kube_informer_operators::programs::{Library, Program, Replicas};
use kube_testserver::Server;
use serde_json::{Value, json};

/// The namespace of the source.
const TEAM: &str = "team";
const FINALIZER: &str = "example.com/mirror";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secret_mirror_on_controller_runtime() -> Result<()> {
    match Program::controller_runtime("secret-mirror").await? {
        Some(program) => check(&program).await,
        None => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secret_mirror_on_kube_operator() -> Result<()> {
    check(&Program::new(Library::KubeOperator, env!("CARGO_BIN_EXE_secret-mirror-kube-operator"))).await
}

/// Two replicas share the objects. If one stops, the other takes its slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secret_mirror_with_shards() -> Result<()> {
    let program = Program::new(Library::KubeOperator, env!("CARGO_BIN_EXE_secret-mirror-kube-operator"));
    check(&program.sharded("secret-mirror-shards", 2)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secret_mirror_on_kube_rs() -> Result<()> {
    check(&Program::new(Library::KubeRs, env!("CARGO_BIN_EXE_secret-mirror-kube-rs"))).await
}

async fn check(program: &Program) -> Result<()> {
    let cluster = Cluster::start(&[TEAM, "a", "b", "c"], &[]).await?;
    let scenario = Scenario { program, cluster: &cluster };
    let result = scenario.run().await;
    let log = std::fs::read_to_string(cluster.folder().join("operator.log")).unwrap_or_default();
    cluster.stop().await;
    result.with_context(|| format!("the log of the operator:\n{log}"))
}

struct Scenario<'a> {
    program: &'a Program,
    cluster: &'a Cluster,
}

impl Scenario<'_> {
    async fn run(&self) -> Result<()> {
        let plain = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plain", "namespace": TEAM},
            "data": {"key": "b2xk"},
        });
        let plain = self.cluster.server().create(&plain)?;
        let operator = self.start()?;
        self.cluster.wait_for_shards(self.program).await?;
        self.copies_are_created().await?;
        self.changes_are_copied().await?;
        self.drift_is_repaired().await?;
        self.namespaces_are_changed().await?;
        self.other_secret_is_not_overwritten(&operator).await?;
        self.label_is_removed().await?;
        self.label_is_added("a, b").await?;
        operator.stop().await?;
        let operator = self.label_is_removed_while_down().await?;
        self.label_is_added("a,c").await?;
        operator.stop().await?;
        let operator = self.source_is_deleted_while_down().await?;
        self.copies_are_created().await?;
        self.delete(TEAM)?;
        self.until_deleted().await?;
        assert_eq!(self.cluster.server().get_untyped("v1", "Secret", Some(TEAM), "plain")?, plain);
        operator.stop().await
    }

    fn start(&self) -> Result<Replicas> {
        self.program.start_replicas(&self.cluster.kubeconfig(), self.cluster.folder(), &[])
    }

    async fn copies_are_created(&self) -> Result<()> {
        self.cluster.server().create(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "example.com/token",
            "metadata": {
                "name": "token", "namespace": TEAM, "labels": {"example.com/mirror": "true"},
                // The own namespace and empty names are ignored.
                "annotations": {"example.com/namespaces": "a, b,, team"},
            },
            "data": {"key": "b2xk", "removed": "eA=="},
        }))?;
        self.until_copied(&["a", "b"], "b2xk").await?;
        for namespace in ["a", "b"] {
            let copy = get(self.cluster.server(), namespace).context("the copy exists")?;
            assert_eq!(copy["metadata"]["labels"], json!({"example.com/mirrored-from": TEAM}));
            assert_eq!(copy["type"], "example.com/token");
            assert_eq!(copy["data"], json!({"key": "b2xk", "removed": "eA=="}));
            assert!(copy["metadata"].get("finalizers").is_none(), "{copy}");
        }
        let source = get(self.cluster.server(), TEAM).context("the source exists")?;
        assert_eq!(source["metadata"]["finalizers"], json!([FINALIZER]));
        Ok(())
    }

    async fn changes_are_copied(&self) -> Result<()> {
        self.patch(TEAM, &json!({"data": {"key": "bmV3", "removed": null}}))?;
        self.until_copied(&["a", "b"], "bmV3").await?;
        for namespace in ["a", "b"] {
            let copy = get(self.cluster.server(), namespace).context("the copy exists")?;
            assert_eq!(copy["data"], json!({"key": "bmV3"}));
        }
        Ok(())
    }

    async fn drift_is_repaired(&self) -> Result<()> {
        self.patch("a", &json!({"data": {"key": "ZHJpZnQ="}}))?;
        self.until_copied(&["a", "b"], "bmV3").await?;
        self.delete("b")?;
        self.until_copied(&["a", "b"], "bmV3").await
    }

    async fn namespaces_are_changed(&self) -> Result<()> {
        self.annotate("b,c")?;
        self.until_copied(&["b", "c"], "bmV3").await
    }

    /// Creates another Secret with the name of a copy, and waits for the failure in the log.
    async fn other_secret_is_not_overwritten(&self, operator: &Replicas) -> Result<()> {
        let other = self.cluster.server().create(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": "a"},
            "data": {"key": "b3RoZXI="},
        }))?;
        self.annotate("b,a")?;
        self.patch(TEAM, &json!({"data": {"key": "dGhpcmQ="}}))?;
        let copied = |server: &Server| {
            let is_copied = data(server, "b") == "dGhpcmQ=" && get(server, "c").is_none();
            is_copied.then_some(())
        };
        self.cluster.wait_until("the copy in b is changed, and the copy in c is deleted", copied).await?;
        operator.wait_for_log("a/token").await?;
        assert_eq!(get(self.cluster.server(), "a"), Some(other));
        self.delete("a")?;
        self.until_copied(&["a", "b"], "dGhpcmQ=").await
    }

    async fn label_is_removed(&self) -> Result<()> {
        self.patch(TEAM, &json!({"metadata": {"labels": {"example.com/mirror": null}}}))?;
        self.until_released().await
    }

    async fn label_is_added(&self, namespaces: &str) -> Result<()> {
        self.annotate(namespaces)?;
        self.patch(TEAM, &json!({"metadata": {"labels": {"example.com/mirror": "true"}}}))?;
        let namespaces: Vec<&str> = namespaces.split(',').map(str::trim).collect();
        self.until_copied(&namespaces, "dGhpcmQ=").await
    }

    async fn label_is_removed_while_down(&self) -> Result<Replicas> {
        self.patch(TEAM, &json!({"metadata": {"labels": {"example.com/mirror": null}}}))?;
        let operator = self.start()?;
        self.until_released().await?;
        Ok(operator)
    }

    async fn source_is_deleted_while_down(&self) -> Result<Replicas> {
        self.delete(TEAM)?;
        assert!(get(self.cluster.server(), TEAM).is_some(), "the finalizer did not block the deletion");
        let operator = self.start()?;
        self.until_deleted().await?;
        Ok(operator)
    }

    /// Waits until exactly these namespaces contain a copy with this value.
    async fn until_copied(&self, namespaces: &[&str], value: &str) -> Result<()> {
        let copied = |server: &Server| {
            let is_right = |namespace: &&str| match get(server, namespace) {
                Some(_) => namespaces.contains(namespace) && data(server, namespace) == value,
                None => !namespaces.contains(namespace),
            };
            ["a", "b", "c"].iter().all(is_right).then_some(())
        };
        let what = format!("exactly the namespaces {namespaces:?} have a copy with {value:?}");
        self.cluster.wait_until(&what, copied).await
    }

    /// Waits until the source exists without finalizer and copies.
    async fn until_released(&self) -> Result<()> {
        let released = |server: &Server| {
            let source = get(server, TEAM)?;
            (!has_finalizer(&source) && has_no_copy(server)).then_some(())
        };
        self.cluster.wait_until("the source is released", released).await?;
        let source = get(self.cluster.server(), TEAM).context("the source exists")?;
        assert_eq!(source["data"], json!({"key": "dGhpcmQ="}));
        Ok(())
    }

    /// Waits until the source is deleted, and checks that no copy exists then.
    async fn until_deleted(&self) -> Result<()> {
        let deleted = |server: &Server| get(server, TEAM).is_none().then(|| has_no_copy(server));
        let has_no_copy = self.cluster.wait_until("the source is deleted", deleted).await?;
        assert!(has_no_copy, "the source was deleted before its copies");
        Ok(())
    }

    fn annotate(&self, namespaces: &str) -> Result<()> {
        self.patch(TEAM, &json!({"metadata": {"annotations": {"example.com/namespaces": namespaces}}}))
    }

    fn patch(&self, namespace: &str, patch: &Value) -> Result<()> {
        self.cluster.server().patch_untyped("v1", "Secret", Some(namespace), "token", patch)?;
        Ok(())
    }

    fn delete(&self, namespace: &str) -> Result<()> {
        self.cluster.server().delete_untyped("v1", "Secret", Some(namespace), "token")?;
        Ok(())
    }
}

fn get(server: &Server, namespace: &str) -> Option<Value> {
    server.get_untyped("v1", "Secret", Some(namespace), "token").ok()
}

fn data(server: &Server, namespace: &str) -> String {
    let secret = get(server, namespace).unwrap_or_default();
    secret["data"]["key"].as_str().unwrap_or_default().to_owned()
}

fn has_finalizer(secret: &Value) -> bool {
    secret["metadata"]["finalizers"].as_array().is_some_and(|names| names.contains(&json!(FINALIZER)))
}

fn has_no_copy(server: &Server) -> bool {
    ["a", "b", "c"].iter().all(|namespace| get(server, namespace).is_none())
}
