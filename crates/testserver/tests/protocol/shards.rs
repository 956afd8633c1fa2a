//! Lists and watches of a shard.

use crate::client::{CONFIGMAPS, Response, configmaps, get};
use kube_testserver::Server;
use serde_json::json;

const LOW: &str = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')";
const HIGH: &str = "shardRange(object.metadata.uid,'0x8000000000000000','0x10000000000000000')";
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn sharded() -> Server {
    let server = Server::builder().sharded_lists(true).build();
    configmaps(&server, &NAMES);
    server
}

async fn list(server: &Server, shard: &str, more: &str) -> Response {
    get(server, &format!("{CONFIGMAPS}?shardSelector={}&{more}", shard.replace('|', "%7C"))).await
}

#[tokio::test]
async fn each_object_is_in_one_shard_and_lists_report_their_shard() {
    let server = sharded();
    let (low, high) = (list(&server, LOW, "").await, list(&server, HIGH, "").await);
    let mut names = [low.names(), high.names()].concat();
    assert!(!low.names().is_empty() && !high.names().is_empty());
    names.sort();
    assert_eq!(names, NAMES);
    let shown = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
    assert_eq!(low.json()["metadata"]["shardInfo"], json!({"selector": shown}));
    let both = list(&server, &format!("{LOW}||{HIGH}"), "").await;
    assert_eq!(both.names(), NAMES);
}

#[tokio::test]
async fn remaining_count_of_a_shard_includes_other_shards() {
    let server = sharded();
    let low = list(&server, LOW, "").await.names();
    let page = list(&server, LOW, "limit=1").await;
    assert_eq!(page.names(), low[..1]);
    assert_eq!(page.json()["metadata"]["remainingItemCount"], 7);
    let token = page.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = list(&server, LOW, &format!("continue={token}")).await;
    assert_eq!(rest.names(), low[1..]);
}

#[tokio::test(start_paused = true)]
async fn watch_of_a_shard_reports_only_its_objects() {
    let server = sharded();
    let low = list(&server, LOW, "").await.names();
    let options = "watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    for start in [format!("{options}&sendInitialEvents=true"), "watch=true&timeoutSeconds=1".into()] {
        let events = list(&server, LOW, &start).await.events();
        let added: Vec<_> = events.iter().filter(|event| event.0 == "ADDED").map(|event| &event.1).collect();
        assert_eq!(added, low.iter().collect::<Vec<_>>());
    }
    let namespace = "shardRange(object.metadata.namespace,'0x0000000000000000','0xaf63ef4c86020a00')";
    assert_eq!(list(&server, namespace, "").await.names().len() % NAMES.len(), 0);
}

#[tokio::test]
async fn invalid_shard_selector_is_rejected_only_if_shards_are_enabled() {
    let server = sharded();
    for more in ["", "watch=true"] {
        let rejected = list(&server, "x", more).await;
        assert_eq!((rejected.code, rejected.json()["reason"].as_str()), (500, None));
        let detail = "unexpected expression kind 3; expected shardRange() call or || operator";
        assert_eq!(rejected.message(), format!("invalid shard selector: {detail}"));
    }
    assert_eq!(list(&server, "x", "limit=x").await.code, 400);
    assert_eq!(list(&server, "", "").await.names(), NAMES);
    let without = Server::new();
    configmaps(&without, &NAMES);
    for shard in ["x", LOW] {
        let all = list(&without, shard, "").await;
        assert_eq!((all.names().len(), &all.json()["metadata"]["shardInfo"]), (8, &json!(null)));
    }
}
