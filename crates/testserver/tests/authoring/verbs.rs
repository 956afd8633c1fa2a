//! The verbs for typed and untyped objects.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube_testserver::Server;
use serde_json::{Value, json};

use crate::{Site, SiteStatus, server, site};

fn config_map(data: &Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": "settings"}, "data": data})).expect("a ConfigMap")
}

fn data(map: &ConfigMap) -> Value {
    serde_json::to_value(&map.data).expect("JSON")
}

#[test]
fn typed_verbs_work_for_built_in_kinds() {
    let server = Server::new();
    let created = server.create(&config_map(&json!({"a": "1"}))).unwrap();
    assert_eq!(created.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(server.get::<ConfigMap>(Some("default"), "settings").unwrap(), created);
    assert_eq!(server.get::<ConfigMap>(Some("ops"), "settings").unwrap_err().reason(), "NotFound");
    assert_eq!(server.get::<Pod>(None, "settings").unwrap_err().reason(), "NotFound");
    let updated =
        server.update(&ConfigMap { data: Some([("a".into(), "2".into())].into()), ..created }).unwrap();
    assert_eq!(data(&updated), json!({"a": "2"}));
    let patched = server.patch::<ConfigMap>(None, "settings", &json!({"data": {"b": "3"}})).unwrap();
    assert_eq!(data(&patched), json!({"a": "2", "b": "3"}));
    assert_eq!(server.list::<ConfigMap>(None).unwrap(), std::slice::from_ref(&patched));
    assert_eq!(server.count::<ConfigMap>(Some("ops")).unwrap(), 0);
    assert_eq!(server.count::<Namespace>(None).unwrap(), 4);
    let metadata: PartialObjectMeta<ConfigMap> = server.get(None, "settings").unwrap();
    assert_eq!(metadata.metadata, patched.metadata);
    assert_eq!(server.delete::<ConfigMap>(None, "settings").unwrap(), None);
    assert_eq!(server.count::<ConfigMap>(None).unwrap(), 0);
}

#[test]
fn typed_verbs_work_for_installed_custom_resources() {
    let server = Server::new();
    let error = server.create(&site("home", "hi")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "404: the server does not serve the kind \"Site\" of \"example.com/v1\"; create its CRD first"
    );
    server.install::<Site>().unwrap();
    server.install::<Site>().unwrap();
    let created = server.create(&site("home", "hi")).unwrap();
    assert_eq!(created.metadata.generation, Some(1));
    let finalizer = json!({"metadata": {"finalizers": ["example.com/stop"]}});
    server.patch::<Site>(None, "home", &finalizer).unwrap();
    let remaining = server.delete::<Site>(None, "home").unwrap().expect("an object with a finalizer");
    assert!(remaining.metadata.deletion_timestamp.is_some());
    server.patch::<Site>(None, "home", &json!({"metadata": {"finalizers": null}})).unwrap();
    assert_eq!(server.list::<Site>(None).unwrap(), []);
}

#[test]
fn json_and_dynamic_objects_are_stored_like_typed_objects() {
    let server = server();
    let value = serde_json::to_value(site("json", "hi")).unwrap();
    let stored = server.create(&value).unwrap();
    assert_eq!(server.get_untyped("example.com/v1", "Site", None, "json").unwrap(), stored);
    let mut dynamic: DynamicObject = serde_json::from_value(value).unwrap();
    dynamic.metadata.name = Some("dynamic".into());
    assert_eq!(server.create(&dynamic).unwrap().data["spec"]["text"], "hi");
    dynamic.types = None;
    assert_eq!(server.create(&dynamic).unwrap_err().code(), 404);
    assert_eq!(server.create(&json!([])).unwrap_err().code(), 400);
    assert_eq!(server.count_untyped("example.com/v1", "Site", Some("default")).unwrap(), 2);
    let names = server.list_untyped("example.com/v1", "Site", None).unwrap();
    assert_eq!(names.iter().map(|site| &site["metadata"]["name"]).collect::<Vec<_>>(), ["dynamic", "json"]);
    assert_eq!(server.delete_untyped("example.com/v1", "Site", None, "json").unwrap(), None);
}

#[test]
fn object_of_another_type_is_an_error() {
    let server = server();
    crate::create_malformed_site(&server);
    let error = server.get::<Site>(None, "malformed").unwrap_err();
    assert!(error.message().contains("does not match the requested Rust type"), "{error}");
}

#[test]
fn update_of_custom_resource_needs_a_version_and_replace_does_not() {
    let server = server();
    let created = server.create(&site("home", "hi")).unwrap();
    let error = server.update(&site("home", "ho")).unwrap_err();
    assert!(
        error
            .message()
            .ends_with("metadata.resourceVersion: Invalid value: 0: must be specified for an update"),
        "{error}"
    );
    let mut wanted = site("home", "ho");
    wanted.status = Some(SiteStatus { ready: true });
    wanted.metadata.resource_version = Some("1".into());
    let replaced = server.create_or_replace(&wanted).unwrap();
    assert_eq!((&replaced.spec, &replaced.status), (&wanted.spec, &wanted.status));
    assert_eq!((replaced.metadata.uid, replaced.metadata.generation), (created.metadata.uid, Some(2)));
    wanted.metadata.name = Some("new".into());
    assert_eq!(server.create_or_replace(&wanted).unwrap().status, wanted.status);
    let generated = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-"},
        "spec": {"containers": [{"name": "main", "image": "web"}]}, "status": {"phase": "Running"}});
    assert_eq!(server.create_or_replace(&generated).unwrap()["status"]["phase"], "Running");
    let mut current = server.get::<Site>(None, "new").unwrap();
    current.status = None;
    assert_eq!(server.update_status(&current).unwrap().status, None);
}

#[test]
fn apply_detects_conflicts_and_force_takes_the_field() {
    let server = server();
    server.apply(&site("home", "hi"), "writer").unwrap();
    let error = server.apply(&site("home", "ho"), "editor").unwrap_err();
    assert_eq!((error.code(), error.reason()), (409, "Conflict"));
    assert!(error.message().ends_with("conflict with \"writer\": .spec.text"), "{error}");
    let forced = server.force_apply(&site("home", "ho"), "editor").unwrap();
    assert_eq!(forced.spec.text, "ho");
    let managers = forced.metadata.managed_fields.unwrap();
    let last = managers.iter().find(|entry| entry.manager.as_deref() == Some("editor")).unwrap();
    assert_eq!(last.operation.as_deref(), Some("Apply"));
    // A field that the manager no longer applies is removed.
    server.apply(&config_map(&json!({"a": "1", "b": "2"})), "writer").unwrap();
    let applied = server.apply(&config_map(&json!({"a": "1"})), "writer").unwrap();
    assert_eq!(data(&applied), json!({"a": "1"}));
    let error = server.apply(&config_map(&json!({})), "").unwrap_err();
    assert!(error.message().contains("fieldManager: Required value"), "{error}");
}
