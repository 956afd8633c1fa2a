//! Expired history of etcd and of the watch cache.

use std::time::Duration;

use kube_testserver::{Disruption, Fault, RequestMatch, Server, Verb};
use serde_json::json;

use crate::client::{CONFIGMAPS, Lines, configmaps, event, get, server};

async fn watch_from(server: &Server, version: u64) -> String {
    get(server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={version}&timeoutSeconds=1")).await.text
}

async fn list_of(server: &Server, version: u64) -> u16 {
    get(server, &format!("{CONFIGMAPS}?resourceVersion={version}&resourceVersionMatch=Exact")).await.code
}

fn expired(text: &str) -> bool {
    text.contains("\"ERROR\"") && text.contains("\"code\":410")
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_expire_independently() {
    let server = server();
    let first = configmaps(&server, &["a"]);
    let last = configmaps(&server, &["b", "c"]);
    server.expire_lists(last);
    assert_eq!(list_of(&server, first).await, 410);
    assert_eq!(watch_from(&server, first).await.lines().count(), 2);
    let later = configmaps(&server, &["d"]);
    server.expire_watches(later);
    assert_eq!(list_of(&server, last).await, 200);
    assert!(expired(&watch_from(&server, last).await));
    assert!(!expired(&watch_from(&server, later).await));
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_expire_after_separate_ages() {
    let seconds = Duration::from_secs;
    let server = Server::builder().expire_lists_after(seconds(10)).expire_watches_after(seconds(20)).build();
    let first = configmaps(&server, &["a"]);
    configmaps(&server, &["b"]);
    tokio::time::advance(seconds(11)).await;
    assert_eq!(list_of(&server, first).await, 410);
    assert!(!expired(&watch_from(&server, first).await));
    tokio::time::advance(seconds(10)).await;
    assert!(expired(&watch_from(&server, first).await));
}

#[tokio::test]
async fn compaction_between_pages_expires_the_token() {
    let server = server();
    configmaps(&server, &["a", "b", "c", "d"]);
    let pages = RequestMatch::verb(Verb::List).with_parameter("continue");
    server.faults().nth(2, pages, Fault::Disrupt(Disruption::ExpireLists));
    let mut path = format!("{CONFIGMAPS}?limit=1");
    let mut codes = Vec::new();
    for name in ["e", "f", "g"] {
        let page = get(&server, &path).await;
        codes.push(page.code);
        let token = page.json()["metadata"]["continue"].as_str().unwrap().to_owned();
        path = format!("{CONFIGMAPS}?limit=1&continue={token}");
        configmaps(&server, &[name]);
    }
    assert_eq!(codes, [200, 200, 410]);
    assert_eq!(get(&server, &path).await.names(), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn restart_breaks_watches_and_expires_events_but_not_lists() {
    let server = server();
    let first = configmaps(&server, &["a"]);
    let page = get(&server, &format!("{CONFIGMAPS}?limit=1")).await.json();
    configmaps(&server, &["b", "c"]);
    let page = page["metadata"]["continue"].as_str().map(str::to_owned);
    let last = server.resource_version();
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={last}")).await;
    server.restart();
    assert!(watch.line().await.unwrap().is_err());
    assert!(expired(&watch_from(&server, first).await));
    assert_eq!(watch_from(&server, last).await, "");
    assert_eq!(list_of(&server, first).await, 200);
    assert_eq!(page, None);
    assert_eq!(server.resource_version(), last);
    server.expire_lists(last);
    assert_eq!(list_of(&server, first).await, 410);
}

#[tokio::test]
async fn clock_jump_changes_timestamps_but_not_timers() {
    let server = server();
    configmaps(&server, &["a"]);
    server.jump_clock(jiff::SignedDuration::from_hours(-48));
    configmaps(&server, &["b"]);
    server.set_clock(kube_testserver::Clock::Fixed(jiff::Timestamp::UNIX_EPOCH));
    configmaps(&server, &["c"]);
    let list = get(&server, CONFIGMAPS).await.json();
    let stamp = |at: usize| list["items"][at]["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    assert_eq!(
        [stamp(0), stamp(1), stamp(2)],
        ["2026-11-21T02:25:40Z", "2026-11-19T02:25:40Z", "1970-01-01T00:00:00Z"]
    );
}

#[tokio::test(start_paused = true)]
async fn up_to_date_watch_survives_compaction() {
    let server = server();
    let first = configmaps(&server, &["a"]);
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={first}")).await;
    server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})).unwrap();
    server.compact();
    let next = configmaps(&server, &["b"]);
    assert_eq!(watch.event().await, event("ADDED", "b", next));
}

#[tokio::test(start_paused = true)]
async fn unread_watch_expires_but_exact_list_still_works() {
    let server = server();
    let start = configmaps(&server, &["a"]);
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    configmaps(&server, &["b"]);
    server.expire_watches(server.resource_version());
    assert!(expired(&watch.line().await.unwrap().unwrap()));
    assert_eq!(list_of(&server, start).await, 200);
}
