//! WATCH: replay, selectors, bookmarks, expiry, streaming lists.

use std::time::Duration;

use kube_testserver::Server;
use serde_json::{Value, json};

use crate::ask::{Lines, R, ask, configmaps, get, seen, server};

fn label(server: &Server, name: &str, app: &str) -> u64 {
    let patch = json!({"metadata": {"labels": {"app": app}}});
    server.patch("v1", "ConfigMap", Some("r"), name, &patch).expect("a patched ConfigMap");
    server.resource_version()
}

fn data(server: &Server, name: &str, value: &str) -> u64 {
    server
        .patch("v1", "ConfigMap", Some("r"), name, &json!({"data": {"k": value}}))
        .expect("a patched ConfigMap");
    server.resource_version()
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_replays_what_came_after_it() {
    let server = server();
    let first = configmaps(&server, &["c1"]);
    configmaps(&server, &["c2"]);
    let third = label(&server, "c1", "x");
    let gone = server.delete("v1", "ConfigMap", Some("r"), "c2").map(|_| server.resource_version()).unwrap();
    let answer = get(&server, &format!("{R}?watch=true&resourceVersion={first}&timeoutSeconds=1")).await;
    let expected =
        [seen("ADDED", "c2", first + 1), seen("MODIFIED", "c1", third), seen("DELETED", "c2", gone)];
    assert_eq!(answer.events(), expected);
}

#[tokio::test(start_paused = true)]
async fn without_a_version_a_watch_starts_with_what_is_there() {
    let server = server();
    let last = configmaps(&server, &["c1", "c2"]);
    for query in ["", "&resourceVersion=0"] {
        let answer = get(&server, &format!("{R}?watch=true&timeoutSeconds=1{query}")).await;
        assert_eq!(answer.events(), [seen("ADDED", "c1", last - 1), seen("ADDED", "c2", last)]);
        let answer = get(&server, &format!("{R}?watch&allowWatchBookmarks=1&timeoutSeconds=3{query}")).await;
        assert_eq!(answer.events().len(), 3, "{query}");
        let end = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{last}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}"
        );
        assert_eq!(answer.text.lines().last(), Some(end.as_str()));
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_edge_of_a_selector_objects_are_added_and_deleted() {
    let server = server();
    let start = configmaps(&server, &["c1"]);
    label(&server, "c1", "x");
    data(&server, "c1", "1");
    label(&server, "c1", "y");
    data(&server, "c1", "2");
    label(&server, "c1", "x");
    server.delete("v1", "ConfigMap", Some("r"), "c1").unwrap();
    let path = format!("{R}?watch=1&resourceVersion={start}&timeoutSeconds=1&labelSelector=app=x");
    let answer = get(&server, &path).await;
    let expected = [
        seen("ADDED", "c1", start + 1),
        seen("MODIFIED", "c1", start + 2),
        seen("DELETED", "c1", start + 3),
        seen("ADDED", "c1", start + 5),
        seen("DELETED", "c1", start + 6),
    ];
    assert_eq!(answer.events(), expected);
    let left: Value = serde_json::from_str(answer.text.lines().nth(2).unwrap()).unwrap();
    assert_eq!(left["object"]["metadata"]["labels"]["app"], "x");
    assert_eq!(left["object"]["data"]["k"], "1");
}

#[tokio::test]
async fn a_watch_goes_on_live_and_sees_each_write_once() {
    let server = server();
    let start = configmaps(&server, &["c1"]);
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={start}")).await;
    for n in 1..=300 {
        data(&server, "c1", &n.to_string());
    }
    for n in 1..=300 {
        assert_eq!(watch.event().await, seen("MODIFIED", "c1", start + n));
    }
    server.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}})).unwrap();
    configmaps(&server, &["c2"]);
    assert_eq!(watch.event().await.1, "c2");
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_comes_before_the_end_but_never_at_the_start_version() {
    let server = server();
    let start = configmaps(&server, &["c1"]);
    let path = |seconds: u32| {
        format!("{R}?watch=1&allowWatchBookmarks=true&resourceVersion={start}&timeoutSeconds={seconds}")
    };
    assert_eq!(get(&server, &path(300)).await.text, "");
    server.create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})).unwrap();
    let bookmark = format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{}\"}}}}}}\n",
        start + 1
    );
    assert_eq!(get(&server, &path(1)).await.text, "");
    assert_eq!(get(&server, &path(3)).await.text, bookmark);
    assert_eq!(get(&server, &path(65)).await.text, bookmark.repeat(2));
}

