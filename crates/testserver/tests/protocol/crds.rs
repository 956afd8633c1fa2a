//! Custom resources: served when defined, gone when the definition goes.

use serde_json::{Value, json};

use crate::ask::{Lines, ask, configmaps, delete, get, merge, post, put, server};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/ex.test/v1/namespaces/default/widgets";

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.ex.test"},
        "spec": {
            "group": "ex.test", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
                 "subresources": {"status": {}}, "selectableFields": [{"jsonPath": ".spec.color"}]},
                {"name": "v1beta1", "served": true, "storage": false, "subresources": {"status": {}}}
            ]
        }
    })
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "ex.test/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn a_definition_is_served_at_once() {
    let server = server();
    assert_eq!(get(&server, WIDGETS).await.text, "404 page not found\n");
    assert_eq!(post(&server, CRDS, crd()).await.code, 201);
    let stored = get(&server, &format!("{CRDS}/widgets.ex.test")).await.json();
    assert_eq!(stored["status"]["conditions"][1]["type"], "Established");
    assert_eq!(stored["status"]["acceptedNames"]["listKind"], "WidgetList");
    let created = post(&server, WIDGETS, widget("w1", &json!({"color": "red"}))).await;
    let version = server.resource_version();
    let uid = created.json()["metadata"]["uid"].clone();
    let item = format!(
        "{{\"apiVersion\":\"ex.test/v1\",\"kind\":\"Widget\",\"metadata\":{{\"creationTimestamp\":\"2026-11-21T02:25:40Z\",\"generation\":1,\"name\":\"w1\",\"namespace\":\"default\",\"resourceVersion\":\"{version}\",\"uid\":{uid}}},\"spec\":{{\"color\":\"red\"}}}}"
    );
    assert_eq!(created.text, format!("{item}\n"));
    assert_eq!(
        get(&server, WIDGETS).await.text,
        format!(
            "{{\"apiVersion\":\"ex.test/v1\",\"items\":[{item}],\"kind\":\"WidgetList\",\"metadata\":{{\"continue\":\"\",\"resourceVersion\":\"{version}\"}}}}\n"
        )
    );
    let beta = get(&server, &WIDGETS.replace("v1", "v1beta1")).await.json();
    assert_eq!(
        (&beta["apiVersion"], &beta["items"][0]["apiVersion"]),
        (&json!("ex.test/v1beta1"), &json!("ex.test/v1beta1"))
    );
    assert_eq!(get(&server, &format!("{WIDGETS}?fieldSelector=spec.color=red")).await.names(), ["w1"]);
    let refused = get(&server, &format!("{WIDGETS}?fieldSelector=spec.size=3")).await;
    assert_eq!(refused.message(), "field label not supported: spec.size");
    let resources = get(&server, "/apis/ex.test/v1").await.json();
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wd"]));
}

#[tokio::test]
async fn custom_objects_have_their_own_rules_of_writing() {
    let server = server();
    server.create(crd()).unwrap();
    let bare = post(&server, WIDGETS, json!({"metadata": {"name": "w2"}})).await;
    assert!(bare.message().starts_with(
        "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in"
    ));
    post(&server, WIDGETS, widget("w1", &json!({"size": 1}))).await;
    let w1 = format!("{WIDGETS}/w1");
    let generation = |answer: crate::ask::Answer| answer.json()["metadata"]["generation"].as_i64();
    assert_eq!(generation(merge(&server, &w1, json!({"spec": {"size": 2}})).await), Some(2));
    assert_eq!(generation(merge(&server, &w1, json!({"metadata": {"labels": {"l": "1"}}})).await), Some(2));
    let status =
        merge(&server, &format!("{w1}/status"), json!({"spec": {"size": 9}, "status": {"ok": true}})).await;
    assert_eq!((&status.json()["spec"]["size"], &status.json()["status"]["ok"]), (&json!(2), &json!(true)));
    assert_eq!(put(&server, &w1, widget("w1", &json!({}))).await.code, 422);
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(ask(&server, "PATCH", &w1, &strategic, "{}").await.code, 415);
    let gone = delete(&server, &w1, "").await.json();
    assert_eq!((&gone["details"]["group"], &gone["details"]["kind"]), (&json!("ex.test"), &json!("widgets")));
}

#[tokio::test]
async fn a_deleted_definition_takes_its_objects_and_ends_their_watches() {
    let server = server();
    server.create(crd()).unwrap();
    server.create(widget("w1", &json!({}))).unwrap();
    let start = server.resource_version();
    let mut watch = Lines::open(&server, &format!("{WIDGETS}?watch=1&resourceVersion={start}")).await;
    let marked = delete(&server, &format!("{CRDS}/widgets.ex.test"), "").await.json();
    assert_eq!(marked["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(marked["status"]["conditions"][2]["reason"], "InstanceDeletionPending");
    let (kind, name, _) = watch.event().await;
    assert_eq!((kind.as_str(), name.as_str()), ("DELETED", "w1"));
    assert!(watch.line().await.is_none());
    for path in
        [WIDGETS.to_owned(), format!("{WIDGETS}?watch=1&resourceVersion={start}"), "/apis/ex.test/v1".into()]
    {
        let gone = get(&server, &path).await;
        assert_eq!((gone.code, gone.text.as_str()), (404, "404 page not found\n"));
        assert_eq!(gone.headers["content-type"], "text/plain; charset=utf-8");
    }
    server.create(crd()).unwrap();
    assert!(get(&server, WIDGETS).await.names().is_empty());
}

#[tokio::test]
async fn a_changed_definition_ends_the_watches_and_an_unserved_one_is_not_found() {
    let server = server();
    server.create(crd()).unwrap();
    server.create(widget("w1", &json!({}))).unwrap();
    let start = server.resource_version();
    let path = format!("{WIDGETS}?watch=1&resourceVersion={start}");
    let mut watch = Lines::open(&server, &path).await;
    let name = format!("{CRDS}/widgets.ex.test");
    let version = |served: bool| json!([{"name": "v1", "served": served, "storage": true}]);
    merge(&server, &name, json!({"spec": {"versions": version(false)}})).await;
    assert!(watch.line().await.is_none());
    assert_eq!(get(&server, WIDGETS).await.text, "404 page not found\n");
    merge(&server, &name, json!({"spec": {"versions": version(true)}})).await;
    assert_eq!(get(&server, WIDGETS).await.names(), ["w1"]);
}

#[tokio::test]
async fn an_incomplete_definition_is_refused() {
    let server = server();
    configmaps(&server, &[]);
    let mut wrong = crd();
    wrong["metadata"]["name"] = json!("others.ex.test");
    assert_eq!(post(&server, CRDS, wrong).await.code, 422);
    let empty = post(&server, CRDS, json!({"metadata": {"name": "x"}})).await;
    assert_eq!((empty.code, empty.json()["reason"].as_str()), (422, Some("Invalid")));
}
