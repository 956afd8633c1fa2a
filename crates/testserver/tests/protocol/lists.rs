//! LIST: versions, matches, pages, selectors, forms.

use serde_json::json;

use crate::ask::{R, ask, configmaps, get, server};

#[tokio::test]
async fn a_list_is_written_as_the_real_server_writes_it() {
    let server = server();
    let version = configmaps(&server, &["c1"]);
    let uid = server.get("v1", "ConfigMap", Some("r"), "c1").unwrap()["metadata"]["uid"].clone();
    let list = get(&server, R).await;
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
    let empty = get(&server, &format!("{R}?labelSelector=a")).await;
    let expected = format!(
        "{{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{version}\"}},\"items\":[]}}\n"
    );
    assert_eq!(empty.text, expected);
}

#[tokio::test]
async fn versions_choose_the_snapshot() {
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
        let list = get(&server, &format!("{R}{query}")).await;
        assert_eq!(list.names().len(), names, "{query}");
        assert_eq!(list.json()["metadata"]["resourceVersion"], version.to_string(), "{query}");
    }
}

#[tokio::test]
async fn pages_go_on_where_they_stopped_and_count_what_is_left() {
    let server = server();
    let version = configmaps(&server, &["c1", "c2", "c3"]);
    let first = get(&server, &format!("{R}?limit=1")).await.json();
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    configmaps(&server, &["c0", "c4"]);
    server.delete("v1", "ConfigMap", Some("r"), "c2").unwrap();
    for query in
        [format!("?limit=1&continue={token}"), format!("?limit=1&resourceVersion=0&continue={token}")]
    {
        let next = get(&server, &format!("{R}{query}")).await;
        assert_eq!(next.names(), ["c2"]);
        assert_eq!(next.json()["metadata"]["resourceVersion"], version.to_string());
        assert_eq!(next.json()["metadata"]["remainingItemCount"], 1);
    }
    assert_eq!(get(&server, &format!("{R}?continue={token}")).await.names(), ["c2", "c3"]);
    let everywhere = get(&server, "/api/v1/configmaps?limit=2").await.json();
    let token = everywhere["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(get(&server, &format!("/api/v1/configmaps?continue={token}")).await.names(), ["c3", "c4"]);
}

#[tokio::test]
async fn with_a_selector_nobody_counts_what_is_left() {
    let server = server();
    configmaps(&server, &["c1", "c2", "c3"]);
    for query in ["labelSelector=!a", "fieldSelector=metadata.namespace=r"] {
        let page = get(&server, &format!("{R}?limit=1&{query}")).await.json();
        assert!(page["metadata"]["continue"].is_string(), "{query}");
        assert_eq!(page["metadata"].get("remainingItemCount"), None, "{query}");
    }
}

#[tokio::test]
async fn an_expired_page_gives_a_token_for_the_inconsistent_rest() {
    let server = server();
    configmaps(&server, &["b1", "b2", "b3"]);
    let page = get(&server, &format!("{R}?limit=1")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    let old = server.resource_version();
    configmaps(&server, &["b4"]);
    server.compact();
    let expired = get(&server, &format!("{R}?limit=2&continue={token}")).await;
    assert_eq!((expired.code, expired.json()["reason"].as_str()), (410, Some("Expired")));
    assert!(expired.message().starts_with("The provided continue parameter is too old to display"));
    let loose = expired.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(loose, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYjFcdTAwMDAifQ");
    let rest = get(&server, &format!("{R}?limit=2&continue={loose}")).await;
    assert_eq!(rest.names(), ["b2", "b3"]);
    assert_eq!(rest.json()["metadata"]["resourceVersion"], server.resource_version().to_string());
    let exact = get(&server, &format!("{R}?resourceVersion={old}&resourceVersionMatch=Exact")).await;
    assert_eq!(exact.code, 410);
    assert_eq!(
        exact.text,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"The \
         resourceVersion for the provided list is too old.\",\"reason\":\"Expired\",\"code\":410}\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_from_the_future_is_too_large_after_a_short_wait() {
    let server = server();
    let now = configmaps(&server, &["c1"]);
    let started = tokio::time::Instant::now();
    for path in [format!("{R}?resourceVersion=999999999"), format!("{R}/c1?resourceVersion=999999999")] {
        let answer = get(&server, &path).await;
        assert_eq!(answer.code, 504);
        assert_eq!(answer.headers["retry-after"], "1");
        assert_eq!(
            answer.message(),
            format!("Timeout: Too large resource version: 999999999, current: {now}")
        );
        assert_eq!(answer.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    }
    assert_eq!(started.elapsed().as_secs(), 6);
    let late = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        configmaps(&server, &["c2"]);
    };
    let path = format!("{R}?resourceVersion={}", now + 1);
    let (answer, ()) = tokio::join!(get(&server, &path), late);
    assert_eq!(answer.names(), ["c1", "c2"]);
}

#[tokio::test]
async fn impossible_options_are_refused() {
    let server = server();
    let version = configmaps(&server, &["c1", "c2"]);
    let page = get(&server, &format!("{R}?limit=1")).await.json();
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
        ("labelSelector===".into(), 400, "found '==', expected: !, identifier, or 'end of string'"),
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
        let answer = get(&server, &format!("{R}?{query}")).await;
        assert_eq!((answer.code, answer.message().as_str()), (code, message), "{query}");
    }
}

#[tokio::test]
async fn selectors_pick_by_label_and_by_field() {
    let server = server();
    for (name, node, app) in
        [("web-0", "node-1", "web"), ("web-1", "node-2", "web"), ("api-0", "node-1", "api")]
    {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"nodeName": node, "containers": []}});
        server.create(pod).unwrap();
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
    let refused = get(&server, "/api/v1/pods?fieldSelector=spec.foo=x").await;
    assert_eq!((refused.code, refused.message().as_str()), (400, "field label not supported: spec.foo"));
    server
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}}))
        .unwrap();
    assert_eq!(get(&server, "/api/v1/nodes?fieldSelector=spec.unschedulable=false").await.names(), ["n"]);
}

#[tokio::test]
async fn metadata_alone_can_be_asked_for() {
    let server = server();
    let version = configmaps(&server, &["c1", "c2"]);
    let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let answer = ask(&server, "GET", &format!("{R}?limit=1"), &[("accept", list)], "").await;
    let start = format!(
        "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{{\"resourceVersion\":\"{version}\""
    );
    assert!(answer.text.starts_with(&start), "{}", answer.text);
    let item = &answer.json()["items"][0];
    assert_eq!(item["kind"], "PartialObjectMetadata");
    assert_eq!(item["metadata"]["name"], "c1");
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let object = ask(&server, "GET", &format!("{R}/c1"), &[("accept", one)], "").await.json();
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    let wrong = ask(&server, "GET", R, &[("accept", one)], "").await;
    assert_eq!(wrong.code, 406);
    assert_eq!(
        wrong.message(),
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    );
}
