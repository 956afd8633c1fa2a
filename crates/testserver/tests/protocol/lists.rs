//! LIST: versions, matches, pages, selectors, forms.

use serde_json::json;

use crate::client::{CONFIGMAPS, configmaps, get, send, server};

#[tokio::test]
async fn list_equals_the_list_of_the_real_server() {
    let server = server();
    let version = configmaps(&server, &["c1"]);
    let uid = server.get_untyped("v1", "ConfigMap", Some("r"), "c1").unwrap()["metadata"]["uid"].clone();
    let list = get(&server, CONFIGMAPS).await;
    assert_eq!(
        list.text,
        format!(
            "{{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{version}\"}},\
             \"items\":[{{\"metadata\":{{\"name\":\"c1\",\"namespace\":\"r\",\"uid\":{uid},\
             \"resourceVersion\":\"{version}\",\"creationTimestamp\":\"2026-11-21T02:25:40Z\"}}}}]}}\n"
        )
    );
    assert_eq!(list.headers["content-type"], "application/json");
    assert_eq!(list.headers["cache-control"], "no-cache, private");
    let empty = get(&server, &format!("{CONFIGMAPS}?labelSelector=a")).await;
    let expected = format!(
        "{{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{version}\"}},\"items\":[]}}\n"
    );
    assert_eq!(empty.text, expected);
}

#[tokio::test]
async fn resource_version_and_match_select_the_snapshot() {
    let server = server();
    let first = configmaps(&server, &["c1"]);
    let last = configmaps(&server, &["c2", "c3"]);
    for (query, names, version) in [
        (String::new(), 3, last),
        ("?resourceVersion=0".into(), 3, last),
        ("?limit=1&resourceVersion=0".into(), 3, last),
        (format!("?resourceVersion={first}"), 3, last),
        (format!("?resourceVersion={first}&resourceVersionMatch=NotOlderThan"), 3, last),
        (format!("?resourceVersion={first}&resourceVersionMatch=Exact"), 1, first),
        (format!("?resourceVersion={first}&limit=1"), 1, first),
        (format!("?resourceVersion={first}&limit=1&resourceVersionMatch=NotOlderThan"), 1, last),
        ("?limit=0".into(), 3, last),
        ("?limit=-1".into(), 3, last),
        ("?timeoutSeconds=-1".into(), 3, last),
        ("?allowWatchBookmarks=maybe".into(), 3, last),
    ] {
        let list = get(&server, &format!("{CONFIGMAPS}{query}")).await;
        assert_eq!(list.names().len(), names, "{query}");
        assert_eq!(list.json()["metadata"]["resourceVersion"], version.to_string(), "{query}");
    }
}

