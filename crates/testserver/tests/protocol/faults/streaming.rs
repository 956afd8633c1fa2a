//! The responses of a server to streaming lists.

use kube_testserver::{Server, StreamingLists};

use crate::client::{CONFIGMAPS, Response, configmaps, get};

const STREAM: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

async fn stream(mode: StreamingLists) -> Response {
    let server = Server::builder().streaming_lists(mode).build();
    configmaps(&server, &["a"]);
    get(&server, &format!("{CONFIGMAPS}?{STREAM}&timeoutSeconds=1")).await
}

const REJECTION: &str =
    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";

#[tokio::test(start_paused = true)]
async fn streaming_list_is_served_rejected_or_ignored() {
    let served = stream(StreamingLists::Served).await;
    assert!(served.text.contains("k8s.io/initial-events-end"), "{}", served.text);
    let rejected = stream(StreamingLists::Refused).await;
    assert_eq!(rejected.code, 422);
    assert!(rejected.message().contains(REJECTION));
    let event = stream(StreamingLists::ErrorEvent).await;
    assert_eq!((event.code, event.text.lines().count()), (200, 1));
    assert!(
        event.text.starts_with("{\"type\":\"ERROR\"") && event.text.contains(REJECTION),
        "{}",
        event.text
    );
    let ignored = stream(StreamingLists::Ignored).await;
    assert_eq!((ignored.code, ignored.events()[0].1.as_str()), (200, "a"));
    assert!(!ignored.text.contains("initial-events-end"), "{}", ignored.text);
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_can_be_changed_at_run_time() {
    let server = Server::new();
    configmaps(&server, &["a"]);
    let path = format!("{CONFIGMAPS}?{STREAM}&timeoutSeconds=1");
    server.set_streaming_lists(false);
    assert_eq!(get(&server, &path).await.code, 422);
    server.set_streaming_lists(StreamingLists::Served);
    assert_eq!(get(&server, &path).await.code, 200);
}
