//! Runs the example `pods` on a real kube-apiserver and on the embedded server. The output must be the same.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube_client::{
    Api, Client, Config,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use kube_informer_e2e::{
    example::example,
    real::{Options, RealServer},
};
use kube_testserver::Server;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// The maximum time to wait for one line of output.
const LINE: Duration = Duration::from_secs(60);

/// The running example and the event lines it has printed.
struct Example {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    events: Vec<String>,
}

impl Example {
    async fn start(kubeconfig: &Path) -> Result<Self> {
        let mut child = Command::new(example("pods").await?)
            .args(["--cluster", "--namespace", "shop", "--duration", "forever"])
            .env("KUBECONFIG", kubeconfig)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().context("no output")?;
        Ok(Self { child, lines: BufReader::new(output).lines(), events: Vec::new() })
    }

    async fn next_line(&mut self) -> Result<String> {
        let line = tokio::time::timeout(LINE, self.lines.next_line()).await;
        line.with_context(|| format!("no output after {:?}", self.events))??.context("the example has exited")
    }

    /// Reads up to and including this line.
    async fn prints(&mut self, wanted: &str) -> Result<()> {
        loop {
            let line = self.next_line().await?;
            self.events.push(line.clone());
            if line == wanted {
                return Ok(());
            }
        }
    }

    /// Interrupts the example like Ctrl-C, and returns its last lines.
    async fn ends(mut self) -> Result<(Vec<String>, Vec<String>)> {
        let id = self.child.id().context("the process has already exited")?;
        Command::new("kill").args(["-INT", &id.to_string()]).status().await?;
        let mut summary = Vec::new();
        while let Some(line) = tokio::time::timeout(LINE, self.lines.next_line()).await?? {
            summary.push(line);
        }
        ensure!(self.child.wait().await?.success(), "a non-zero exit");
        Ok((self.events, summary))
    }
}

/// Creates, changes, deletes and recreates Pods.
async fn drive(client: Client, kubeconfig: &Path) -> Result<(Vec<String>, Vec<String>)> {
    let namespace =
        Namespace { metadata: serde_json::from_value(json!({"name": "shop"}))?, ..Namespace::default() };
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let pods: Api<Pod> = Api::namespaced(client, "shop");
    pods.create(&PostParams::default(), &pod("web-0")?).await?;

    let mut example = Example::start(kubeconfig).await?;
    example.prints("ADDED : shop/web-0").await?;
    pods.create(&PostParams::default(), &pod("web-1")?).await?;
    example.prints("ADDED : shop/web-1").await?;
    let label = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
    pods.patch("web-0", &PatchParams::default(), &label).await?;
    example.prints("MODIFIED : shop/web-0").await?;
    pods.patch("web-0", &PatchParams::default(), &label).await?; // no change, so no event follows
    pods.delete("web-1", &DeleteParams::default().grace_period(0)).await?;
    example.prints("DELETED : shop/web-1").await?;
    pods.create(&PostParams::default(), &pod("web-1")?).await?;
    example.prints("ADDED : shop/web-1").await?;
    example.ends().await
}

fn pod(name: &str) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "example/image"}]},
    }))?)
}

async fn run_on_embedded_server() -> Result<(Vec<String>, Vec<String>)> {
    let server = Server::new();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, listening.kubeconfig())?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(&kubeconfig)?, &options).await?;
    let output = drive(Client::try_from(config)?, &kubeconfig).await?;
    listening.shutdown().await;
    Ok(output)
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_example_prints_same_events_on_real_cluster() -> Result<()> {
    let (events, summary) = run_on_embedded_server().await?;
    let expected = [
        "ADDED : shop/web-0",
        "ADDED : shop/web-1",
        "MODIFIED : shop/web-0",
        "MODIFIED : shop/web-1", // the server sets deletionTimestamp before it removes the Pod
        "DELETED : shop/web-1",
        "ADDED : shop/web-1",
    ];
    assert_eq!(events, expected);
    assert!(summary.iter().any(|line| line == "  2 Pods have the label app=web"), "{summary:?}");

    let Some(server) = RealServer::start_or_skip("pods_example", 1, Options::default()).await? else {
        return Ok(());
    };
    let (events, summary) = drive(server.client().await?, server.kubeconfig()).await?;
    assert_eq!(events, expected);
    assert!(summary.iter().any(|line| line == "  2 Pods have the label app=web"), "{summary:?}");
    server.stop().await
}
