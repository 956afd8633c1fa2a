//! `watch` against a test server: events, conditions and exit codes.

mod common;

use common::{Cluster, run};
use serde_json::{Value, json};
use tokio::process::Command;

fn names(event: &Value) -> (&str, &str) {
    (event["type"].as_str().unwrap(), event["name"].as_str().unwrap())
}

#[tokio::test]
async fn events_have_changes_and_managers() {
    let cluster = Cluster::start().await;
    cluster.apply_map("a", "old", "helm");
    let mut program = cluster.spawn(&["watch", "cm", "-o", "jsonl"]);
    program.note("watching 1 object of configmaps").await;
    cluster.apply_map("a", "new", "argocd");
    let event = program.event().await;
    assert_eq!(names(&event), ("UPDATED", "a"));
    assert_eq!(event["namespace"], "default");
    let change = json!({"path": "data.key", "before": "old", "after": "new", "managers": ["argocd"]});
    assert_eq!(event["changes"], json!([change]));
    cluster.create_map("b", "1");
    assert_eq!(names(&program.event().await), ("ADDED", "b"));
    cluster.delete_map("b");
    assert_eq!(names(&program.event().await), ("DELETED", "b"));
    program.interrupt().await;
    assert_eq!(program.end().await, (130, String::new()));
}

#[tokio::test]
async fn table_has_heading_and_one_line_per_event() {
    let cluster = Cluster::start().await;
    cluster.apply_map("a", "old", "helm");
    let mut program = cluster.spawn(&["watch", "cm", "--initial"]);
    assert!(program.line().await.starts_with("TIME      EVENT    RESOURCE    OBJECT"));
    assert!(program.line().await.ends_with("  ADDED    configmaps  default/a"));
    cluster.apply_map("a", "new\nline", "helm");
    assert!(program.line().await.ends_with("helm: data.key: old → new\u{fffd}line"));
}

#[tokio::test]
async fn only_flag_selects_updates_and_fields() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    let mut program = cluster.spawn(&["watch", "cm", "-ojsonl", "--only", "data.other,metadata.labels"]);
    program.note("watching").await;
    let patch = |patch: &Value| cluster.server.patch_untyped("v1", "ConfigMap", None, "a", patch).unwrap();
    patch(&json!({"data": {"key": "2"}}));
    patch(&json!({"data": {"key": "3", "other": "x"}}));
    let event = program.event().await;
    assert_eq!(event["changes"].as_array().unwrap().len(), 1);
    assert_eq!(event["changes"][0]["path"], "data.other");
}

#[tokio::test]
async fn secrets_are_never_printed() {
    let cluster = Cluster::start().await;
    let secret = |value: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": {"password": value},
            "metadata": {"name": "s", "namespace": "default", "annotations": {"copy": value}},
        })
    };
    cluster.create(&secret("hunter-one"));
    let mut program = cluster.spawn(&["watch", "secrets", "-ojsonl", "--initial"]);
    let added = program.line().await;
    cluster.server.create_or_replace(&secret("hunter-two")).unwrap();
    let updated = program.line().await;
    assert!(updated.contains("\"hidden\":\"changed\"") && updated.contains("data.password"), "{updated}");
    for hidden in ["hunter-one", "hunter-two", "aHVudGVyL"] {
        assert!(!added.contains(hidden) && !updated.contains(hidden), "{updated}");
    }
}

#[tokio::test]
async fn until_awaits_objects_that_do_not_exist() {
    let cluster = Cluster::start().await;
    let mut program = cluster.spawn(&["watch", "cm/a", "cm/b", "--until", "data.key>=3", "-ojsonl"]);
    program.note("watching 0 objects").await;
    cluster.create_map("a", "7");
    cluster.create_map("b", "2");
    program.event().await;
    program.event().await;
    cluster.apply_map("b", "12", "x");
    let (code, rest) = program.end().await;
    assert_eq!((code, rest.lines().count()), (0, 1));
}

#[tokio::test]
async fn until_has_exit_codes() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    cluster.create_map("b", "2");
    for (arguments, expected) in [
        (&["watch", "cm", "--until", "data.key=2", "--any"][..], 0),
        (&["watch", "cm", "--until", "data.key=2", "--timeout", "300ms"], 4),
        (&["watch", "cm", "none", "--until", "delete"], 0),
        (&["watch", "cm", "none", "--until", "create", "--timeout", "300ms"], 4),
        (&["watch", "cm", "--until", "a..b=1"], 2),
        (&["watch", "cm", "--timeout", "1s"], 2),
        (&["watch", "nothing"], 1),
        (&["watch", "cm", "-l", "a in b"], 2),
        (&["watch", "cm", "--once"], 0),
    ] {
        let (code, _, error) = cluster.run(arguments).await;
        assert_eq!(code, expected, "{arguments:?}: {error}");
    }
}

#[tokio::test]
async fn until_delete_waits_for_the_listed_objects() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    cluster.create_map("b", "1");
    let mut program = cluster.spawn(&["watch", "cm", "--until", "delete", "-ojsonl"]);
    program.note("watching 2 objects").await;
    cluster.create_map("new", "1");
    cluster.delete_map("a");
    cluster.delete_map("b");
    assert_eq!(program.end().await.0, 0);
}

#[tokio::test]
async fn unreachable_server_is_one_line() {
    let cluster = Cluster::start().await;
    let outage = cluster.server.outage(kube_testserver::Outage::Refused);
    let (code, out, error) = cluster.run(&["watch", "pods"]).await;
    assert_eq!((code, out.as_str(), error.lines().count()), (1, "", 1), "{error}");
    drop(outage);
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-informer"));
    command.args(["watch", "pods", "--kubeconfig", "/does/not/exist"]);
    let (code, _, error) = run(command).await;
    assert_eq!((code, error.lines().count()), (1, 1), "{error}");
}

#[tokio::test]
async fn closed_output_is_not_an_error() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    let mut program = cluster.spawn(&["watch", "cm", "--initial", "-ojsonl"]);
    program.event().await;
    program.note("watching 1 object").await;
    let common::Program { out, mut err, .. } = program;
    drop(out);
    cluster.delete_map("a");
    assert_eq!(err.next_line().await.unwrap(), None);
}
