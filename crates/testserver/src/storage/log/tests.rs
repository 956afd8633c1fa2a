//! Compares the log with a naive model that keeps a copy of the state at each revision.

use std::collections::BTreeMap;

use serde_json::json;
use tokio::time::Duration;

use super::*;
use crate::schemas::kinds::kind::Kind;
use crate::storage::snapshot::Snapshot;

fn configmaps() -> Kind {
    crate::schemas::kinds::builtin::kinds().into_iter().find(|k| k.plural == "configmaps").unwrap()
}

fn draft(kind: &Kind, namespace: &str, name: &str, value: u32) -> Draft {
    let object =
        json!({"metadata": {"name": name, "namespace": namespace}, "data": {"v": value.to_string()}});
    Draft::new(kind, object.as_object().unwrap())
}

fn store(events: usize, age: Option<Duration>) -> (Store, TableId) {
    let window = Window { events, age };
    let mut store = Store::new(Retention { watches: window, lists: window });
    let id = store.add_table();
    (store, id)
}

type Model = BTreeMap<String, String>;

fn listed(snapshot: &Snapshot<'_>, prefix: &str, start: &str) -> Model {
    snapshot
        .walk(prefix, start)
        .map(|entry| (entry.key().to_string(), String::from_utf8(entry.json().to_vec()).unwrap()))
        .collect()
}

fn random_write(store: &mut Store, id: TableId, kind: &Kind, rng: &mut fastrand::Rng) {
    let (namespace, name) = (["a", "a-b", "b"][rng.usize(..3)], format!("n{}", rng.u8(..6)));
    if rng.u8(..3) == 0 {
        store.remove(id, &key(Some(namespace), &name));
    } else {
        store.put(id, draft(kind, namespace, &name, rng.u32(..)));
    }
}

#[test]
fn list_at_each_revision_equals_replay() {
    let kind = configmaps();
    for seed in 0..20 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut store, id) = store(10_000, None);
        let mut history: BTreeMap<u64, Model> = BTreeMap::from([(1, Model::new())]);
        for _ in 0..200 {
            random_write(&mut store, id, &kind, &mut rng);
            let now = store.table(id).at(store.revision()).ok().unwrap();
            history.insert(store.revision(), listed(&now, "", ""));
        }
        let mut replayed = Model::new();
        for event in store.events(id, CacheId::MAIN, 0).ok().unwrap() {
            let key = event.object.key().to_string();
            match event.change {
                Change::Deleted => replayed.remove(&key),
                _ => replayed.insert(key, String::from_utf8(event.object.json().to_vec()).unwrap()),
            };
            assert_eq!(replayed, history[&event.revision()], "seed {seed}");
        }
        for (revision, model) in &history {
            let then = store.table(id).at(*revision).ok().unwrap();
            assert_eq!(&listed(&then, "", ""), model, "seed {seed} revision {revision}");
            let under_a: Model = model
                .iter()
                .filter(|(k, _)| k.starts_with("a/"))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            assert_eq!(listed(&then, "a/", ""), under_a);
            let late: Model = under_a.into_iter().filter(|(k, _)| k.as_str() >= "a/n3").collect();
            assert_eq!(listed(&then, "a/", "a/n3"), late);
        }
    }
}

#[test]
fn compaction_rejects_only_compacted_revisions() {
    let (mut store, id) = store(10_000, None);
    let kind = configmaps();
    for value in 0..5 {
        store.put(id, draft(&kind, "a", "n", value));
    }
    store.expire(Expiry::Both, 4);
    assert_eq!(store.check_start(id, CacheId::MAIN, 3).err(), Some(Compacted { floor: 4 }));
    assert_eq!(store.events(id, CacheId::MAIN, 4).ok().unwrap().count(), 2);
    assert!(store.table(id).at(3).is_err());
    assert_eq!(store.table(id).at(4).ok().unwrap().walk("", "").count(), 1);
}

#[test]
fn window_bounds_log() {
    let (mut store, id) = store(3, None);
    let kind = configmaps();
    for value in 0..10 {
        store.put(id, draft(&kind, "a", "n", value));
    }
    assert_eq!(store.revision(), 11);
    assert_eq!(store.check_start(id, CacheId::MAIN, 7).err(), Some(Compacted { floor: 8 }));
    assert_eq!(store.events(id, CacheId::MAIN, 8).ok().unwrap().count(), 3);
}

#[tokio::test(start_paused = true)]
async fn history_expires_by_age() {
    let (mut store, id) = store(100, Some(Duration::from_secs(60)));
    store.put(id, draft(&configmaps(), "a", "n", 1));
    tokio::time::advance(Duration::from_secs(59)).await;
    store.age();
    assert!(store.check_start(id, CacheId::MAIN, 1).is_ok());
    tokio::time::advance(Duration::from_secs(1)).await;
    store.age();
    assert_eq!(store.check_start(id, CacheId::MAIN, 1).err(), Some(Compacted { floor: 2 }));
}

