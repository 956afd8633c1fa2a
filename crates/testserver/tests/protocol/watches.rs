//! WATCH: replay, selectors, bookmarks, expiry, streaming lists.

use std::time::Duration;

use kube_testserver::Server;
use serde_json::json;

use crate::client::{CONFIGMAPS, Lines, configmaps, event, get, server};

fn data(server: &Server, name: &str, value: &str) -> u64 {
    server
        .patch_untyped("v1", "ConfigMap", Some("r"), name, &json!({"data": {"k": value}}))
        .expect("a patched ConfigMap");
    server.resource_version()
}

#[tokio::test(start_paused = true)]
async fn watch_without_a_version_starts_with_current_objects() {
    let server = server();
    let last = configmaps(&server, &["c1", "c2"]);
    for query in ["", "&resourceVersion=0"] {
        let response = get(&server, &format!("{CONFIGMAPS}?watch=true&timeoutSeconds=1{query}")).await;
        assert_eq!(response.events(), [event("ADDED", "c1", last - 1), event("ADDED", "c2", last)]);
        let response =
            get(&server, &format!("{CONFIGMAPS}?watch&allowWatchBookmarks=1&timeoutSeconds=3{query}")).await;
        assert_eq!(response.events().len(), 3, "{query}");
        let end = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{last}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}"
        );
        assert_eq!(response.text.lines().last(), Some(end.as_str()));
    }
}

#[tokio::test]
async fn watch_receives_each_live_write_once() {
    let server = server();
    let start = configmaps(&server, &["c1"]);
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    for n in 1..=300 {
        data(&server, "c1", &n.to_string());
    }
    for n in 1..=300 {
        assert_eq!(watch.event().await, event("MODIFIED", "c1", start + n));
    }
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}})).unwrap();
    configmaps(&server, &["c2"]);
    assert_eq!(watch.event().await.1, "c2");
}

#[tokio::test(start_paused = true)]
async fn bookmark_is_sent_before_the_timeout_and_after_the_start_version() {
    let server = server();
    let start = configmaps(&server, &["c1"]);
    let path = |seconds: u32| {
        format!(
            "{CONFIGMAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={start}&timeoutSeconds={seconds}"
        )
    };
    assert_eq!(get(&server, &path(300)).await.text, "");
    server.create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})).unwrap();
    let bookmark = format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{}\"}}}}}}\n",
        start + 1
    );
    assert_eq!(get(&server, &path(1)).await.text, "");
    assert_eq!(get(&server, &path(3)).await.text, bookmark);
    assert_eq!(get(&server, &path(65)).await.text, bookmark.repeat(2));
}

