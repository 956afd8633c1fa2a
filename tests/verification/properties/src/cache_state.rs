//! Compares the content of a cache with the writes of the server: properties 1, 2, 4 and 16.

use std::collections::{BTreeMap, VecDeque};

use super::{
    judge::{Verdict, holds},
    observation::{CacheState, Cause, Content, Event, Key, Object, Observation},
    past::{Past, Written, place_of},
};

/// Property 1. Each cached state existed on the server, and cached states follow the order of writes.
pub(super) fn subsequence(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Observation::Cache(shown) = observation else { return Ok(()) };
    for object in shown.objects {
        holds(past.server.lives.contains_key(&object.key), || format!("{object:?} was never written"))?;
    }
    for (key, life) in &past.server.lives {
        let (before, now) = (past.cache.objects.get(key).copied(), find(shown.objects, *key));
        holds(place_of(life, now, before).is_some(), || {
            format!("the cached state of key {key} is {now:?}; since {before:?} the server had {life:?}")
        })?;
    }
    Ok(())
}

/// Property 2: after all events are applied, the cache is equal to the state of the server.
pub(super) fn converges(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Observation::Quiet = observation else { return Ok(()) };
    for (key, life) in &past.server.lives {
        let cached = past.cache.objects.get(key).copied();
        let stale = past.cache.stale.contains(key);
        let last = life.back().copied();
        let same = last.is_some_and(|last| match last.decodable {
            true => cached == last.object && !stale,
            // The last decodable state stays cached and is marked as stale. A different uid has no
            // earlier state.
            false => {
                cached.is_none_or(|cached| last.object.is_some_and(|last| last.uid == cached.uid) && stale)
            }
        });
        holds(same, || {
            format!("key {key} is cached as {cached:?} (stale: {stale}), the server has {last:?}")
        })?;
    }
    Ok(())
}

/// Property 4: a snapshot is the state of the server at its watermark, or not older after an incomplete
/// list, and a query returns the objects
/// of its snapshot.
pub(super) fn one_snapshot(past: &Past, observation: &Observation<'_>) -> Verdict {
    match observation {
        Observation::Cache(shown) => is_one_moment(past, shown),
        Observation::Query { expected, found } => {
            holds(expected == found, || format!("{found:?} was found in a snapshot of {expected:?}"))
        }
        _ => Ok(()),
    }
}

fn is_one_moment(past: &Past, shown: &CacheState<'_>) -> Verdict {
    let is_valid = match shown.content {
        Content::AtWatermark => is_state_at,
        Content::NotOlder => is_state_since,
        Content::Unknown => return Ok(()),
    };
    let Some(version) = shown.mark.version else { return Ok(()) };
    let mut lives = past.server.lives.iter();
    let missing = lives.find(|(key, life)| !is_valid(life, version, find(shown.objects, **key)));
    holds(missing.is_none(), || {
        format!("at {version}, the cache contains {:?}, the server had {missing:?}", shown.objects)
    })
}

/// Returns whether this was the state of an object at a version. An undecodable state keeps the earlier
/// state.
fn is_state_at(life: &VecDeque<Written>, version: u64, cached: Option<Object>) -> bool {
    let written = life.iter().rev().find(|written| !written.lost && written.version <= version);
    written.is_some_and(|written| is_cached_as(written, cached))
}

/// Returns whether this was the state of an object at a version or later.
fn is_state_since(life: &VecDeque<Written>, version: u64, cached: Option<Object>) -> bool {
    let at = life.iter().rposition(|written| !written.lost && written.version <= version).unwrap_or(0);
    life.range(at..).any(|written| is_cached_as(written, cached))
}

fn is_cached_as(written: &Written, cached: Option<Object>) -> bool {
    match (written.decodable, written.object) {
        (true, object) => object == cached,
        (false, hidden) => cached.is_none_or(|cached| hidden.is_some_and(|hidden| hidden.uid == cached.uid)),
    }
}

/// Property 16: a batch of deltas contains each key once, and the store reports exactly the applied
/// changes.
pub(super) fn batches(past: &Past, observation: &Observation<'_>) -> Verdict {
    match observation {
        Observation::Batch { keys } => {
            let twice = keys.iter().enumerate().find(|(at, key)| keys[..*at].contains(key));
            holds(twice.is_none(), || format!("a batch has twice a key: {keys:?}"))
        }
        Observation::Cache(CacheState { events: Some(events), objects, cause, .. }) => {
            let mut expected = past.cache.objects.clone();
            for event in *events {
                // A list reports a stale object as changed. A list without reuse reports each object as
                // changed. An opaque version always counts as changed.
                let fresh = *cause == Cause::Relist { fresh: true } || past.opaque_versions;
                apply(&mut expected, event, fresh || past.cache.stale.contains(&event.key()))?;
            }
            let shown: BTreeMap<Key, Object> = objects.iter().map(|object| (object.key, *object)).collect();
            holds(expected == shown, || {
                format!("{events:?} lead to {expected:?}, but the cache contains {shown:?}")
            })
        }
        _ => Ok(()),
    }
}

fn apply(expected: &mut BTreeMap<Key, Object>, event: &Event, is_fresh: bool) -> Verdict {
    let before = match event.after() {
        Some(object) => expected.insert(event.key(), object),
        None => expected.remove(&event.key()),
    };
    let fits = match event {
        Event::Added { .. } => before.is_none(),
        Event::Updated { old, new } => before == Some(*old) && (old != new || is_fresh),
        Event::Deleted { .. } => before.is_some(),
    };
    holds(fits, || format!("the store reports {event:?} after {before:?}"))
}

fn find(objects: &[Object], key: Key) -> Option<Object> {
    objects.binary_search_by_key(&key, |object| object.key).ok().map(|at| objects[at])
}
