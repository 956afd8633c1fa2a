//! Streaming lists that a server does not support, in three ways.

use kube_testserver::{Server, StreamingLists};

use crate::ask::{Answer, R, configmaps, get};

const STREAM: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

async fn stream(how: StreamingLists) -> Answer {
    let server = Server::builder().streaming_lists(how).build();
    configmaps(&server, &["a"]);
    get(&server, &format!("{R}?{STREAM}&timeoutSeconds=1")).await
}

const REFUSAL: &str = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";

#[tokio::test(start_paused = true)]
async fn it_is_served_refused_refused_in_an_event_or_not_understood() {
    let served = stream(StreamingLists::Served).await;
    assert!(served.text.contains("k8s.io/initial-events-end"), "{}", served.text);
    let refused = stream(StreamingLists::Refused).await;
    assert_eq!(refused.code, 422);
    assert!(refused.message().contains(REFUSAL));
    let event = stream(StreamingLists::ErrorEvent).await;
    assert_eq!((event.code, event.text.lines().count()), (200, 1));
    assert!(event.text.starts_with("{\"type\":\"ERROR\"") && event.text.contains(REFUSAL), "{}", event.text);
    let ignored = stream(StreamingLists::Ignored).await;
    assert_eq!((ignored.code, ignored.events()[0].1.as_str()), (200, "a"));
    assert!(!ignored.text.contains("initial-events-end"), "{}", ignored.text);
}

#[tokio::test(start_paused = true)]
async fn it_can_change_while_the_server_runs() {
    let server = Server::new();
    configmaps(&server, &["a"]);
    let path = format!("{R}?{STREAM}&timeoutSeconds=1");
    server.set_streaming_lists(false);
    assert_eq!(get(&server, &path).await.code, 422);
    server.set_streaming_lists(StreamingLists::Served);
    assert_eq!(get(&server, &path).await.code, 200);
}
