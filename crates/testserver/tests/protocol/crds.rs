//! Custom resources, and the lifecycle of their definitions.

use kube_testserver::Server;
use serde_json::{Value, json};

use crate::client::{Lines, delete, get, merge, post, put, send, server};

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const WIDGETS: &str = "/apis/ex.test/v1/namespaces/default/widgets";

fn schema() -> Value {
    let spec = json!({"type": "object", "properties": {
        "color": {"type": "string"}, "size": {"type": "integer", "maximum": 10},
    }});
    let status = json!({"type": "object", "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer", "default": 5}}});
    json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}})
}

pub(crate) fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.ex.test"},
        "spec": {
            "group": "ex.test", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema(),
                 "subresources": {"status": {}}, "selectableFields": [{"jsonPath": ".spec.color"}]},
                {"name": "v1beta1", "served": true, "storage": false, "schema": schema(),
                 "subresources": {"status": {}}}
            ]
        }
    })
}

pub(crate) fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "ex.test/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn new_definition_is_served_immediately() {
    let server = server();
    assert_eq!(get(&server, WIDGETS).await.text, "404 page not found\n");
    assert_eq!(post(&server, CRDS, crd()).await.code, 201);
    let stored = get(&server, &format!("{CRDS}/widgets.ex.test")).await.json();
    assert_eq!(stored["status"]["conditions"][1]["type"], "Established");
    assert_eq!(stored["status"]["acceptedNames"]["listKind"], "WidgetList");
    let created = post(&server, WIDGETS, widget("w1", &json!({"color": "red"}))).await;
    let version = server.resource_version();
    let uid = created.json()["metadata"]["uid"].clone();
    let owners = "[{\"apiVersion\":\"ex.test/v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:spec\":{\".\":{},\
                  \"f:color\":{}}},\"manager\":\"unknown\",\"operation\":\"Update\",\"time\":\"2026-11-21T02:25:40Z\"}]";
    let item = format!(
        "{{\"apiVersion\":\"ex.test/v1\",\"kind\":\"Widget\",\"metadata\":{{\"creationTimestamp\":\"2026-11-21T02:25:40Z\",\"generation\":1,\"managedFields\":{owners},\"name\":\"w1\",\"namespace\":\"default\",\"resourceVersion\":\"{version}\",\"uid\":{uid}}},\"spec\":{{\"color\":\"red\"}}}}"
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
    let rejected = get(&server, &format!("{WIDGETS}?fieldSelector=spec.size=3")).await;
    assert_eq!(rejected.message(), "field label not supported: spec.size");
    let resources = get(&server, "/apis/ex.test/v1").await.json();
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wd"]));
}

#[tokio::test]
async fn custom_resources_have_separate_write_rules() {
    let server = server();
    server.create(&crd()).unwrap();
    let bare = post(&server, WIDGETS, json!({"metadata": {"name": "w2"}})).await;
    assert!(bare.message().contains("(must be of type Widget): Object 'Kind' is missing"));
    post(&server, WIDGETS, widget("w1", &json!({"size": 1}))).await;
    let w1 = format!("{WIDGETS}/w1");
    let generation = |response: crate::client::Response| response.json()["metadata"]["generation"].as_i64();
    assert_eq!(generation(merge(&server, &w1, json!({"spec": {"size": 2}})).await), Some(2));
    assert_eq!(generation(merge(&server, &w1, json!({"metadata": {"labels": {"l": "1"}}})).await), Some(2));
    let status =
        merge(&server, &format!("{w1}/status"), json!({"spec": {"size": 9}, "status": {"ok": true}})).await;
    assert_eq!((&status.json()["spec"]["size"], &status.json()["status"]["ok"]), (&json!(2), &json!(true)));
    assert_eq!(put(&server, &w1, widget("w1", &json!({}))).await.code, 422);
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(send(&server, "PATCH", &w1, &strategic, "{}").await.code, 415);
    let removed = delete(&server, &w1, "").await.json();
    assert_eq!(
        (&removed["details"]["group"], &removed["details"]["kind"]),
        (&json!("ex.test"), &json!("widgets"))
    );
}

