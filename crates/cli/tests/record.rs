//! `record` and `serve`: a recording contains no secret, and a server with it has the same history.

mod common;

use std::time::Duration;

use common::{Cluster, Program, mode, run};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_testserver::{Fault, RequestMatch};
use serde_json::{Value, json};
use tokio::process::Command;

fn widget(value: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": value},
        "metadata": {"name": "w", "namespace": "default"},
    })
}

fn create_widgets(cluster: &Cluster) {
    cluster.create(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    }));
    cluster.create(&widget("small"));
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-informer"));
    command.args(arguments);
    command
}

/// Starts a server with a recording. Waits until it listens.
async fn serve(cluster: &Cluster, arguments: &[&str]) -> Program {
    let (file, kubeconfig) = (cluster.path("recording"), cluster.path("kubeconfig"));
    let mut command =
        program(&["serve", file.to_str().unwrap(), "--write-kubeconfig", kubeconfig.to_str().unwrap()]);
    command.args(arguments);
    let mut server = Program::spawn(command);
    assert!(server.line().await.starts_with("serving "));
    server
}

#[tokio::test]
async fn recording_is_served_with_its_events_and_versions() {
    let cluster = Cluster::start().await;
    cluster.apply_map("a", "1", "helm");
    cluster.create_map("b", "1");
    create_widgets(&cluster);
    let file = cluster.path("recording");
    let mut recorder = cluster.spawn(&["record", "cm,widgets", "-o", file.to_str().unwrap()]);
    recorder.note("recording 3 objects").await;
    let watched = cluster.spawn(&["watch", "cm,widgets", "-ojsonl", "--initial"]);
    let mut watched = watched;
    watched.note("watching 3 objects").await;
    cluster.apply_map("a", "2", "argocd");
    cluster.delete_map("b");
    cluster.server.create_or_replace(&widget("large")).unwrap();
    let mut expected = Vec::new();
    for _ in 0..6 {
        expected.push(watched.event().await);
    }
    recorder.note("recorded 3 events").await;
    recorder.interrupt().await;
    let (code, out) = recorder.end().await;
    assert_eq!(code, 0);
    assert!(out.starts_with("recorded 3 objects of configmaps, widgets.example.com and 3 events"), "{out}");
    assert_eq!(mode(&file), 0o600);

    let server = serve(&cluster, &["--hold"]).await;
    // kubectl sends the token only over HTTPS.
    let kubeconfig: Value =
        serde_json::from_slice(&std::fs::read(cluster.path("kubeconfig")).unwrap()).unwrap();
    let address = &kubeconfig["clusters"][0]["cluster"];
    assert!(address["server"].as_str().unwrap().starts_with("https://"), "{address}");
    assert!(address["certificate-authority-data"].is_string(), "{address}");
    let mut served = cluster.spawn(&["watch", "cm,widgets", "-ojsonl", "--initial"]);
    served.note("watching 3 objects").await;
    // The end of standard input releases all events.
    let mut actual = Vec::new();
    drop(server.input);
    for _ in 0..6 {
        actual.push(served.event().await);
    }
    let comparable = |mut events: Vec<Value>| {
        events.iter_mut().for_each(|event| event["time"] = Value::Null);
        events.sort_by_key(|event| {
            (event["resourceVersion"].as_str().unwrap().len(), event["resourceVersion"].to_string())
        });
        events
    };
    assert_eq!(comparable(actual), comparable(expected));
}

#[tokio::test]
async fn secrets_and_chosen_fields_are_not_recorded() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "private-one");
    cluster.create(&json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter-one"},
        "metadata": {"name": "s", "namespace": "default"},
    }));
    let file = cluster.path("recording");
    let path = file.to_str().unwrap();
    let arguments = ["record", "cm,secrets", "-o", path, "--redact", "data.key", "--duration", "500ms"];
    let (code, out, error) = cluster.run(&arguments).await;
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("replaced: 1 value of Secrets") && out.contains("1 value of data.key"), "{out}");
    let bytes = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
    for hidden in ["private-one", "hunter-one", "aHVudGVyLW9uZQ"] {
        assert!(!bytes.contains(hidden), "{hidden}");
    }
    assert!(bytes.contains("redacted"));
}

#[tokio::test]
async fn failed_recording_keeps_earlier_file() {
    let cluster = Cluster::start().await;
    let file = cluster.path("recording");
    std::fs::write(&file, "earlier").unwrap();
    let (code, _, error) = cluster.run(&["record", "unknown", "-o", file.to_str().unwrap()]).await;
    assert_eq!(code, 1, "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "earlier");
    assert!(!cluster.path("recording.partial").exists());
}

#[tokio::test]
async fn name_of_a_format_is_not_a_file() {
    let cluster = Cluster::start().await;
    let (code, _, error) = cluster.run(&["record", "cm", "-o", "json", "--duration", "500ms"]).await;
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("--output of record is a file, and not a format"), "{error}");
}

#[tokio::test]
async fn only_forbidden_resources_are_an_error() {
    let cluster = Cluster::start().await;
    let file = cluster.path("recording");
    let arguments =
        ["record", "cm,secrets", "--as", "bob", "--duration", "60s", "-o", file.to_str().unwrap()];
    let (code, _, error) = cluster.run(&arguments).await;
    assert_eq!(code, 1, "{error}");
    assert!(error.lines().last().unwrap().starts_with("error: cannot record "), "{error}");
    assert!(!file.exists() && !cluster.path("recording.partial").exists());
}

