//! Lists and watches of a shard.

use crate::ask::{Answer, R, configmaps, get};
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

async fn list(server: &Server, shard: &str, more: &str) -> Answer {
    get(server, &format!("{R}?shardSelector={}&{more}", shard.replace('|', "%7C"))).await
}

#[tokio::test]
async fn each_object_is_in_one_of_the_shards_and_each_list_says_its_own() {
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
async fn a_page_of_a_shard_counts_all_that_is_not_sent() {
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
async fn a_watch_of_a_shard_tells_of_its_objects_only() {
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
async fn what_is_no_selector_is_refused_only_where_shards_are_known() {
    let server = sharded();
    for more in ["", "watch=true"] {
        let refused = list(&server, "x", more).await;
        assert_eq!((refused.code, refused.json()["reason"].as_str()), (500, None));
        let why = "unexpected expression kind 3; expected shardRange() call or || operator";
        assert_eq!(refused.message(), format!("invalid shard selector: {why}"));
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
