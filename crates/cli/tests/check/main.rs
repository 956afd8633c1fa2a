//! `check` reports each problem of an account and of a server.

mod permissions;
#[path = "../program/mod.rs"]
mod program;
mod server;

use std::{io::Write as _, net::Ipv4Addr};

use anyhow::Result;
use kube_testserver::{Listening, Rights, Server, ServerBuilder};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use program::{Run, run};

/// A server with RBAC, an administrator, and some objects.
struct World {
    server: Server,
    kubeconfig: NamedTempFile,
    _listening: Listening,
}

impl World {
    async fn start() -> Result<Self> {
        Self::with(Server::builder()).await
    }

    async fn with(builder: ServerBuilder) -> Result<Self> {
        let server = builder.rbac(true).user("admin", "admin", Rights::All).build();
        let listening = server.listen((Ipv4Addr::LOCALHOST, 0).into()).await?;
        let mut kubeconfig = NamedTempFile::new()?;
        kubeconfig.write_all(listening.kubeconfig().as_bytes())?;
        let world = Self { server, kubeconfig, _listening: listening };
        world.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))?;
        for number in 0..3 {
            world.apply(config_map(&format!("map-{number}"), "x"))?;
        }
        tokio::spawn(change_other_objects(world.server.clone()));
        Ok(world)
    }

    fn apply(&self, object: Value) -> Result<()> {
        self.server.apply::<Value>(&object, "test")?;
        Ok(())
    }

    /// Runs `check` with short waits and JSON output.
    async fn check(&self, arguments: &[&str]) -> Result<Report> {
        let fixed = ["check", "-o", "json", "--wait", "1500ms"];
        let run = run(Some(self.kubeconfig.path()), &[&fixed, arguments].concat()).await?;
        let document = run.json()?;
        Ok(Report { run, document })
    }
}

/// Changes an object of another namespace, until the test ends. A server sends bookmarks only if something has changed.
async fn change_other_objects(server: Server) {
    for number in 0.. {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "default"},
            "data": {"number": number.to_string()},
        });
        if server.apply::<Value>(&object, "test").is_err() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

fn config_map(name: &str, data: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": {"a": data},
    })
}

/// The output of `check`.
struct Report {
    run: Run,
    document: Value,
}

impl Report {
    /// Returns the verdict and the detail of the worst result of a check.
    fn finding(&self, check: &str) -> (&str, &str) {
        let findings = self.document["findings"].as_array().into_iter().flatten();
        let findings = findings.filter(|finding| finding["check"] == check);
        let text = |finding: &'_ Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
        let rank = |verdict: &str| ["green", "amber", "red"].iter().position(|name| *name == verdict);
        let worst = findings.max_by_key(|finding| rank(&text(finding, "verdict")));
        let worst = worst.unwrap_or_else(|| panic!("no result of {check}: {}", self.document));
        let remedy = text(worst, "remedy");
        assert_eq!(remedy.is_empty(), worst["verdict"] == "green", "{worst}");
        (worst["verdict"].as_str().unwrap_or_default(), worst["detail"].as_str().unwrap_or_default())
    }

    /// Checks the verdict of a check, and that its detail contains a text.
    #[track_caller]
    fn expect(&self, check: &str, verdict: &str, text: &str) {
        let (actual, detail) = self.finding(check);
        assert_eq!(actual, verdict, "{check}: {detail}");
        assert!(detail.contains(text), "{check}: {detail}");
        let is_red = self.document["verdict"] == "red";
        assert_eq!(self.run.code, if is_red { 3 } else { 0 }, "{:?}", self.run);
    }
}
