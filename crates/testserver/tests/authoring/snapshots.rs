//! The differences between snapshots.

use serde_json::json;

use crate::{Site, SiteStatus, server, site};

#[test]
fn diff_lists_added_removed_and_changed_objects() {
    let server = server();
    for name in ["removed", "changed", "unchanged"] {
        server.create(&site(name, "a")).unwrap();
    }
    let mut changed = server.get::<Site>(None, "changed").unwrap();
    let before = server.snapshot();
    assert!(before.diff(&server.snapshot()).is_empty());
    server.delete::<Site>(None, "removed").unwrap();
    changed.spec.replicas = Some(2);
    changed.metadata.labels = Some([("example.com/tier".into(), "web".into())].into());
    changed.status = Some(SiteStatus { ready: true });
    server.create_or_replace(&changed).unwrap();
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "added"}, "data": {"k": "v"}});
    let map = server.create(&map).unwrap();
    let diff = before.diff(&server.snapshot());
    assert_eq!(diff.added(), ["ConfigMap default/added"]);
    assert_eq!(diff.removed(), ["Site.example.com default/removed"]);
    assert_eq!(diff.changed(), ["Site.example.com default/changed"]);
    let text = format!(
        "+ ConfigMap default/added\n    apiVersion: v1\n    data:\n      k: v\n    kind: ConfigMap\n    metadata:\n      \
         creationTimestamp: {}\n      name: added\n      namespace: default\n      uid: {}\n\
         ~ Site.example.com default/changed\n    metadata.generation: 1 -> 2\n    metadata.labels: (absent) -> \
         {{\"example.com/tier\":\"web\"}}\n    spec.replicas: null -> 2\n    status: (absent) -> {{\"ready\":true}}\n\
         - Site.example.com default/removed\n",
        map["metadata"]["creationTimestamp"],
        map["metadata"]["uid"].as_str().unwrap()
    );
    assert_eq!(diff.to_string(), text);
    server.restore(before.resource_version()).unwrap();
    assert!(before.diff(&server.snapshot()).is_empty());
}

#[test]
fn diff_names_keys_and_items_and_ignores_bookkeeping() {
    let server = server();
    let object = |tier: &str, ports: &[u16]| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"example.com/tier": tier}},
            "data": {"ports": format!("{ports:?}")}})
    };
    server.create(&object("web", &[80])).unwrap();
    let before = server.snapshot();
    server.apply(&object("web", &[80]), "writer").unwrap();
    let after = server.snapshot();
    assert!(before.diff(&after).is_empty());
    let all = before.diff_all(&after).to_string();
    assert!(all.contains("metadata.managedFields[") && all.contains("metadata.resourceVersion: "), "{all}");
    server.create_or_replace(&object("db", &[])).unwrap();
    let text = "~ ConfigMap default/a\n    data.ports: \"[80]\" -> \"[]\"\n    metadata.labels[\"example.com/tier\"]: \"web\" -> \"db\"\n";
    assert_eq!(after.diff(&server.snapshot()).to_string(), text);
    assert_eq!(
        format!("{before:?}"),
        format!("Snapshot(6 objects at resourceVersion {})", before.resource_version())
    );
}

#[test]
fn event_is_listed_once() {
    let server = server();
    let before = server.snapshot();
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"namespace": "default"}});
    server.create(&event).unwrap();
    assert_eq!(before.diff(&server.snapshot()).added(), ["Event default/e"]);
}