#[test]
fn restore_returns_old_state_and_reuses_versions() {
    let kind = configmaps();
    let mut rng = fastrand::Rng::with_seed(4);
    let (mut store, id) = store(10_000, None);
    for _ in 0..100 {
        random_write(&mut store, id, &kind, &mut rng);
    }
    let then = store.revision();
    let state = listed(&store.table(id).at(then).ok().unwrap(), "", "");
    for _ in 0..100 {
        random_write(&mut store, id, &kind, &mut rng);
    }
    assert_eq!(store.restore(then), Ok(()));
    assert_eq!(store.revision(), then);
    assert_eq!(listed(&store.table(id).at(then).ok().unwrap(), "", ""), state);
    store.expire(Expiry::Both, then);
    assert_eq!(store.restore(then - 1), Err(Compacted { floor: then }));
}

#[test]
fn lists_and_watches_expire_independently() {
    let kind = configmaps();
    let (mut store, id) = store(10_000, None);
    for value in 0..8 {
        store.put(id, draft(&kind, "a", "n", value));
    }
    store.expire(Expiry::Lists, 5);
    assert!(store.table(id).at(4).is_err() && store.table(id).at(5).is_ok());
    assert_eq!(store.events(id, CacheId::MAIN, 1).ok().unwrap().count(), 8);
    store.expire(Expiry::Watches, 7);
    assert_eq!(store.check_start(id, CacheId::MAIN, 6).err(), Some(Compacted { floor: 7 }));
    assert_eq!(store.table(id).at(6).ok().unwrap().walk("", "").count(), 1);
    assert_eq!(store.restore(4), Err(Compacted { floor: 5 }));
}

#[test]
fn separate_windows_bound_lists_and_watches() {
    let (watches, lists) = (Window { events: 2, age: None }, Window { events: 5, age: None });
    let mut store = Store::new(Retention { watches, lists });
    let id = store.add_table();
    for value in 0..10 {
        store.put(id, draft(&configmaps(), "a", "n", value));
    }
    assert_eq!(store.check_start(id, CacheId::MAIN, 8).err(), Some(Compacted { floor: 9 }));
    assert_eq!(store.table(id).at(5).err(), Some(Compacted { floor: 6 }));
    assert_eq!(store.table(id).log.len(), 5);
}

#[test]
fn events_not_read_by_a_cache_are_retained() {
    let (mut store, id) = store(2, None);
    let behind = store.add_cache(Lag::Revisions(6));
    for value in 0..10 {
        store.put(id, draft(&configmaps(), "a", &value.to_string(), value));
    }
    let position = store.position(behind, Instant::now());
    assert_eq!((position, store.position(CacheId::MAIN, Instant::now())), (5, 11));
    store.expire(Expiry::Both, u64::MAX);
    assert_eq!(store.table(id).then(position).walk("", "").count(), 4);
    assert_eq!(store.events(id, behind, position).ok().unwrap().count(), 0);
    store.lag(behind, Lag::None);
    assert_eq!(store.events(id, behind, position + 4).ok().unwrap().count(), 2);
    store.remove_cache(behind);
    store.expire(Expiry::Both, u64::MAX);
    assert_eq!(store.table(id).log.len(), 0);
}

#[test]
fn bump_raises_revision_and_drops_history() {
    let (mut store, id) = store(100, None);
    store.put(id, draft(&configmaps(), "a", "n", 1));
    store.bump(1_000);
    assert_eq!(store.revision(), 1_002);
    assert!(store.table(id).at(1_001).is_err() && store.check_start(id, CacheId::MAIN, 2).is_err());
    assert_eq!(store.table(id).get("a/n").unwrap().revision, 2);
    assert_eq!(store.put(id, draft(&configmaps(), "a", "n", 2)).revision, 1_003);
}

#[test]
fn corrupt_state_is_unreadable_until_healed() {
    let (mut store, id) = store(100, None);
    store.put(id, draft(&configmaps(), "a", "n", 1));
    let at = store.corrupt(id, "a/n").unwrap();
    store.put(id, draft(&configmaps(), "a", "n", 2));
    let readable = |store: &Store| -> Vec<bool> {
        store.events(id, CacheId::MAIN, 0).ok().unwrap().map(|event| store.decodes_event(event)).collect()
    };
    assert_eq!(readable(&store), [true, false, false]);
    assert!(store.decodes(store.table(id).get("a/n").unwrap()));
    store.heal(at);
    assert_eq!(readable(&store), [true, true, true]);
    assert_eq!(store.corrupt(id, "a/absent"), None);
}