#[tokio::test]
async fn expired_page_returns_an_inconsistent_continue_token() {
    let server = server();
    configmaps(&server, &["b1", "b2", "b3"]);
    let page = get(&server, &format!("{CONFIGMAPS}?limit=1")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    let old = server.resource_version();
    configmaps(&server, &["b4"]);
    server.compact();
    let expired = get(&server, &format!("{CONFIGMAPS}?limit=2&continue={token}")).await;
    assert_eq!((expired.code, expired.json()["reason"].as_str()), (410, Some("Expired")));
    assert!(expired.message().starts_with("The provided continue parameter is too old to display"));
    let loose = expired.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(loose, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYjFcdTAwMDAifQ");
    let rest = get(&server, &format!("{CONFIGMAPS}?limit=2&continue={loose}")).await;
    assert_eq!(rest.names(), ["b2", "b3"]);
    assert_eq!(rest.json()["metadata"]["resourceVersion"], server.resource_version().to_string());
    let exact = get(&server, &format!("{CONFIGMAPS}?resourceVersion={old}&resourceVersionMatch=Exact")).await;
    assert_eq!(exact.code, 410);
    assert_eq!(
        exact.text,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"The \
         resourceVersion for the provided list is too old.\",\"reason\":\"Expired\",\"code\":410}\n"
    );
}

#[tokio::test(start_paused = true)]
async fn future_version_is_too_large_after_a_short_wait() {
    let server = server();
    let now = configmaps(&server, &["c1"]);
    let started = tokio::time::Instant::now();
    for path in [
        format!("{CONFIGMAPS}?resourceVersion=999999999"),
        format!("{CONFIGMAPS}/c1?resourceVersion=999999999"),
    ] {
        let response = get(&server, &path).await;
        assert_eq!(response.code, 504);
        assert_eq!(response.headers["retry-after"], "1");
        assert_eq!(
            response.message(),
            format!("Timeout: Too large resource version: 999999999, current: {now}")
        );
        assert_eq!(response.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    }
    assert_eq!(started.elapsed().as_secs(), 6);
    let late = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        configmaps(&server, &["c2"]);
    };
    let path = format!("{CONFIGMAPS}?resourceVersion={}", now + 1);
    let (response, ()) = tokio::join!(get(&server, &path), late);
    assert_eq!(response.names(), ["c1", "c2"]);
}

#[tokio::test]
async fn invalid_list_options_are_rejected() {
    let server = server();
    let version = configmaps(&server, &["c1", "c2"]);
    let page = get(&server, &format!("{CONFIGMAPS}?limit=1")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap();
    for (query, code, message) in [
        (
            format!("continue={token}&resourceVersion={version}"),
            400,
            "specifying resource version is not allowed when using continue",
        ),
        (
            "resourceVersion=abc".into(),
            400,
            "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        (
            "fieldSelector=data.k=v".into(),
            400,
            "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        ("labelSelector===".into(), 400, "unable to parse requirement: \"==\" is not a requirement"),
        (
            "sendInitialEvents=true".into(),
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
        (
            format!("continue={token}&resourceVersion={version}&resourceVersionMatch=Exact"),
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
        ),
    ] {
        let response = get(&server, &format!("{CONFIGMAPS}?{query}")).await;
        assert_eq!((response.code, response.message().as_str()), (code, message), "{query}");
    }
}

#[tokio::test]
async fn selectors_match_labels_and_fields() {
    let server = server();
    for (name, node, app) in
        [("web-0", "node-1", "web"), ("web-1", "node-2", "web"), ("api-0", "node-1", "api")]
    {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
        server.create(&pod).unwrap();
    }
    for (query, names) in [
        ("fieldSelector=spec.nodeName=node-1", vec!["api-0", "web-0"]),
        ("fieldSelector=spec.nodeName=node-1&labelSelector=app in (web)", vec!["web-0"]),
        ("fieldSelector=metadata.name=web-1,metadata.namespace=default", vec!["web-1"]),
        ("fieldSelector=status.phase=Running", vec![]),
        ("labelSelector=app,app!=api", vec!["web-0", "web-1"]),
    ] {
        assert_eq!(get(&server, &format!("/api/v1/pods?{query}")).await.names(), names, "{query}");
    }
    let rejected = get(&server, "/api/v1/pods?fieldSelector=spec.foo=x").await;
    assert_eq!((rejected.code, rejected.message().as_str()), (400, "field label not supported: spec.foo"));
    server
        .create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}}))
        .unwrap();
    assert_eq!(get(&server, "/api/v1/nodes?fieldSelector=spec.unschedulable=false").await.names(), ["n"]);
}

#[tokio::test]
async fn metadata_list_contains_only_metadata() {
    let server = server();
    let version = configmaps(&server, &["c1", "c2"]);
    let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let response = send(&server, "GET", &format!("{CONFIGMAPS}?limit=1"), &[("accept", list)], "").await;
    let start = format!(
        "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{{\"resourceVersion\":\"{version}\""
    );
    assert!(response.text.starts_with(&start), "{}", response.text);
    let item = &response.json()["items"][0];
    assert_eq!(item["kind"], "PartialObjectMetadata");
    assert_eq!(item["metadata"]["name"], "c1");
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let object = send(&server, "GET", &format!("{CONFIGMAPS}/c1"), &[("accept", one)], "").await.json();
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    let wrong = send(&server, "GET", CONFIGMAPS, &[("accept", one)], "").await;
    assert_eq!(wrong.code, 406);
    assert!(wrong.message().starts_with("only the following media types are accepted: "));
}
