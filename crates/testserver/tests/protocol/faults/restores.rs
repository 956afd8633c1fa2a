//! etcd restored from a backup, in both ways.

use std::time::Duration;

use kube_testserver::{Disruption, Fault, Match, Server};
use tokio::time::timeout;

use crate::ask::{Lines, R, configmaps, get, seen, server};

#[tokio::test(start_paused = true)]
async fn below_the_clients_version_a_watch_is_silent_and_a_list_too_large() {
    let server = server();
    let backup = configmaps(&server, &["a"]);
    let client = configmaps(&server, &["b", "c"]);
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={client}")).await;
    server.restore(backup).unwrap();
    assert!(watch.line().await.unwrap().is_err());
    let mut resumed = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={client}")).await;
    let list = get(&server, &format!("{R}?resourceVersion={client}&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!((list.code, &list.json()["reason"]), (504, &"Timeout".into()));
    assert_eq!(get(&server, R).await.names(), ["a"]);
    configmaps(&server, &["x"]);
    assert!(timeout(Duration::from_secs(60), resumed.line()).await.is_err());
    let passed = configmaps(&server, &["y", "z"]);
    assert_eq!(passed, client + 1);
    assert_eq!(resumed.event().await, seen("ADDED", "z", passed));
}

#[tokio::test(start_paused = true)]
async fn with_bumped_revisions_all_that_was_is_expired() {
    let server = server();
    let backup = configmaps(&server, &["a"]);
    let client = configmaps(&server, &["b"]);
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={client}")).await;
    server.restore_bumped(backup, 1_000_000_000).unwrap();
    assert!(watch.line().await.unwrap().is_err());
    let resumed = get(&server, &format!("{R}?watch=1&resourceVersion={client}&timeoutSeconds=1")).await;
    assert!(resumed.text.contains("\"code\":410"), "{}", resumed.text);
    let exact = get(&server, &format!("{R}?resourceVersion={client}&resourceVersionMatch=Exact")).await;
    assert_eq!(exact.code, 410);
    let list = get(&server, &format!("{R}?resourceVersion={client}")).await;
    assert_eq!(list.names(), ["a"]);
    let version = backup + 1_000_000_000;
    assert_eq!(list.json()["metadata"]["resourceVersion"], version.to_string());
    assert_eq!(list.json()["items"][0]["metadata"]["resourceVersion"], backup.to_string());
    assert_eq!(configmaps(&server, &["c"]), version + 1);
    assert_eq!(server.restore(backup - 1).unwrap_err().code(), 410);
}

#[tokio::test]
async fn a_restore_within_a_fault_loses_as_much_as_there_is() {
    let server = Server::builder().history(2).build();
    configmaps(&server, &["a", "b", "c", "d"]);
    server.faults().next(Match::any(), Fault::First(Disruption::Restore { back: 1 }));
    assert_eq!(get(&server, R).await.names(), ["a", "b", "c"]);
    server.disrupt(Disruption::RestoreBumped { back: 100, bump: 50 });
    assert_eq!(get(&server, R).await.names(), ["a", "b"]);
}
