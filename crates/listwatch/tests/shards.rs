//! Tests of a source of a shard: the selector in its requests, and the objects of other slots that a server
//! without support returns.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_listwatch::{
    Decoded, ListAt, ListPart, ListRequest, ListWatch, ListerWatcher, WatchEvent, WatchFrom, WatchRequest,
};
use kube_object::{KeyRef, NoCache, Shard, ShardKey, Slot, SlotCount};
use kube_testserver::Server;
use serde_json::json;

fn shard(key: ShardKey, slots: &[u8]) -> Shard {
    Shard { key, count: SlotCount::new(4).unwrap(), slots: slots.iter().copied().map(Slot).collect() }
}

fn create(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

fn source(server: &Server) -> ListWatch<ConfigMap> {
    ListWatch::new(Api::all(Client::new(server.service(), "default")))
}

/// Returns the names of the listed objects, and the number of items of other slots.
async fn listed(source: &dyn ListerWatcher<ConfigMap>, limit: Option<u32>) -> (Vec<String>, usize) {
    let (mut names, mut others, mut at) = (Vec::new(), 0, ListAt::Consistent);
    loop {
        let mut parts = source.list(ListRequest { at, limit }, Arc::new(NoCache));
        let mut next = None;
        while let Some(part) = parts.try_next().await.unwrap() {
            match part {
                ListPart::Items { items, .. } => {
                    names.extend(items.iter().map(|item| item.id().key.name().to_owned()));
                }
                ListPart::OtherSlots { items } => others += items,
                ListPart::End(end) => next = end.next,
            }
        }
        match next {
            Some(token) => at = ListAt::Continue(token),
            None => return (names, others),
        }
    }
}

fn short(event: &WatchEvent<ConfigMap>) -> String {
    match event {
        WatchEvent::Opened => "^".to_owned(),
        WatchEvent::Added(object) => format!("+{}", object.id().key.name()),
        WatchEvent::Modified(object) => format!("~{}", object.id().key.name()),
        WatchEvent::Deleted { id, .. } => format!("-{}", id.key.name()),
        WatchEvent::Bookmark { .. } => "*".to_owned(),
        WatchEvent::OtherSlot { added, version } => format!("other {added} {version}"),
    }
}

#[tokio::test]
async fn shards_divide_objects_with_and_without_support() {
    for supported in [false, true] {
        let server = Server::builder().sharded_lists(supported).build();
        (0..40).for_each(|number| create(&server, &format!("map-{number}")));
        let (whole, mut seen) = (source(&server), Vec::new());
        for slot in 0..4 {
            let part = whole.for_shard(&shard(ShardKey::Uid, &[slot])).unwrap();
            let (names, _) = listed(&*part, None).await;
            let (paged, others) = listed(&*part, Some(3)).await;
            assert_eq!(names, paged);
            assert_eq!(others > 0, !supported, "a server without support returns all objects");
            seen.extend(names);
        }
        seen.sort();
        let (mut all, _) = listed(&whole, None).await;
        all.sort();
        assert_eq!(seen, all, "each object is in one shard");
    }
}

#[tokio::test]
async fn requests_contain_selector() {
    let server = Server::new();
    let part = source(&server).for_shard(&shard(ShardKey::Uid, &[1, 2])).unwrap();
    listed(&*part, None).await;
    let request = WatchRequest { from: WatchFrom::Version(1.into()), timeout: None, bookmarks: true };
    let mut events = part.watch(request, Arc::new(NoCache));
    assert!(matches!(events.next().await, Some(Ok(batch)) if matches!(batch[..], [WatchEvent::Opened])));
    let all = source(&server).for_shard(&shard(ShardKey::Uid, &[0, 1, 2, 3])).unwrap();
    listed(&*all, None).await;
    let urls: Vec<String> = server.journal().requests().iter().map(|request| request.query.clone()).collect();
    let range = "shardSelector=shardRange%28object.metadata.uid%2C+%270x4000000000000000%27%2C+%270xc000000000000000%27%29";
    assert!(urls[0].contains(range) && urls[1].contains(range), "{urls:?}");
    assert!(!urls[2].contains("shardSelector"), "each slot is in the shard: {urls:?}");
}

/// A server of any version filters by labels.
#[tokio::test]
async fn slot_label_selects_objects_on_the_server() {
    let server = Server::builder().sharded_lists(false).build();
    let count = SlotCount::new(4).unwrap();
    let mut expected = Vec::new();
    for number in 0..40 {
        let name = format!("map-{number}");
        let slot = count.slot_of_key(ShardKey::Name, KeyRef::new(Some("default"), &name)).unwrap();
        // The labels of some objects are wrong or missing, or another selector excludes the object.
        let labels = match number % 8 {
            0 => json!({"app": "web"}),
            1 => json!({"app": "web", "slot": (slot.0 + 1).to_string()}),
            2 => json!({"app": "other", "slot": slot.to_string()}),
            _ => json!({"app": "web", "slot": slot.to_string()}),
        };
        if number % 8 > 2 {
            expected.push(name.clone());
        }
        let metadata = json!({"name": name, "namespace": "default", "labels": labels});
        server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
    }
    let whole = source(&server).slot_label("slot").options(|options| {
        options.label_selector = Some("app=web".to_owned());
    });
    assert_eq!(listed(&whole, None).await.0.len(), 30, "objects without the label are not selected");
    let mut seen = Vec::new();
    for slots in [[0, 2], [1, 3]] {
        let part = whole.for_shard(&shard(ShardKey::Name, &slots)).unwrap();
        seen.extend(listed(&*part, None).await.0);
    }
    seen.sort();
    expected.sort();
    assert_eq!(seen, expected, "objects with a wrong label are not returned");
    let queries: Vec<String> =
        server.journal().requests().iter().map(|request| request.query.clone()).collect();
    assert_eq!(queries[0], "labelSelector=app%3Dweb%2Cslot");
    assert_eq!(queries[1], "labelSelector=app%3Dweb%2Cslot%2Cslot+in+%280%2C2%29");
}

#[tokio::test]
async fn object_of_other_slot_is_not_decoded_and_moves_position() {
    let server = Server::new();
    let start = server.resource_version();
    (0..20).for_each(|number| create(&server, &format!("map-{number}")));
    let shard = shard(ShardKey::Uid, &[0]);
    let whole = source(&server).transform(move |map: &mut ConfigMap| {
        let id = kube_object::Entry::from_object(map.clone()).id;
        assert!(shard.contains(&id.as_id()), "an object of another slot was decoded");
        Ok(())
    });
    let part = whole.for_shard(&shard).unwrap();
    let request = WatchRequest { from: WatchFrom::Version(start.into()), timeout: None, bookmarks: false };
    let mut events = part.watch(request, Arc::new(NoCache));
    let mut all: Vec<WatchEvent<ConfigMap>> = Vec::new();
    while all.len() < 21 {
        all.extend(events.next().await.unwrap().unwrap());
    }
    let undecodable = all.iter().any(|event| matches!(event, WatchEvent::Added(Decoded::Undecodable { .. })));
    assert!(!undecodable);
    let texts: Vec<String> = all.iter().map(short).collect();
    let others = texts.iter().filter(|text| text.starts_with("other true ")).count();
    let added = texts.iter().filter(|text| text.starts_with('+')).count();
    assert_eq!((others + added, added), (20, listed(&*part, None).await.0.len()), "{texts:?}");
    server.delete_untyped("v1", "ConfigMap", Some("default"), "map-1").unwrap();
    let last = events.next().await.unwrap().unwrap();
    let expected = [format!("other false {}", server.resource_version()), "-map-1".to_owned()];
    assert!(expected.contains(&short(&last[0])), "{last:?}");
}