#[tokio::test]
async fn test_can_request_a_bookmark() {
    let server = server();
    let start = configmaps(&server, &["c1"]);
    let with = format!("{CONFIGMAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={start}");
    let (mut wanted, mut unwanted) = (
        Lines::open(&server, &with).await,
        Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await,
    );
    server.send_bookmarks();
    let version = data(&server, "c1", "1");
    server.send_bookmarks();
    assert_eq!(wanted.event().await, event("MODIFIED", "c1", version));
    assert_eq!(wanted.event().await, event("BOOKMARK", "", version));
    assert_eq!(unwanted.event().await, event("MODIFIED", "c1", version));
    server.close_watches();
    assert!(unwanted.line().await.is_none());
    assert!(wanted.line().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn bookmark_follows_the_initial_events_of_a_streaming_list() {
    let server = server();
    let last = configmaps(&server, &["c1", "c2"]);
    let stream = format!(
        "{CONFIGMAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=2"
    );
    let bare = get(&server, &stream).await;
    assert_eq!(bare.events().len(), 2);
    let path = format!(
        "{stream}&allowWatchBookmarks=true&resourceVersion={}&fieldSelector=metadata.name=c2",
        last - 1
    );
    let response = get(&server, &path).await;
    assert_eq!(response.events(), [event("ADDED", "c2", last), event("BOOKMARK", "", last)]);
    let deployments = stream.replace(CONFIGMAPS, "/apis/apps/v1/deployments") + "&allowWatchBookmarks=true";
    assert_eq!(
        get(&server, &deployments).await.text,
        format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"Deployment\",\"apiVersion\":\"apps/v1\",\"metadata\":{{\"resourceVersion\":\"{last}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}},\"spec\":{{\"replicas\":0,\"selector\":null,\"template\":{{\"metadata\":{{}},\"spec\":{{\"containers\":null}}}},\"strategy\":{{}}}},\"status\":{{}}}}}}\n"
        )
    );
    let now = "?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    assert_eq!(get(&server, &format!("{CONFIGMAPS}{now}")).await.text, "");
}

#[tokio::test(start_paused = true)]
async fn disabled_streaming_lists_are_rejected() {
    let server = Server::builder().streaming_lists(false).build();
    let path = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let rejected = get(&server, path).await;
    assert_eq!(rejected.code, 422);
    assert!(rejected.message().ends_with("forbidden for watch unless the WatchList feature gate is enabled"));
    let plain = get(&server, "/api/v1/namespaces?watch=1&allowWatchBookmarks=1&timeoutSeconds=1").await;
    assert_eq!(plain.events().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn future_watch_is_silent_and_streaming_list_too_large() {
    let server = server();
    let now = configmaps(&server, &["c1"]);
    let path = format!(
        "{CONFIGMAPS}?watch=true&resourceVersion=999999999&timeoutSeconds=5&allowWatchBookmarks=true"
    );
    let mut silent = Lines::open(&server, &path).await;
    data(&server, "c1", "1");
    assert!(silent.line().await.is_none());
    let path = format!("{path}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let response = get(&server, &path).await;
    assert_eq!(
        response.text,
        format!(
            "{{\"type\":\"ERROR\",\"object\":{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":\"Timeout: Too large resource version: 999999999, current: {}\",\"reason\":\"Timeout\",\"details\":{{\"causes\":[{{\"reason\":\"ResourceVersionTooLarge\",\"message\":\"Too large resource version\"}}],\"retryAfterSeconds\":1}},\"code\":504}}}}\n",
            now + 1
        )
    );
}

#[tokio::test(start_paused = true)]
async fn expired_version_returns_an_error_event() {
    let server = server();
    configmaps(&server, &["c1", "c2"]);
    server.compact();
    let floor = server.resource_version();
    let response = get(&server, &format!("{CONFIGMAPS}?watch=true&resourceVersion=1&timeoutSeconds=3")).await;
    assert_eq!(response.code, 200);
    assert_eq!(
        response.text,
        format!(
            "{{\"type\":\"ERROR\",\"object\":{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":\"too old resource version: 1 ({floor})\",\"reason\":\"Expired\",\"code\":410}}}}\n"
        )
    );
}

#[tokio::test]
async fn watch_behind_the_history_window_expires() {
    let server = Server::builder().history(10).build();
    let start = configmaps(&server, &["c1"]);
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    let mut quick = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    for n in 0..11 {
        data(&server, "c1", &n.to_string());
        assert_eq!(quick.event().await.0, "MODIFIED");
    }
    let error = watch.line().await.unwrap().unwrap();
    assert!(error.contains("too old resource version"), "{error}");
    assert!(watch.line().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn history_expires_after_the_configured_age() {
    let server = Server::builder().expire_after(Duration::from_secs(60)).build();
    let start = configmaps(&server, &["c1"]);
    data(&server, "c1", "1");
    tokio::time::advance(Duration::from_secs(61)).await;
    let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={start}&timeoutSeconds=1");
    assert_eq!(get(&server, &path).await.events()[0].0, "ERROR");
}

#[tokio::test(start_paused = true)]
async fn invalid_watch_options_are_rejected() {
    let server = server();
    configmaps(&server, &[]);
    for (query, code, message) in [
        (
            "resourceVersion=abc",
            500,
            "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        ("timeoutSeconds=abc", 400, "strconv.ParseInt: parsing \"abc\": invalid syntax"),
        (
            "resourceVersionMatch=NotOlderThan",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (
            "sendInitialEvents=true",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]",
        ),
    ] {
        let response = get(&server, &format!("{CONFIGMAPS}?watch=true&{query}")).await;
        assert_eq!((response.code, response.message().as_str()), (code, message), "{query}");
    }
    assert_eq!(
        get(&server, &format!("{CONFIGMAPS}?watch=true&timeoutSeconds=-1&resourceVersion=1")).await.text,
        ""
    );
    let by_path = get(&server, "/api/v1/watch/namespaces?timeoutSeconds=1").await;
    assert_eq!(by_path.events().len(), 5);
}