#[tokio::test]
async fn a_bookmark_can_be_asked_for_by_the_test() {
    let server = server();
    let start = configmaps(&server, &["c1"]);
    let with = format!("{R}?watch=1&allowWatchBookmarks=true&resourceVersion={start}");
    let (mut wanted, mut unwanted) = (
        Lines::open(&server, &with).await,
        Lines::open(&server, &format!("{R}?watch=1&resourceVersion={start}")).await,
    );
    server.send_bookmarks();
    let version = data(&server, "c1", "1");
    server.send_bookmarks();
    assert_eq!(wanted.event().await, seen("MODIFIED", "c1", version));
    assert_eq!(wanted.event().await, seen("BOOKMARK", "", version));
    assert_eq!(unwanted.event().await, seen("MODIFIED", "c1", version));
    server.close_watches();
    assert!(unwanted.line().await.is_none());
    assert!(wanted.line().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_its_initial_events_with_a_bookmark() {
    let server = server();
    let last = configmaps(&server, &["c1", "c2"]);
    let stream =
        format!("{R}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=2");
    let bare = get(&server, &stream).await;
    assert_eq!(bare.events().len(), 2);
    let path = format!(
        "{stream}&allowWatchBookmarks=true&resourceVersion={}&fieldSelector=metadata.name=c2",
        last - 1
    );
    let answer = get(&server, &path).await;
    assert_eq!(answer.events(), [seen("ADDED", "c2", last), seen("BOOKMARK", "", last)]);
    let deployments = stream.replace(R, "/apis/apps/v1/deployments") + "&allowWatchBookmarks=true";
    assert_eq!(
        get(&server, &deployments).await.text,
        format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"Deployment\",\"apiVersion\":\"apps/v1\",\"metadata\":{{\"resourceVersion\":\"{last}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}},\"spec\":{{\"replicas\":0,\"selector\":null,\"template\":{{\"metadata\":{{}},\"spec\":{{\"containers\":null}}}},\"strategy\":{{}}}},\"status\":{{}}}}}}\n"
        )
    );
    let now = "?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    assert_eq!(get(&server, &format!("{R}{now}")).await.text, "");
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_can_be_switched_off() {
    let server = Server::builder().streaming_lists(false).build();
    let path = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let refused = get(&server, path).await;
    assert_eq!(refused.code, 422);
    assert!(refused.message().ends_with("forbidden for watch unless the WatchList feature gate is enabled"));
    let plain = get(&server, "/api/v1/namespaces?watch=1&allowWatchBookmarks=1&timeoutSeconds=1").await;
    assert_eq!(plain.events().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_the_future_is_silent_and_a_streaming_list_of_it_too_large() {
    let server = server();
    let now = configmaps(&server, &["c1"]);
    let path = format!("{R}?watch=true&resourceVersion=999999999&timeoutSeconds=5&allowWatchBookmarks=true");
    let mut silent = Lines::open(&server, &path).await;
    data(&server, "c1", "1");
    assert!(silent.line().await.is_none());
    let path = format!("{path}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let answer = get(&server, &path).await;
    assert_eq!(
        answer.text,
        format!(
            "{{\"type\":\"ERROR\",\"object\":{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":\"Timeout: Too large resource version: 999999999, current: {}\",\"reason\":\"Timeout\",\"details\":{{\"causes\":[{{\"reason\":\"ResourceVersionTooLarge\",\"message\":\"Too large resource version\"}}],\"retryAfterSeconds\":1}},\"code\":504}}}}\n",
            now + 1
        )
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_an_error_event() {
    let server = server();
    configmaps(&server, &["c1", "c2"]);
    server.compact();
    let floor = server.resource_version();
    let answer = get(&server, &format!("{R}?watch=true&resourceVersion=1&timeoutSeconds=3")).await;
    assert_eq!(answer.code, 200);
    assert_eq!(
        answer.text,
        format!(
            "{{\"type\":\"ERROR\",\"object\":{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":\"too old resource version: 1 ({floor})\",\"reason\":\"Expired\",\"code\":410}}}}\n"
        )
    );
}

#[tokio::test]
async fn a_watcher_that_falls_behind_the_window_is_told_so() {
    let server = Server::builder().history(10).build();
    let start = configmaps(&server, &["c1"]);
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={start}")).await;
    let mut quick = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={start}")).await;
    for n in 0..11 {
        data(&server, "c1", &n.to_string());
        assert_eq!(quick.event().await.0, "MODIFIED");
    }
    let error = watch.line().await.unwrap().unwrap();
    assert!(error.contains("too old resource version"), "{error}");
    assert!(watch.line().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn history_expires_by_age_where_that_is_set() {
    let server = Server::builder().expire_after(Duration::from_secs(60)).build();
    let start = configmaps(&server, &["c1"]);
    data(&server, "c1", "1");
    tokio::time::advance(Duration::from_secs(61)).await;
    let path = format!("{R}?watch=1&resourceVersion={start}&timeoutSeconds=1");
    assert_eq!(get(&server, &path).await.events()[0].0, "ERROR");
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_can_be_watched() {
    let server = server();
    let last = configmaps(&server, &["c1"]);
    data(&server, "c1", "secret");
    let one = [("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")];
    let path = format!("{R}?watch=1&resourceVersion={last}&allowWatchBookmarks=1&timeoutSeconds=3");
    let answer = ask(&server, "GET", &path, &one, "").await;
    let first: Value = serde_json::from_str(answer.text.lines().next().unwrap()).unwrap();
    assert_eq!(first["object"]["kind"], "PartialObjectMetadata");
    assert!(first["object"].get("data").is_none());
    let bookmark = format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{{\"resourceVersion\":\"{}\"}}}}}}",
        last + 1
    );
    assert_eq!(answer.text.lines().last(), Some(bookmark.as_str()));
    let list = [("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")];
    let odd = ask(&server, "GET", &path, &list, "").await;
    assert_eq!((odd.code, odd.text.as_str()), (200, ""));
}

#[tokio::test(start_paused = true)]
async fn wrong_options_of_a_watch_are_refused() {
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
        let answer = get(&server, &format!("{R}?watch=true&{query}")).await;
        assert_eq!((answer.code, answer.message().as_str()), (code, message), "{query}");
    }
    assert_eq!(get(&server, &format!("{R}?watch=true&timeoutSeconds=-1&resourceVersion=1")).await.text, "");
    let by_path = get(&server, "/api/v1/watch/namespaces?timeoutSeconds=1").await;
    assert_eq!(by_path.events().len(), 5);
}
