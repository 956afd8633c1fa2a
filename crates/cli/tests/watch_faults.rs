//! `watch` under faults: no deletion is missed, and one failing resource does not affect the others.

mod common;

use std::collections::BTreeSet;

use common::Cluster;
use kube_testserver::{Fault, RequestMatch, Status};
use serde_json::{Value, json};

/// Deletes an object whose watch event gets lost, and lets the watch expire.
async fn expire_with_deletion(cluster: &Cluster, name: &str) {
    let watches = RequestMatch::any().resource("configmaps");
    // The program prints that it has listed the objects before its watch is open.
    while cluster.server.open_watches() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(cluster.server.lose_next_event(&watches), 1);
    cluster.delete_map(name);
    cluster.server.fail_watches(&watches, Status::expired());
}

#[tokio::test]
async fn ten_expiries_miss_no_deletion() {
    let cluster = Cluster::start().await;
    for number in 0..10 {
        cluster.create_map(&format!("map-{number}"), "1");
    }
    let mut program = cluster.spawn(&["watch", "cm", "-ojsonl"]);
    program.note("watching 10 objects").await;
    let mut deleted = BTreeSet::new();
    for number in 0..10 {
        expire_with_deletion(&cluster, &format!("map-{number}")).await;
        let event = program.event().await;
        assert_eq!((&event["type"], &event["origin"]), (&json!("DELETED"), &json!("relist")));
        assert!(deleted.insert(event["name"].as_str().unwrap().to_owned()));
        let note = program.note("relisted in").await;
        assert!(
            note.starts_with("watch of configmaps expired") && note.ends_with("1 deletion found"),
            "{note}"
        );
    }
    assert_eq!(deleted.len(), 10);
}

#[tokio::test]
async fn restart_and_closed_watches_lose_and_repeat_no_event() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "0");
    let mut program = cluster.spawn(&["watch", "cm", "-ojsonl"]);
    program.note("watching 1 object").await;
    for number in 1..=6 {
        match number % 3 {
            0 => cluster.server.restart(),
            1 => _ = cluster.server.cut_watches(&RequestMatch::any()),
            _ => _ = cluster.server.close_watches(),
        }
        cluster.apply_map("a", &number.to_string(), "x");
        let event = program.event().await;
        let change = &event["changes"][0];
        let values = (change["before"].as_str().unwrap(), change["after"].as_str().unwrap());
        assert_eq!(values, (&*(number - 1).to_string(), &*number.to_string()), "{event}");
    }
}

fn role(resource: &str) -> [Value; 2] {
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": resource, "namespace": "default"});
    [
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["list", "watch"]}],
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": resource},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}],
        }),
    ]
}

#[tokio::test]
async fn forbidden_resource_is_one_line_and_others_continue() {
    let cluster = Cluster::start().await;
    role("configmaps").into_iter().for_each(|object| cluster.create(&object));
    let mut program = cluster.spawn(&["watch", "secrets,cm", "--as", "bob", "-ojsonl"]);
    program.note("cannot watch secrets: permission denied (403)").await;
    program.note("watching 0 objects of configmaps").await;
    cluster.create_map("a", "1");
    assert_eq!(program.event().await["name"], "a");
    // The permission is granted later.
    role("secrets").into_iter().for_each(|object| cluster.create(&object));
    program.note("watch of secrets continues").await;
    cluster.create(
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}),
    );
    assert_eq!(program.event().await["resource"], "secrets");
}

#[tokio::test]
async fn only_forbidden_resources_end_the_program() {
    let cluster = Cluster::start().await;
    let (code, _, error) = cluster.run(&["watch", "secrets,cm", "--as", "bob"]).await;
    assert_eq!(code, 1, "{error}");
    let last = error.lines().last().unwrap();
    assert!(last.starts_with("error: cannot watch ") && last.contains("403"), "{error}");
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

#[tokio::test]
async fn removed_crd_is_awaited() {
    let cluster = Cluster::start().await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}});
    cluster.create(&crd());
    cluster.create(&widget);
    let mut program = cluster.spawn(&["watch", "widgets,cm", "-ojsonl"]);
    program.note("watching 1 object").await;
    cluster
        .server
        .delete_untyped("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, "widgets.example.com")
        .unwrap();
    assert_eq!(program.event().await["type"], "DELETED");
    program.note("widgets.example.com no longer exist on the server").await;
    cluster.create_map("a", "1");
    assert_eq!(program.event().await["name"], "a");
    cluster.create(&crd());
    cluster.create(&widget);
    let event = program.event().await;
    assert_eq!((&event["type"], &event["name"]), (&json!("ADDED"), &json!("w")));
    program.note("watch of widgets.example.com continues").await;
}

#[tokio::test]
async fn rejected_selector_is_one_line() {
    let cluster = Cluster::start().await;
    let (code, _, error) = cluster.run(&["watch", "pods", "--field-selector", "spec.unknown=1"]).await;
    assert_eq!(code, 1, "{error}");
    assert!(error.lines().last().unwrap().contains("cannot watch pods"), "{error}");
}

#[tokio::test]
async fn failing_list_is_retried() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    let lists = RequestMatch::any().resource("configmaps");
    cluster.server.faults().times(2, &lists, &Fault::error(Status::internal_error("broken")));
    let mut program = cluster.spawn(&["watch", "cm", "-ojsonl", "--initial"]);
    assert_eq!(program.event().await["name"], "a");
}

#[tokio::test]
async fn timeout_includes_the_first_requests() {
    let cluster = Cluster::start().await;
    let _fault = cluster.server.faults().always(RequestMatch::any(), Fault::Hang);
    let arguments = ["watch", "cm", "--until", "create", "--timeout", "200ms"];
    let (code, _, error) = cluster.run(&arguments).await;
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("the timeout expired: the server has not listed its resources"), "{error}");
}
