//! Runs the same scenario with each Website operator.

use anyhow::{Context as _, Result};
use kube_informer_operators::cluster::Cluster;
use kube_informer_operators::programs::{Library, Program, Replicas};
use kube_testserver::{Server, Verb};
use serde_json::{Value, json};

const WEBSITE: (&str, &str) = ("example.com/v1", "Website");
const CONFIG_MAP: (&str, &str) = ("v1", "ConfigMap");
const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");
const SERVICE: (&str, &str) = ("v1", "Service");
const LEASE: (&str, &str) = ("coordination.k8s.io/v1", "Lease");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn website_operator_on_controller_runtime() -> Result<()> {
    match Program::controller_runtime("website").await? {
        Some(program) => check(&program).await,
        None => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn website_operator_on_kube_operator() -> Result<()> {
    check(&Program::new(Library::KubeOperator, env!("CARGO_BIN_EXE_website-kube-operator"))).await
}

/// Two replicas share the objects. If one stops, the other takes its slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn website_operator_with_shards() -> Result<()> {
    let program = Program::new(Library::KubeOperator, env!("CARGO_BIN_EXE_website-kube-operator"));
    check(&program.sharded("website-shards", 2)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn website_operator_on_kube_rs() -> Result<()> {
    check(&Program::new(Library::KubeRs, env!("CARGO_BIN_EXE_website-kube-rs"))).await
}

async fn check(program: &Program) -> Result<()> {
    let cluster = Cluster::start(&[], &["website"]).await?;
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
        let operator = self.start()?;
        self.cluster.wait_for_shards(self.program).await?;
        self.children_are_created().await?;
        self.lease(true).await?;
        self.readiness_is_reported().await?;
        self.changes_are_applied().await?;
        self.drift_is_repaired().await?;
        operator.stop().await?;
        self.lease(false).await?;
        let operator = self.changes_while_down_are_applied().await?;
        operator.stop().await?;
        let operator = self.restart_changes_nothing().await?;
        self.children_are_collected().await?;
        operator.stop().await
    }

    fn start(&self) -> Result<Replicas> {
        self.program.start_replicas(&self.cluster.kubeconfig(), self.cluster.folder(), &[])
    }

    async fn children_are_created(&self) -> Result<()> {
        create(self.cluster.server(), "home")?;
        let map = self.until("the ConfigMap exists", CONFIG_MAP, |_| true).await?;
        assert_eq!(map["data"], json!({"index.html": "hello"}));
        let deployment = self.until("the Deployment exists", DEPLOYMENT, |_| true).await?;
        assert_eq!(deployment["spec"]["replicas"], 2);
        assert_eq!(deployment["spec"]["selector"]["matchLabels"], json!({"app": "home"}));
        let pod = &deployment["spec"]["template"];
        assert_eq!(pod["metadata"]["labels"], json!({"app": "home"}));
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["name"], "server");
        assert_eq!(container["image"], "web:1");
        assert_eq!(container["ports"][0]["containerPort"], 8080);
        let mount = json!([{"name": "html", "mountPath": "/srv", "readOnly": true}]);
        assert_eq!(container["volumeMounts"], mount);
        assert_eq!(pod["spec"]["volumes"][0]["name"], "html");
        assert_eq!(pod["spec"]["volumes"][0]["configMap"]["name"], "home");
        let service = self.until("the Service exists", SERVICE, |_| true).await?;
        assert_eq!(service["spec"]["clusterIP"], "None");
        assert_eq!(service["spec"]["selector"], json!({"app": "home"}));
        assert_eq!(service["spec"]["ports"][0]["port"], 80);
        assert_eq!(service["spec"]["ports"][0]["targetPort"], 8080);
        let uid = &get(self.cluster.server(), WEBSITE).context("the Website exists")?["metadata"]["uid"];
        for child in [map, deployment, service] {
            assert_eq!(child["metadata"]["labels"], json!({"app": "home"}));
            let owners = child["metadata"]["ownerReferences"].as_array().context("the child has owners")?;
            assert_eq!(owners.len(), 1, "{owners:?}");
            assert_eq!(owners[0]["uid"], *uid);
            assert_eq!(owners[0]["kind"], "Website");
            assert_eq!(owners[0]["controller"], true);
        }
        self.until_status(1, 0, ("False", "Progressing", "0 of 2 replicas are ready")).await
    }

    /// Waits until the lease is held or released. On kube-rs, the operators do not use a lease.
    async fn lease(&self, is_held: bool) -> Result<()> {
        if !self.program.library.elects() {
            return Ok(());
        }
        let what = if is_held { "the operator is the leader" } else { "the lease is released" };
        let holder = |server: &Server| {
            let lease = server.get_untyped(LEASE.0, LEASE.1, Some("default"), "website-operator").ok()?;
            let has_holder =
                lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
            (has_holder == is_held).then_some(())
        };
        self.cluster.wait_until(what, holder).await
    }

    async fn readiness_is_reported(&self) -> Result<()> {
        self.set_ready_replicas(1)?;
        self.until_status(1, 1, ("False", "Progressing", "1 of 2 replicas are ready")).await?;
        self.set_ready_replicas(2)?;
        self.until_status(1, 2, ("True", "Available", "2 of 2 replicas are ready")).await
    }

    async fn changes_are_applied(&self) -> Result<()> {
        self.patch(WEBSITE, &json!({"spec": {"html": "bye", "image": "web:2", "replicas": 3}}))?;
        self.until("the page changes", CONFIG_MAP, |map| map["data"]["index.html"] == "bye").await?;
        let changed = |deployment: &Value| {
            let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
            deployment["spec"]["replicas"] == 3 && image == "web:2"
        };
        self.until("the Deployment changes", DEPLOYMENT, changed).await?;
        self.until_status(2, 2, ("False", "Progressing", "2 of 3 replicas are ready")).await?;
        self.set_ready_replicas(3)?;
        self.until_status(2, 3, ("True", "Available", "3 of 3 replicas are ready")).await
    }

    async fn drift_is_repaired(&self) -> Result<()> {
        self.patch(CONFIG_MAP, &json!({"data": {"index.html": "drift"}}))?;
        self.until("the page is repaired", CONFIG_MAP, |map| map["data"]["index.html"] == "bye").await?;
        self.patch(DEPLOYMENT, &json!({"spec": {"replicas": 9}}))?;
        let repaired = |deployment: &Value| deployment["spec"]["replicas"] == 3;
        self.until("the Deployment is repaired", DEPLOYMENT, repaired).await?;
        self.patch(SERVICE, &json!({"spec": {"selector": {"app": "drift"}}}))?;
        let repaired = |service: &Value| service["spec"]["selector"]["app"] == "home";
        self.until("the Service is repaired", SERVICE, repaired).await?;
        let before = get(self.cluster.server(), SERVICE).context("the Service exists")?;
        self.cluster.server().delete_untyped(SERVICE.0, SERVICE.1, Some("default"), "home")?;
        let created = |service: &Value| service["metadata"]["uid"] != before["metadata"]["uid"];
        self.until("the Service is created again", SERVICE, created).await?;
        Ok(())
    }

    async fn changes_while_down_are_applied(&self) -> Result<Replicas> {
        self.patch(WEBSITE, &json!({"spec": {"html": "back"}}))?;
        self.patch(DEPLOYMENT, &json!({"spec": {"replicas": 9}}))?;
        self.cluster.server().delete_untyped(SERVICE.0, SERVICE.1, Some("default"), "home")?;
        let operator = self.start()?;
        self.until("the page changes", CONFIG_MAP, |map| map["data"]["index.html"] == "back").await?;
        let repaired = |deployment: &Value| deployment["spec"]["replicas"] == 3;
        self.until("the Deployment is repaired", DEPLOYMENT, repaired).await?;
        self.until("the Service is created again", SERVICE, |_| true).await?;
        self.until_status(3, 3, ("True", "Available", "3 of 3 replicas are ready")).await?;
        Ok(operator)
    }

    /// Restarts the operator. After the second repair, the first reconcile of the Website is complete.
    async fn restart_changes_nothing(&self) -> Result<Replicas> {
        let versions = || {
            [WEBSITE, DEPLOYMENT, SERVICE].map(|kind| {
                get(self.cluster.server(), kind).map(|object| object["metadata"]["resourceVersion"].clone())
            })
        };
        let (before, mark) = (versions(), self.cluster.server().journal().mark());
        self.patch(CONFIG_MAP, &json!({"data": {"index.html": "drift"}}))?;
        let operator = self.start()?;
        self.until("the page is repaired", CONFIG_MAP, |map| map["data"]["index.html"] == "back").await?;
        self.patch(CONFIG_MAP, &json!({"data": {"index.html": "drift"}}))?;
        self.until("the page is repaired again", CONFIG_MAP, |map| map["data"]["index.html"] == "back")
            .await?;
        assert_eq!(versions(), before);
        let is_write = |verb| matches!(verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete);
        let writes =
            self.cluster.server().journal().count_since(mark, |request| {
                is_write(request.info.verb) && request.info.resource == "websites"
            });
        assert_eq!(writes, 0, "an unchanged status was written");
        Ok(operator)
    }

    async fn children_are_collected(&self) -> Result<()> {
        self.cluster.server().delete_untyped(WEBSITE.0, WEBSITE.1, Some("default"), "home")?;
        let is_empty = |server: &Server| {
            let exists = [WEBSITE, CONFIG_MAP, DEPLOYMENT, SERVICE].map(|kind| get(server, kind).is_some());
            (!exists.contains(&true)).then_some(())
        };
        self.cluster.wait_until("the Website and its children are deleted", is_empty).await
    }

    async fn until(
        &self,
        what: &str,
        kind: (&str, &str),
        mut check: impl FnMut(&Value) -> bool,
    ) -> Result<Value> {
        self.cluster.wait_until(what, |server| get(server, kind).filter(&mut check)).await
    }

    async fn until_status(
        &self,
        generation: u64,
        replicas: u64,
        (status, reason, message): (&str, &str, &str),
    ) -> Result<()> {
        let is_reported = |website: &Value| {
            let reported = &website["status"];
            let [condition] = reported["conditions"].as_array().map_or(&[][..], Vec::as_slice) else {
                return false;
            };
            reported["observedGeneration"] == generation
                && reported["readyReplicas"].as_u64().unwrap_or_default() == replicas
                && condition["type"] == "Ready"
                && condition["status"] == status
                && condition["reason"] == reason
                && condition["message"] == message
                && condition["observedGeneration"] == generation
        };
        let what = format!("generation {generation} is reported with {message:?}");
        self.until(&what, WEBSITE, is_reported).await?;
        Ok(())
    }

    /// Sets the number of ready replicas in the status of the Deployment.
    fn set_ready_replicas(&self, replicas: u64) -> Result<()> {
        let mut deployment = get(self.cluster.server(), DEPLOYMENT).context("the Deployment exists")?;
        deployment["status"] = json!({"replicas": replicas, "readyReplicas": replicas});
        self.cluster.server().update_status(&deployment)?;
        Ok(())
    }

    fn patch(&self, (api_version, kind): (&str, &str), patch: &Value) -> Result<()> {
        self.cluster.server().patch_untyped(api_version, kind, Some("default"), "home", patch)?;
        Ok(())
    }
}

fn create(server: &Server, name: &str) -> Result<()> {
    server.create(&json!({
        "apiVersion": WEBSITE.0, "kind": WEBSITE.1, "metadata": {"name": name, "namespace": "default"},
        "spec": {"image": "web:1", "replicas": 2, "html": "hello"},
    }))?;
    Ok(())
}

fn get(server: &Server, (api_version, kind): (&str, &str)) -> Option<Value> {
    server.get_untyped(api_version, kind, Some("default"), "home").ok()
}
