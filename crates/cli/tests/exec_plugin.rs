//! A kubeconfig with an exec plugin that does not respond.
#![cfg(unix)]

mod common;

use std::{os::unix::fs::PermissionsExt as _, path::Path, process::Stdio, time::Duration};

use serde_json::json;
use tokio::{process::Command, time::timeout};

const MAX_WAIT: Duration = Duration::from_secs(60);

/// Writes a plugin, and a kubeconfig for the server at this address with the plugin.
fn write_plugin(folder: &Path, script: &str, address: &str) {
    let path = |name: &str| folder.join(name);
    std::fs::write(path("plugin"), script).unwrap();
    std::fs::set_permissions(path("plugin"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": path("plugin"), "interactiveMode": "Never",
    });
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "users": [{"name": "a", "user": {"exec": exec}}],
    });
    std::fs::write(path("kubeconfig"), kubeconfig.to_string()).unwrap();
}

#[tokio::test]
async fn interrupt_stops_program_while_plugin_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // The plugin runs until the test removes the folder.
    let script = "#!/bin/sh\ntrap '' INT\ncd \"$(dirname \"$0\")\"\ntouch started\nwhile [ -e started ]; do sleep 0.1; done\n";
    write_plugin(folder.path(), script, "127.0.0.1:9");
    for command in [&["cost"][..], &["check"], &["why", "--url", "http://127.0.0.1:9", "--kubeconfig-token"]]
    {
        let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-informer"));
        program.args(command).arg("--kubeconfig").arg(path("kubeconfig")).kill_on_drop(true);
        let mut child =
            program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while !path("started").exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let id = child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().await.unwrap().success());
        let status = timeout(MAX_WAIT, child.wait()).await.expect("the program exits").unwrap();
        assert_eq!(status.code(), Some(130), "{command:?}");
        std::fs::remove_file(path("started")).unwrap();
    }
}

/// Writes a kubeconfig with a plugin that counts its runs and prints a token.
fn write_counting_plugin(cluster: &common::Cluster, expiry: &str) {
    let status = format!("{{\"token\": \"admin\"{expiry}}}");
    let credential = format!(
        "{{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {status}}}"
    );
    let script = format!("#!/bin/sh\necho run >>\"$(dirname \"$0\")/runs\"\necho '{credential}'\n");
    write_plugin(cluster.folder.path(), &script, &cluster.address().to_string());
}

#[tokio::test]
async fn plugin_runs_once_at_the_start() {
    for expiry in ["", ", \"expirationTimestamp\": \"2999-01-01T00:00:00Z\""] {
        for arguments in [&["watch", "cm", "--once"][..], &["check", "cm"], &["cost", "cm"]] {
            let cluster = common::Cluster::start().await;
            write_counting_plugin(&cluster, expiry);
            let (code, _, error) = cluster.run(arguments).await;
            assert_eq!(code, 0, "{arguments:?}: {error}");
            let runs = std::fs::read_to_string(cluster.path("runs")).unwrap();
            assert_eq!(runs, "run\n", "{arguments:?} {expiry}");
        }
    }
}