#[tokio::test]
async fn kubeconfig_replaces_no_other_file() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    let file = cluster.path("recording");
    let path = file.to_str().unwrap();
    let (code, _, error) = cluster.run(&["record", "cm", "-o", path, "--duration", "500ms"]).await;
    assert_eq!(code, 0, "{error}");
    let recording = std::fs::read(&file).unwrap();
    let (code, _, error) = run(program(&["serve", path, "--write-kubeconfig", path])).await;
    assert_eq!(code, 1, "{error}");
    assert!(error.ends_with("the file exists, and is not a kubeconfig of a test server\n"), "{error}");
    assert!(std::fs::read(&file).unwrap() == recording, "the recording was replaced");
}

#[tokio::test]
async fn unusable_recording_is_one_line() {
    let cluster = Cluster::start().await;
    let file = cluster.path("recording");
    let path = file.to_str().unwrap();
    assert_eq!(run(program(&["serve", path])).await.0, 1);
    std::fs::write(&file, "nothing").unwrap();
    let (code, _, error) = run(program(&["serve", path])).await;
    assert_eq!((code, error.lines().count()), (1, 1), "{error}");
    assert_eq!(cluster.run(&["watch", "cm", "--once", "--checkpoint", path]).await.0, 0);
    let (code, _, error) = run(program(&["serve", path])).await;
    assert!(code == 1 && error.contains("it is not a recording"), "{error}");
    for arguments in [&["serve", path, "--speed", "0"][..], &["serve", path, "--speed", "2", "--hold"]] {
        assert_eq!(run(program(arguments)).await.0, 2);
    }
}

/// Records two ConfigMaps and one event. Returns the recording and the place of its last event.
async fn recorded_event(cluster: &Cluster) -> (Vec<u8>, usize) {
    cluster.create_map("a", "1");
    cluster.create_map("b", "1");
    let file = cluster.path("recording");
    let mut recorder = cluster.spawn(&["record", "cm", "-o", file.to_str().unwrap()]);
    recorder.note("recording 2 objects").await;
    cluster.apply_map("a", "the last value", "helm");
    recorder.note("recorded 1 event").await;
    recorder.interrupt().await;
    assert_eq!(recorder.end().await.0, 0);
    let bytes = std::fs::read(&file).unwrap();
    let value = b"the last value";
    let place = bytes.windows(value.len()).rposition(|window| window == value).unwrap();
    (bytes, place)
}

#[tokio::test]
async fn truncated_recording_is_served_with_one_note() {
    let cluster = Cluster::start().await;
    let (bytes, place) = recorded_event(&cluster).await;
    let file = cluster.path("recording");
    let path = file.to_str().unwrap();
    for (length, expected) in
        [(bytes.len() - 1, "2 objects and 1 event at"), (place, "2 objects and 0 events")]
    {
        std::fs::write(&file, &bytes[..length]).unwrap();
        let (code, out, error) = run(program(&["serve", path, "--exit", "--speed", "1000"])).await;
        assert_eq!((code, error.lines().count()), (0, 1), "{error}");
        assert!(error.starts_with(&format!("the end of {path} is missing")), "{error}");
        assert!(out.starts_with(&format!("serving {expected}")) && out.contains("all events"), "{out}");
    }
    std::fs::write(&file, &bytes).unwrap();
    let (code, _, error) = run(program(&["serve", path, "--exit", "--speed", "1000"])).await;
    assert_eq!((code, &*error), (0, ""));
}

#[tokio::test]
async fn signal_during_first_list_keeps_earlier_file() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    let file = cluster.path("recording");
    std::fs::write(&file, "earlier").unwrap();
    let arguments = ["record", "cm", "-o", file.to_str().unwrap()];
    for signal in ["-INT", "-TERM"] {
        cluster.server.faults().next(RequestMatch::any().kind::<ConfigMap>(), Fault::Hang);
        let mut recorder = cluster.spawn(&arguments);
        while cluster.server.faults().pending() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        recorder.signal(signal).await;
        recorder.note("no list was complete").await;
        assert_eq!(recorder.end().await, (130, String::new()));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "earlier");
        assert!(!cluster.path("recording.partial").exists());
    }
    let _hangs = cluster.server.faults().always(RequestMatch::any().kind::<ConfigMap>(), Fault::Hang);
    let (code, out, error) = cluster.run(&[&arguments[..], &["--duration", "200ms"]].concat()).await;
    assert_eq!((code, &*out, error.lines().count()), (1, "", 1), "{error}");
    assert!(error.contains("no list was complete") && error.contains("use a longer --duration"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "earlier");
}

/// The limit of the shell has the effect of a full disk.
#[cfg(unix)]
#[tokio::test]
async fn recording_on_full_disk_is_one_error() {
    let cluster = Cluster::start().await;
    for number in 0..100 {
        cluster.create_map(&format!("map-{number}"), &"x".repeat(4000));
    }
    let file = cluster.path("recording");
    std::fs::write(&file, "earlier").unwrap();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_kubectl-informer"),
    ]);
    command.arg("--kubeconfig").arg(cluster.path("kubeconfig"));
    command.args(["record", "cm", "-o", file.to_str().unwrap()]);
    let (code, out, error) = run(command).await;
    assert_eq!((code, &*out), (1, ""), "{error}");
    let last = error.lines().last().unwrap();
    assert!(
        last.starts_with("error: cannot access the recording") && last.contains("File too large"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "earlier");
}