#[tokio::test]
async fn deleting_a_definition_deletes_objects_and_closes_watches() {
    let server = server();
    server.create(&crd()).unwrap();
    server.create(&widget("w1", &json!({}))).unwrap();
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
        let removed = get(&server, &path).await;
        assert_eq!((removed.code, removed.text.as_str()), (404, "404 page not found\n"));
        assert_eq!(removed.headers["content-type"], "text/plain; charset=utf-8");
    }
    server.create(&crd()).unwrap();
    assert!(get(&server, WIDGETS).await.names().is_empty());
}

#[tokio::test]
async fn changed_definition_closes_watches_and_unserved_version_is_404() {
    let server = server();
    server.create(&crd()).unwrap();
    server.create(&widget("w1", &json!({}))).unwrap();
    let start = server.resource_version();
    let path = format!("{WIDGETS}?watch=1&resourceVersion={start}");
    let mut watch = Lines::open(&server, &path).await;
    let name = format!("{CRDS}/widgets.ex.test");
    let version =
        |served: bool| json!([{"name": "v1", "served": served, "storage": true, "schema": schema()}]);
    merge(&server, &name, json!({"spec": {"versions": version(false)}})).await;
    assert!(watch.line().await.is_none());
    assert_eq!(get(&server, WIDGETS).await.text, "404 page not found\n");
    merge(&server, &name, json!({"spec": {"versions": version(true)}})).await;
    assert_eq!(get(&server, WIDGETS).await.names(), ["w1"]);
}

/// Returns the warnings of a response.
fn warnings(response: &crate::client::Response) -> Vec<String> {
    response.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn schema_violations_are_rejected_with_all_causes() {
    let server = server();
    server.create(&crd()).unwrap();
    let rejected = post(&server, WIDGETS, widget("w1", &json!({"color": 5, "size": 11}))).await;
    assert_eq!((rejected.code, rejected.json()["reason"].as_str()), (422, Some("Invalid")));
    assert_eq!(
        rejected.message(),
        "Widget.ex.test \"w1\" is invalid: [spec.color: Invalid value: \"integer\": spec.color in body must be of type \
         string: \"integer\", spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10]"
    );
    assert_eq!(rejected.json()["details"]["causes"][1]["field"], "spec.size");
    server.create(&widget("w1", &json!({"size": 1}))).unwrap();
    let path = format!("{WIDGETS}/w1");
    assert_eq!(merge(&server, &path, json!({"spec": {"size": 11}})).await.code, 422);
    let status = merge(&server, &format!("{path}/status"), json!({"status": {"ok": 1}})).await;
    assert_eq!(
        status.message(),
        "Widget.ex.test \"w1\" is invalid: status.ok: Invalid value: \"integer\": ok in body must be of type boolean: \
         \"integer\""
    );
    assert_eq!(get(&server, &path).await.json()["metadata"]["generation"], 1);
}

#[tokio::test]
async fn field_validation_ignores_warns_or_rejects() {
    let server = server();
    server.create(&crd()).unwrap();
    let body = r#"{"apiVersion":"ex.test/v1","kind":"Widget","metadata":{"name":"w","foo":1},
        "spec":{"size":1,"size":2,"zz":{"a":1}}}"#;
    let sent =
        async |query: &str| send(&server, "POST", &format!("{WIDGETS}?dryRun=All&{query}"), &[], body).await;
    let strict = sent("fieldValidation=Strict").await;
    assert_eq!(strict.code, 400);
    assert_eq!(
        strict.message(),
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: duplicate field \
         \"spec.size\", unknown field \"metadata.foo\", unknown field \"spec.zz\""
    );
    let warned = sent("").await;
    assert_eq!(warned.code, 201);
    assert_eq!(warned.json()["spec"], json!({"size": 2}));
    assert_eq!(warned.json()["metadata"].get("foo"), None);
    assert_eq!(
        warnings(&warned),
        [
            r#"299 - "duplicate field \"spec.size\"""#,
            r#"299 - "unknown field \"metadata.foo\"""#,
            r#"299 - "unknown field \"spec.zz\"""#
        ]
    );
    let ignored = sent("fieldValidation=Ignore").await;
    assert_eq!((ignored.code, warnings(&ignored).len()), (201, 0));
    assert_eq!(
        sent("fieldValidation=Maybe").await.message(),
        "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Maybe\": supported values: \
         \"\", \"Ignore\", \"Strict\", \"Warn\""
    );
    server.create(&widget("w", &json!({}))).unwrap();
    let patch =
        merge(&server, &format!("{WIDGETS}/w?fieldValidation=Strict"), json!({"spec": {"zz": 1}})).await;
    assert_eq!(patch.code, 422);
    assert!(patch.message().starts_with(" \"\" is invalid: patch: Invalid value: \"{"));
    assert!(patch.message().ends_with("\": strict decoding error: unknown field \"spec.zz\""));
}

