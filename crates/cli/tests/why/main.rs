//! `why` reads running programs, and explains the reason if it cannot read a program.

mod documentation;
mod hostile;
mod pods;
#[path = "../program/mod.rs"]
mod program;

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Client;
use kube_operator::{Action, Controller, ElectionOptions, Failure, Manager, ManagerOptions, Request};
use kube_testserver::Server;
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle};

use program::{Run, run};

/// A running operator with a controller of ConfigMaps. The reconciles of `shop/broken` fail, and the ones of
/// `shop/slow` do not end.
struct Operator {
    server: Server,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), kube_operator::ManagerError>>,
}

impl Operator {
    async fn start(election: Option<ElectionOptions>) -> Result<Self> {
        let server = Server::new();
        server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))?;
        for name in ["broken", "slow", "good"] {
            let metadata = json!({"name": name, "namespace": "shop"});
            server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))?;
        }
        let options = ManagerOptions {
            bind_address: Some((Ipv4Addr::LOCALHOST, 0).into()),
            explain_changes: true,
            election,
            graceful_shutdown_timeout: Duration::from_millis(10),
            ..ManagerOptions::default()
        };
        let mut manager = Manager::new(Client::new(server.service(), "shop"), options)?;
        let maps = manager.factory().informer::<ConfigMap>()?;
        manager.add_controller(Controller::new(&maps).named("config maps").concurrency(4), reconcile);
        let address = manager.local_address().context("the pages have an address")?;
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(manager.run(async {
            let _ = stopped.await;
        }));
        Ok(Self { server, address, stop, running })
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Runs `why` until its output has the property.
    async fn until(&self, arguments: &[&str], is_expected: impl Fn(&Run) -> bool) -> Result<Run> {
        let url = self.url();
        loop {
            let run = run(None, &[&["why", "--url", &url], arguments].concat()).await?;
            if is_expected(&run) {
                return Ok(run);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn stop(self) -> Result<()> {
        let _ = self.stop.send(());
        // The slow reconcile does not end.
        let _ = self.running.await?;
        Ok(())
    }
}

async fn reconcile(request: Request<ConfigMap>) -> Result<Action, Failure> {
    match request.key.name() {
        "broken" => Err(Failure::from("no\u{1b}[31m such colour")),
        "slow" => std::future::pending().await,
        _ => Ok(Action::Done),
    }
}

#[tokio::test]
async fn overview_contains_queues_failures_and_slow_keys() -> Result<()> {
    let operator = Operator::start(None).await?;
    let run =
        operator.until(&[], |run| run.out.contains("FAILED KEY") && run.out.contains("RUNNING KEY")).await?;
    for text in ["config maps", "shop/broken", "shop/slow", "such colour", "no election"] {
        assert!(run.out.contains(text), "{text}: {run:?}");
    }
    assert!(!run.out.contains('\u{1b}'), "{run:?}");
    let run = operator.until(&["-o", "json", "config maps"], |run| run.code == 0).await?;
    let queue = run.json()?["programs"][0]["queues"][0].clone();
    assert_eq!(queue["failed"][0]["key"], "shop/broken", "{run:?}");
    assert_eq!(queue["running"][0]["key"], "shop/slow", "{run:?}");
    operator.stop().await
}

#[tokio::test]
async fn explanation_contains_error_reasons_and_changes() -> Result<()> {
    let operator = Operator::start(None).await?;
    let key = ["config maps", "shop/broken"];
    operator.until(&key, |run| run.out.contains("last reconcile: failed")).await?;
    let patch = json!({"data": {"password": "hunter2"}});
    let changed = loop {
        operator.server.patch_untyped("v1", "ConfigMap", Some("shop"), "broken", &patch)?;
        let run = operator.until(&[&key[..], &["-o", "yaml"]].concat(), |run| run.code == 0).await?;
        // A retry of the key can hide the change.
        if run.out.contains("data.password") {
            break run;
        }
        operator.server.patch_untyped("v1", "ConfigMap", Some("shop"), "broken", &json!({"data": null}))?;
    };
    assert!(changed.out.contains("ConfigMap was updated"), "{changed:?}");
    assert!(!changed.out.contains("hunter2"), "{changed:?}");
    let slow = operator.until(&["config maps", "shop/slow"], |run| run.code == 0).await?;
    assert!(slow.out.contains("state: being reconciled for"), "{slow:?}");
    operator.stop().await
}

#[tokio::test]
async fn unknown_controller_and_key_are_errors() -> Result<()> {
    let operator = Operator::start(None).await?;
    operator.until(&[], |run| run.out.contains("config maps")).await?;
    let url = operator.url();
    for (arguments, text) in [
        (&["pods", "shop/a"][..], "unknown controller pods; use one of: config maps"),
        (&["pods"], "has no controller pods; it has: config maps"),
        (&["config maps", "shop/absent?x=/../../healthz"], "is not queued"),
    ] {
        let run = run(None, &[&["why", "--url", &url], arguments].concat()).await?;
        assert!(run.error_line(1).contains(text), "{run:?}");
    }
    operator.stop().await
}

#[tokio::test]
async fn leader_is_reported_as_leader() -> Result<()> {
    let election = ElectionOptions::new("shop", "web");
    let operator = Operator::start(Some(election)).await?;
    let run = operator.until(&["-o", "json"], |run| run.out.contains("\"leader\"")).await?;
    let program = run.json()?["programs"][0].clone();
    assert_eq!(program["role"], "leader", "{program}");
    operator.stop().await
}

#[tokio::test]
async fn demo_contains_failing_key_with_history() -> Result<()> {
    let demo = run(None, &["why", "--demo"]).await?;
    assert!(demo.code == 0 && demo.out.contains("shop/payments"), "{demo:?}");
    let demo = run(None, &["why", "--demo", "prices", "shop/payments", "-o", "json"]).await?;
    let explanation: Value = demo.json()?["programs"][0]["explanation"].clone();
    assert!(explanation["failures"].as_u64() >= Some(4), "{explanation}");
    Ok(())
}
