//! `watch --checkpoint` and `--since`: the changes while the program does not run.

mod common;

use common::{Cluster, mode};
use serde_json::{Value, json};

fn events(out: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|event| (text(&event["type"]), text(&event["name"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(event, name)| ((*event).to_owned(), (*name).to_owned())).collect()
}

#[tokio::test]
async fn changes_between_two_runs_are_printed() {
    let cluster = Cluster::start().await;
    for name in ["changed", "deleted", "recreated", "same"] {
        cluster.apply_map(name, "old", "helm");
    }
    let file = cluster.path("state");
    let file = file.to_str().unwrap();
    let arguments = ["watch", "cm", "-ojsonl", "--once", "--since", file, "--checkpoint", file];
    let (code, out, error) = cluster.run(&arguments).await;
    assert_eq!((code, out.as_str()), (0, ""), "{error}");
    assert_eq!(mode(file.as_ref()), 0o600);

    cluster.apply_map("changed", "new", "argocd");
    cluster.delete_map("deleted");
    cluster.delete_map("recreated");
    cluster.create_map("recreated", "1");
    cluster.create_map("zzz", "1");
    let (code, out, error) = cluster.run(&arguments).await;
    assert_eq!(code, 0, "{error}");
    let expected = [
        ("UPDATED", "changed"),
        ("DELETED", "deleted"),
        ("DELETED", "recreated"),
        ("ADDED", "recreated"),
        ("ADDED", "zzz"),
    ];
    assert_eq!(events(&out), pairs(&expected));
    let first: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    let change = json!({"path": "data.key", "before": "old", "after": "new", "managers": ["argocd"]});
    assert_eq!((&first["origin"], &first["changes"]), (&json!("missed"), &json!([change])));

    let (_, out, _) = cluster.run(&arguments).await;
    assert_eq!(out, "", "each change is printed once");
}

#[tokio::test]
async fn interrupt_saves_the_printed_state() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    let file = cluster.path("state");
    let file = file.to_str().unwrap();
    let mut program = cluster.spawn(&["watch", "cm", "-ojsonl", "--checkpoint", file]);
    program.note("watching 1 object").await;
    cluster.create_map("b", "1");
    program.event().await;
    program.interrupt().await;
    assert_eq!(program.end().await, (130, String::new()));
    cluster.delete_map("a");
    let (code, out, error) = cluster.run(&["watch", "cm", "-ojsonl", "--since", file, "--once"]).await;
    assert_eq!(code, 0, "{error}");
    assert_eq!(events(&out), pairs(&[("DELETED", "a")]));
    // Later events follow the missed events.
    let mut program = cluster.spawn(&["watch", "cm", "-ojsonl", "--since", file]);
    assert_eq!(program.event().await["origin"], "missed");
    program.note("watching").await;
    cluster.delete_map("b");
    let event = program.event().await;
    assert_eq!((&event["name"], &event["origin"]), (&json!("b"), &json!("watch")));
}

#[tokio::test]
async fn state_contains_no_secret() {
    let cluster = Cluster::start().await;
    let secret = |name: &str, value: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": {"password": value},
            "metadata": {"name": name, "namespace": "default"},
        })
    };
    cluster.create(&secret("changed", "hunter-one"));
    cluster.create(&secret("same", "hunter-one"));
    let file = cluster.path("state");
    let arguments = ["watch", "secrets", "-ojsonl", "--once", "--checkpoint", file.to_str().unwrap()];
    assert_eq!(cluster.run(&arguments).await.0, 0);
    cluster.server.create_or_replace(&secret("changed", "hunter-two")).unwrap();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    cluster.server.patch_untyped("v1", "Secret", None, "same", &label).unwrap();
    let arguments = ["watch", "secrets", "-ojsonl", "--once", "--since", file.to_str().unwrap()];
    let (code, out, error) = cluster.run(&arguments).await;
    assert_eq!(code, 0, "{error}");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["changes"][0]["path"], "data.password");
    assert_eq!(lines[0]["changes"][0]["hidden"], "changed");
    let paths: Vec<_> =
        lines[1]["changes"].as_array().unwrap().iter().map(|change| &change["path"]).collect();
    assert_eq!(paths, ["metadata.labels.a"], "unchanged values have equal hashes");
    assert!(!out.contains("hunter"));
}

