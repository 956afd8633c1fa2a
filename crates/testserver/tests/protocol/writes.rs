//! Creates, updates, patches and the status.

use serde_json::json;

use crate::client::{CONFIGMAPS, configmaps, get, merge, post, put, send, server};

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn create_response_equals_the_real_server() {
    let server = server();
    configmaps(&server, &[]);
    let created = post(&server, CONFIGMAPS, json!({"metadata": {"name": "q1"}, "data": {"k": "v"}})).await;
    let uid = created.json()["metadata"]["uid"].clone();
    let version = server.resource_version();
    let owners = "[{\"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:data\":{\".\":{},\"f:k\":{}}},\
                  \"manager\":\"unknown\",\"operation\":\"Update\",\"time\":\"2026-11-21T02:25:40Z\"}]";
    assert_eq!(created.code, 201);
    assert_eq!(
        created.text,
        format!(
            "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"q1\",\"namespace\":\"r\",\"uid\":{uid},\"resourceVersion\":\"{version}\",\"creationTimestamp\":\"2026-11-21T02:25:40Z\",\"managedFields\":{owners}}},\"data\":{{\"k\":\"v\"}}}}\n"
        )
    );
    let named = post(&server, CONFIGMAPS, json!({"metadata": {"generateName": "gen-"}})).await.json();
    let name = named["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("gen-") && name.len() == 9, "{name}");
}

#[tokio::test]
async fn invalid_creates_are_rejected() {
    let server = server();
    configmaps(&server, &["q1"]);
    for (path, body, code, message) in [
        (
            CONFIGMAPS,
            json!({"metadata": {}}),
            422,
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
        (CONFIGMAPS, json!({"metadata": {"name": "q1"}}), 409, "configmaps \"q1\" already exists"),
        (
            "/api/v1/namespaces/nope/configmaps",
            json!({"metadata": {"name": "x"}}),
            404,
            "namespaces \"nope\" not found",
        ),
        (
            CONFIGMAPS,
            json!({"metadata": {"name": "x", "namespace": "other"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            CONFIGMAPS,
            json!({"metadata": {"name": "x", "resourceVersion": "5"}}),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            CONFIGMAPS,
            json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "x"}}),
            400,
            "Secret in version \"v1\" cannot be handled as a ConfigMap: kind \"Secret\" of version \"v1\" is another kind",
        ),
        (
            "/api/v1/configmaps",
            json!({"metadata": {"name": "x"}}),
            405,
            "the server does not allow this method on the requested resource",
        ),
    ] {
        let response = post(&server, path, body).await;
        assert_eq!((response.code, response.message().as_str()), (code, message));
    }
    let bad = post(&server, CONFIGMAPS, json!({"metadata": {"name": "Bad_Name"}})).await;
    assert_eq!(bad.json()["details"]["causes"][0]["reason"], "FieldValueInvalid");
    let cut = send(&server, "POST", CONFIGMAPS, &[JSON], "{\"metadata\":").await;
    assert_eq!(
        cut.message(),
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: EOF while parsing a value at line 1 column 12 ({\"metadata\":)"
    );
    let text = send(&server, "POST", CONFIGMAPS, &[("content-type", "text/plain")], "x").await;
    assert_eq!((text.code, text.json()["reason"].as_str()), (415, Some("UnsupportedMediaType")));
    assert_eq!(server.count_untyped("v1", "ConfigMap", Some("r")).unwrap(), 1);
}

#[tokio::test]
async fn update_errors_equal_the_real_server() {
    let server = server();
    configmaps(&server, &["q1"]);
    let uid = server.get_untyped("v1", "ConfigMap", Some("r"), "q1").unwrap()["metadata"]["uid"].clone();
    let uid = uid.as_str().unwrap();
    let other = "11111111-1111-1111-1111-111111111111";
    let q1 = format!("{CONFIGMAPS}/q1");
    for (path, body, code, message) in [
        (q1.clone(), json!({"metadata": {"name": "other"}}), 400, "the name of the object (other) does not match the name on the URL (q1)".to_owned()),
        (q1.clone(), json!({"metadata": {}}), 400, "the name of the object (q1 based on URL) was undeterminable: name must be provided".into()),
        (format!("{CONFIGMAPS}/absent"), json!({"metadata": {"name": "absent"}}), 404, "configmaps \"absent\" not found".into()),
        (q1.clone(), json!({"metadata": {"name": "q1", "resourceVersion": "1"}}), 409, "Operation cannot be fulfilled on configmaps \"q1\": the object has been modified; please apply your changes to the latest version and try again".into()),
        (q1.clone(), json!({"metadata": {"name": "q1", "uid": other}}), 409, format!("Operation cannot be fulfilled on configmaps \"q1\": StorageError: invalid object, Code: 4, Key: /registry/configmaps/r/q1, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {other}, UID in object meta: {uid}")),
    ] {
        let response = put(&server, &path, body).await;
        assert_eq!((response.code, response.message()), (code, message));
    }
    let renamed = merge(&server, &q1, json!({"metadata": {"name": "other"}})).await;
    assert_eq!(renamed.message(), "the name of the object (other) does not match the name on the URL (q1)");
    let immutable = merge(&server, &q1, json!({"metadata": {"uid": other}})).await;
    assert_eq!(
        immutable.message(),
        format!("ConfigMap \"q1\" is invalid: metadata.uid: Invalid value: \"{other}\": field is immutable")
    );
    let unusual = send(&server, "PATCH", &q1, &[JSON], "{}").await;
    assert_eq!((unusual.code, unusual.message().as_str()), (415, "415: Unsupported Media Type"));
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/r/leases/l";
    assert_eq!(put(&server, leases, lease.clone()).await.code, 201);
    assert_eq!(put(&server, leases, lease).await.code, 422);
}

#[tokio::test]
async fn write_without_a_change_creates_no_event() {
    let server = server();
    configmaps(&server, &["q1"]);
    let q1 = format!("{CONFIGMAPS}/q1");
    put(&server, &q1, json!({"metadata": {"name": "q1"}, "data": {"k": "v"}})).await;
    let version = server.resource_version();
    let read = get(&server, &q1).await.json();
    put(&server, &q1, read).await;
    put(&server, &q1, json!({"metadata": {"name": "q1"}, "data": {"k": "v"}})).await;
    merge(&server, &q1, json!({"data": {"absent": null}})).await;
    assert_eq!(server.resource_version(), version);
    merge(&server, &q1, json!({"data": {"k": "w"}})).await;
    assert_eq!(server.resource_version(), version + 1);
    let dry = merge(&server, &format!("{q1}?dryRun=All"), json!({"data": {"k": "x"}})).await;
    assert_eq!((dry.code, &dry.json()["data"]["k"]), (200, &json!("x")));
    let dry = post(&server, &format!("{CONFIGMAPS}?dryRun=All"), json!({"metadata": {"name": "dry"}})).await;
    assert_eq!((dry.code, dry.json()["metadata"].get("resourceVersion")), (201, None));
    assert_eq!(server.resource_version(), version + 1);
}