#[tokio::test]
async fn changed_schema_applies_to_stored_objects_and_expires_history() {
    let server = server();
    server.create(&crd()).unwrap();
    let created = server.create(&widget("w", &json!({"color": "red", "size": 3}))).unwrap();
    let mut versions = crd()["spec"]["versions"].clone();
    let spec = &mut versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    *spec = json!({"color": {"type": "string"}, "more": {"type": "string", "default": "yes"}});
    let path = format!("{CRDS}/widgets.ex.test");
    let changed = merge(&server, &path, json!({"spec": {"versions": versions}})).await;
    assert_eq!((changed.code, &changed.json()["metadata"]["generation"]), (200, &json!(2)));
    let seen = get(&server, &format!("{WIDGETS}/w")).await.json();
    assert_eq!(seen["spec"], json!({"color": "red", "more": "yes"}));
    assert_eq!(seen["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    let mut late = Lines::open(&server, &format!("{WIDGETS}?watch=1&resourceVersion={version}")).await;
    let error: Value = serde_json::from_str(&late.line().await.unwrap().unwrap()).unwrap();
    assert_eq!((&error["type"], &error["object"]["reason"]), (&json!("ERROR"), &json!("Expired")));
    let now = server.resource_version();
    let mut watch = Lines::open(&server, &format!("{WIDGETS}?watch=1&resourceVersion={now}")).await;
    merge(&server, &path, json!({"metadata": {"labels": {"l": "1"}}})).await;
    server.create(&widget("after", &json!({}))).unwrap();
    assert_eq!(watch.event().await.1, "after", "a change of only the metadata does not close watches");
}

#[tokio::test]
async fn each_version_uses_its_schema_for_reads_and_writes() {
    let server = server();
    let mut both = crd();
    let second = &mut both["spec"]["versions"][1];
    second["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        json!({"color": {"type": "string"}});
    server.create(&both).unwrap();
    server.create(&widget("w", &json!({"color": "red", "size": 3}))).unwrap();
    let beta = WIDGETS.replace("v1", "v1beta1");
    assert_eq!(get(&server, &format!("{beta}/w")).await.json()["spec"], json!({"color": "red"}));
    assert_eq!(merge(&server, &format!("{beta}/w"), json!({"spec": {"color": "blue"}})).await.code, 200);
    let stored = get(&server, &format!("{WIDGETS}/w")).await.json();
    assert_eq!(
        stored["spec"],
        json!({"color": "blue"}),
        "a write through a version removes the fields that its schema does not contain"
    );
    let rejected = get(&server, &format!("{beta}?fieldSelector=spec.color=blue")).await;
    assert_eq!(rejected.message(), "field label not supported: spec.color");
    assert_eq!(get(&server, &format!("{WIDGETS}?fieldSelector=spec.color=blue")).await.names(), ["w"]);
}

#[tokio::test]
async fn finalizer_of_an_object_blocks_deletion_of_its_definition() {
    let server = server();
    server.create(&crd()).unwrap();
    let mut held = widget("w", &json!({}));
    held["metadata"]["finalizers"] = json!(["ex.test/hold"]);
    server.create(&held).unwrap();
    let path = format!("{CRDS}/widgets.ex.test");
    delete(&server, &path, "").await;
    let terminating = get(&server, &path).await.json();
    assert_eq!(terminating["status"]["conditions"][2]["reason"], "InstanceDeletionInProgress");
    let rejected = post(&server, WIDGETS, widget("late", &json!({}))).await;
    assert_eq!(
        rejected.message(),
        "widgets.ex.test \"late\" is forbidden: create not allowed while custom resource definition is terminating"
    );
    let mut next = crd();
    next["metadata"]["name"] = json!("gadgets.ex.test");
    next["spec"]["names"] = json!({"plural": "gadgets", "kind": "Widget"});
    server.create(&next).unwrap();
    merge(&server, &format!("{WIDGETS}/w"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(get(&server, &path).await.code, 404);
    let status = get(&server, &format!("{CRDS}/gadgets.ex.test")).await.json()["status"].clone();
    assert_eq!(status["acceptedNames"]["kind"], "Widget", "the name is free for the next");
    assert_eq!(get(&server, WIDGETS).await.text, "404 page not found\n");
}

#[tokio::test]
async fn custom_resources_reject_protobuf_except_delete_options() {
    let server = server();
    assert_eq!(post(&server, CRDS, crd()).await.code, 201);
    assert_eq!(post(&server, WIDGETS, widget("w", &json!({}))).await.code, 201);
    let protobuf = [("content-type", "application/vnd.kubernetes.protobuf")];

    let named = "k8s\0\n\x14\n\nex.test/v1\x12\x06Widget\x12\x05\n\x03\n\x01x";
    let rejected = send(&server, "POST", WIDGETS, &protobuf, named).await;
    assert_eq!((rejected.code, rejected.json()["reason"].as_str()), (415, Some("UnsupportedMediaType")));

    let other_uid = "k8s\0\n\x13\n\x02v1\x12\x0dDeleteOptions\x12\x05\x12\x03\n\x01u";
    let path = format!("{WIDGETS}/w");
    assert_eq!(send(&server, "DELETE", &path, &protobuf, other_uid).await.code, 409);
    let zero_grace = "k8s\0\n\x13\n\x02v1\x12\x0dDeleteOptions\x12\x02\x08\0";
    assert_eq!(send(&server, "DELETE", &path, &protobuf, zero_grace).await.code, 200);
}

/// etcd stores objects by key, independent of the definition.
#[tokio::test]
async fn exact_list_returns_old_objects_after_definition_is_recreated() {
    let server = server();
    post(&server, CRDS, crd()).await;
    post(&server, WIDGETS, widget("w1", &json!({}))).await;
    post(&server, WIDGETS, widget("w2", &json!({}))).await;
    let version = server.resource_version();
    let first = get(&server, &format!("{WIDGETS}?limit=1")).await.json();
    let token = first["metadata"]["continue"].as_str().unwrap();
    delete(&server, &format!("{CRDS}/widgets.ex.test"), "").await;
    post(&server, CRDS, crd()).await;
    assert!(get(&server, WIDGETS).await.names().is_empty());
    assert_eq!(get(&server, &format!("{WIDGETS}?limit=1&continue={token}")).await.names(), ["w2"]);
    let exact = format!("{WIDGETS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(get(&server, &exact).await.names(), ["w1", "w2"]);
}

/// Without a watch cache, watches read events from etcd.
#[tokio::test]
async fn uncached_watch_reports_objects_deleted_with_their_definition() {
    for watch_cache in [false, true] {
        let server = Server::builder().watch_cache(watch_cache).build();
        post(&server, CRDS, crd()).await;
        post(&server, WIDGETS, widget("w1", &json!({}))).await;
        let version = server.resource_version();
        delete(&server, &format!("{CRDS}/widgets.ex.test"), "").await;
        post(&server, CRDS, crd()).await;
        let mut watch = Lines::open(&server, &format!("{WIDGETS}?watch=1&resourceVersion={version}")).await;
        let (event, name, _) = watch.event().await;
        if watch_cache {
            assert_eq!(event, "ERROR");
        } else {
            assert_eq!((event.as_str(), name.as_str()), ("DELETED", "w1"));
        }
    }
}