#[tokio::test]
async fn unusable_state_is_rejected() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    let file = cluster.path("state");
    let path = file.to_str().unwrap();
    assert_eq!(cluster.run(&["watch", "cm", "--once", "--since", path]).await.0, 2, "missing");
    assert_eq!(cluster.run(&["watch", "cm", "--once", "--checkpoint", path]).await.0, 0);
    assert_eq!(cluster.run(&["watch", "cm", "-A", "--once", "--since", path]).await.0, 2, "other selection");
    let bytes = std::fs::read(&file).unwrap();
    for end in [0, 5, 20, bytes.len() - 1] {
        std::fs::write(&file, &bytes[..end]).unwrap();
        assert_eq!(cluster.run(&["watch", "cm", "--once", "--since", path]).await.0, 1, "{end} bytes");
    }
    let mut damaged = bytes.clone();
    let middle = bytes.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&file, damaged).unwrap();
    assert_eq!(cluster.run(&["watch", "cm", "--once", "--since", path]).await.0, 1, "damaged");
}

/// Returns a ConfigMap that is nested too deeply for a comparison of its fields.
fn deep_map(value: &str) -> Value {
    let mut deep = json!(value);
    for _ in 0..150 {
        deep = json!([deep]);
    }
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "extra": deep,
        "metadata": {"name": "deep", "namespace": "default"},
    })
}

#[tokio::test]
async fn unreadable_object_is_neither_added_nor_deleted() {
    let cluster = Cluster::start().await;
    cluster.server.store_recorded(&deep_map("old")).unwrap();
    let file = cluster.path("state");
    let file = file.to_str().unwrap();
    let mut program = cluster.spawn(&["watch", "cm", "-ojsonl", "--checkpoint", file]);
    program.note("watching 1 object").await;
    cluster.server.store_recorded(&deep_map("new")).unwrap();
    let event = program.event().await;
    assert_eq!((&event["type"], &event["changes"]), (&json!("UPDATED"), &json!([])));
    assert!(event["problem"].as_str().unwrap().contains("cannot be compared"), "{event}");
    program.interrupt().await;
    assert_eq!(program.end().await.0, 130);
    let arguments = ["watch", "cm", "-ojsonl", "--once", "--since", file];
    let (code, out, error) = cluster.run(&arguments).await;
    assert_eq!((code, out.as_str()), (0, ""), "{error}");
    cluster.server.store_recorded(&deep_map("newer")).unwrap();
    let (_, out, _) = cluster.run(&arguments).await;
    assert_eq!(events(&out), pairs(&[("UPDATED", "deep")]));
}

#[tokio::test]
async fn state_belongs_to_the_selection_and_not_to_its_spelling() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    let file = cluster.path("state");
    let path = file.to_str().unwrap();
    let arguments = ["watch", "cm,secrets", "-l", "x in (a,b),!y", "--field-selector", "metadata.name!=b"];
    let arguments = [&arguments[..], &["--once", "--checkpoint", path]].concat();
    assert_eq!(cluster.run(&arguments).await.0, 0);
    let label = json!({"metadata": {"labels": {"x": "a"}}});
    cluster.server.patch_untyped("v1", "ConfigMap", None, "a", &label).unwrap();
    for resources in ["secrets,configmaps", "secret,cm,configmap"] {
        let arguments = ["watch", resources, "--once", "--since", path, "-n", "default", "-ojsonl"];
        let selectors = ["--field-selector", "metadata.name!=b,metadata.name!=b", "-l", "!y, x in (b,a)"];
        let (code, out, error) = cluster.run(&[&arguments[..], &selectors[..]].concat()).await;
        assert_eq!(code, 0, "{resources}: {error}");
        assert_eq!(events(&out), pairs(&[("ADDED", "a")]), "{resources}");
    }
    let other = ["watch", "cm,secrets", "-l", "x in (a,c),!y", "--once", "--since", path];
    assert_eq!(cluster.run(&other).await.0, 2, "another label selector");
}

#[cfg(unix)]
#[tokio::test]
async fn special_file_is_not_replaced() {
    let cluster = Cluster::start().await;
    let socket = cluster.path("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [&socket, socket.parent().unwrap()] {
        let arguments = ["watch", "cm", "--once", "--checkpoint", path.to_str().unwrap()];
        let (code, _, error) = cluster.run(&arguments).await;
        assert!(code == 2 && error.contains("not a regular file"), "{code}: {error}");
    }
    assert!(!std::fs::metadata(&socket).unwrap().is_file());
}
