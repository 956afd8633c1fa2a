//! Requests that found their resource before its CRD was changed or deleted. The tests call the parts of a
//! request in the order of the race.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::Server;
use crate::state::Served;
use crate::storage::log::CLOSED_TABLES;
use crate::write::delete_options::DeleteOptions;
use crate::write::patch::PatchRequest;
use crate::write::{self, Mode, Object, Part, Target, Via, WriteOptions};

fn crd(plural: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.ex.test")},
        "spec": {"group": "ex.test", "scope": "Namespaced", "names": {"plural": plural, "kind": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}}}]}
    })
}

fn create_crd(server: &Server, spec: &Value) {
    server.create(&crd("widgets", spec)).unwrap();
}

fn delete_crd(server: &Server, plural: &str) {
    let kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    server.delete_untyped(kind.0, kind.1, None, &format!("{plural}.ex.test")).unwrap();
}

fn replace_crd(server: &Server, spec: &Value) {
    let name = "widgets.ex.test";
    let old = server.get_untyped("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, name).unwrap();
    let mut new = crd("widgets", spec);
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    server.update(&new).unwrap();
}

fn found(server: &Server) -> Served {
    server.shared.find("ex.test", "v1", "widgets").unwrap()
}

fn target(served: Served) -> Target {
    Target { served, namespace: Some("default".into()), name: "w".into() }
}

fn widget(spec: &Value) -> Object {
    let object =
        json!({"apiVersion": "ex.test/v1", "kind": "widgets", "metadata": {"name": "w"}, "spec": spec});
    object.as_object().unwrap().clone()
}

fn create(server: &Server, served: Served, spec: &Value) -> u16 {
    let created =
        write::now(write::create(&server.shared, &target(served), widget(spec), &WriteOptions::default()));
    created.map_or_else(|status| status.code(), |written| written.code())
}

fn count(server: &Server) -> usize {
    server.count_untyped("ex.test/v1", "widgets", None).unwrap()
}

#[test]
fn create_for_a_deleted_crd_is_rejected_and_leaves_no_object() {
    let server = Server::new();
    create_crd(&server, &json!({}));
    let before = found(&server);
    delete_crd(&server, "widgets");
    assert_eq!(create(&server, before.clone(), &json!({})), 404);
    create_crd(&server, &json!({}));
    assert_eq!(count(&server), 0);
    assert_eq!(create(&server, before, &json!({})), 404);
    assert_eq!(count(&server), 0);
    assert_eq!(create(&server, found(&server), &json!({})), 201);
}

#[test]
fn create_during_a_change_of_the_crd_stores_the_object_with_the_new_schema() {
    let server = Server::new();
    create_crd(&server, &json!({"a": {"type": "integer"}}));
    let before = found(&server);
    replace_crd(&server, &json!({"b": {"type": "integer", "default": 2}}));
    assert_eq!(create(&server, before, &json!({"a": 1})), 201);
    let stored = server.get_untyped("ex.test/v1", "widgets", Some("default"), "w").unwrap();
    assert_eq!(stored["spec"], json!({"b": 2}));
}

#[test]
fn repeated_update_is_validated_by_the_new_schema() {
    let server = Server::new();
    create_crd(&server, &json!({"a": {"type": "integer"}}));
    assert_eq!(create(&server, found(&server), &json!({"a": 1})), 201);
    let changes = AtomicUsize::new(0);
    let mode = Mode { via: Via::Patch, part: Part::Main, options: WriteOptions::default() };
    let updated = write::now(write::update(&server.shared, &target(found(&server)), &mode, |_, old| {
        if changes.fetch_add(1, Ordering::Relaxed) == 0 {
            replace_crd(&server, &json!({"a": {"type": "integer", "maximum": 5}}));
        }
        let mut new = old.clone();
        new.insert("spec".into(), json!({"a": 9}));
        Ok(new)
    }));
    assert_eq!((updated.unwrap_err().code(), changes.load(Ordering::Relaxed)), (422, 2));
}

#[test]
fn writes_do_not_reach_the_objects_of_a_crd_that_was_created_again() {
    let server = Server::new();
    create_crd(&server, &json!({}));
    let before = target(found(&server));
    delete_crd(&server, "widgets");
    create_crd(&server, &json!({}));
    assert_eq!(create(&server, found(&server), &json!({})), 201);
    let mode = Mode { via: Via::Put, part: Part::Main, options: WriteOptions::default() };
    let updated = write::now(write::replace(&server.shared, &before, &widget(&json!({})), &mode));
    assert_eq!(updated.unwrap_err().code(), 404);
    let deleted = write::now(write::delete::delete(&server.shared, &before, &DeleteOptions::default(), None));
    assert_eq!((deleted.unwrap_err().code(), count(&server)), (404, 1));
}

#[test]
fn apply_that_creates_an_object_is_validated_by_the_new_schema() {
    let server = Server::new();
    create_crd(&server, &json!({"a": {"type": "integer"}}));
    let before = target(found(&server));
    replace_crd(&server, &json!({"a": {"type": "integer", "maximum": 5}}));
    let options = WriteOptions { manager: "m".into(), ..WriteOptions::default() };
    let mode = Mode { via: Via::Patch, part: Part::Main, options };
    let body = Value::Object(widget(&json!({"a": 9}))).to_string().into();
    let sent =
        PatchRequest { media_type: "application/apply-patch+yaml", body: &body, force: false, caller: None };
    let applied = write::now(write::patch::patch(&server.shared, &before, mode, sent));
    assert_eq!((applied.unwrap_err().code(), count(&server)), (422, 0));
}

/// The events of the objects that were deleted with the CRD are the last events of a watch.
#[tokio::test]
async fn watch_of_a_deleted_crd_ends_before_the_events_of_the_next_crd() {
    let server = Server::new();
    create_crd(&server, &json!({}));
    assert_eq!(create(&server, found(&server), &json!({})), 201);
    let request = http::Request::get("/apis/ex.test/v1/widgets?watch=1&resourceVersion=0");
    let request = request.body(http_body_util::Full::new(bytes::Bytes::new())).unwrap();
    let response = server.service().respond(request).await.unwrap();
    delete_crd(&server, "widgets");
    create_crd(&server, &json!({}));
    assert_eq!(create(&server, found(&server), &json!({})), 201);
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    let events = String::from_utf8(body.to_vec()).unwrap();
    let types: Vec<Value> =
        events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect();
    assert_eq!(types, ["ADDED", "DELETED"]);
}

#[test]
fn restore_returns_the_objects_of_each_crd_with_the_same_name() {
    let server = Server::new();
    let state = || (count(&server), server.get_untyped("ex.test/v1", "widgets", Some("default"), "w").ok());
    let mut states = Vec::new();
    for value in [1, 2] {
        create_crd(&server, &json!({"a": {"type": "integer"}}));
        states.push((server.resource_version(), state()));
        assert_eq!(create(&server, found(&server), &json!({"a": value})), 201);
        states.push((server.resource_version(), state()));
        delete_crd(&server, "widgets");
    }
    for (revision, before) in states.into_iter().rev() {
        server.restore(revision).unwrap();
        assert_eq!(state(), before);
    }
}

#[test]
fn history_of_deleted_crds_is_bounded() {
    let server = Server::new();
    let first = server.resource_version();
    let mut last = first;
    for n in 0..CLOSED_TABLES + 2 {
        let plural = format!("things{n}");
        server.create(&crd(&plural, &json!({}))).unwrap();
        let object = json!({"apiVersion": "ex.test/v1", "kind": plural, "metadata": {"name": "w", "namespace": "default"}});
        server.create(&object).unwrap();
        last = server.resource_version();
        delete_crd(&server, &plural);
    }
    let with_history = server.shared.read(|state| {
        let tables = state.registry.custom_tables().map(|table| state.store.table(table));
        tables.filter(|table| table.has_history()).count()
    });
    assert_eq!(with_history, CLOSED_TABLES);
    assert_eq!(server.restore(first).unwrap_err().reason(), "Expired");
    server.restore(last).unwrap();
    assert_eq!(server.count_untyped("ex.test/v1", &format!("things{}", CLOSED_TABLES + 1), None).unwrap(), 1);
}
