//! What a cache shows, held against what the server wrote: properties 1, 2, 4 and 16.

use std::collections::{BTreeMap, VecDeque};

use super::{
    judge::{Verdict, holds},
    observation::{Cause, Event, Key, Object, Observation, Shown},
    past::{Past, Written, place_of},
};

/// Property 1: no cached state that the server never had, and none that came before the one shown last.
pub(super) fn subsequence(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Observation::Cache(shown) = observation else { return Ok(()) };
    for object in shown.objects {
        holds(past.server.lives.contains_key(&object.key), || format!("{object:?} was never written"))?;
    }
    for (key, life) in &past.server.lives {
        let (before, now) = (past.cache.objects.get(key).copied(), find(shown.objects, *key));
        holds(place_of(life, now, before).is_some(), || {
            format!("key {key} is shown as {now:?}; since {before:?} the server had {life:?}")
        })?;
    }
    Ok(())
}

/// Property 2: when nothing is on its way any more, the cache shows what the server has.
pub(super) fn converges(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Observation::Quiet = observation else { return Ok(()) };
    for (key, life) in &past.server.lives {
        let cached = past.cache.objects.get(key).copied();
        let stale = past.cache.stale.contains(key);
        let last = life.back().copied();
        let same = last.is_some_and(|last| match last.decodable {
            true => cached == last.object && !stale,
            // The last good state stays and is marked; of another incarnation there is none.
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

/// Property 4: a snapshot is the server's state at its watermark, and a query finds what its snapshot holds.
pub(super) fn one_snapshot(past: &Past, observation: &Observation<'_>) -> Verdict {
    match observation {
        Observation::Cache(shown) => is_one_moment(past, shown),
        Observation::Query { expected, found } => {
            holds(expected == found, || format!("{found:?} was found in a snapshot of {expected:?}"))
        }
        _ => Ok(()),
    }
}

fn is_one_moment(past: &Past, shown: &Shown<'_>) -> Verdict {
    let (true, Some(version)) = (shown.exact, shown.mark.version) else { return Ok(()) };
    let mut lives = past.server.lives.iter();
    let missing = lives.find(|(key, life)| !is_state_at(life, version, find(shown.objects, **key)));
    holds(missing.is_none(), || {
        format!("at {version} {:?} is shown, the server had {missing:?}", shown.objects)
    })
}

/// Whether this is what an object was at a version. A state that can't be decoded leaves the one before.
fn is_state_at(life: &VecDeque<Written>, version: u64, cached: Option<Object>) -> bool {
    let written = life.iter().rev().find(|written| !written.lost && written.version <= version);
    written.is_some_and(|written| match (written.decodable, written.object) {
        (true, object) => object == cached,
        (false, hidden) => cached.is_none_or(|cached| hidden.is_some_and(|hidden| hidden.uid == cached.uid)),
    })
}

/// Property 16: a batch of deltas has each key once, and what the store says has changed is exactly what has.
pub(super) fn batches(past: &Past, observation: &Observation<'_>) -> Verdict {
    match observation {
        Observation::Batch { keys } => {
            let twice = keys.iter().enumerate().find(|(at, key)| keys[..*at].contains(key));
            holds(twice.is_none(), || format!("a batch has twice a key: {keys:?}"))
        }
        Observation::Cache(Shown { events: Some(events), objects, cause, .. }) => {
            let mut told = past.cache.objects.clone();
            for event in *events {
                // A list shows a stale object anew, and one that trusts no version each.
                let fresh = *cause == Cause::Relist { fresh: true };
                apply(&mut told, event, fresh || past.cache.stale.contains(&event.key()))?;
            }
            let shown: BTreeMap<Key, Object> = objects.iter().map(|object| (object.key, *object)).collect();
            holds(told == shown, || format!("{events:?} lead to {told:?}, the cache shows {shown:?}"))
        }
        _ => Ok(()),
    }
}

fn apply(told: &mut BTreeMap<Key, Object>, event: &Event, anew: bool) -> Verdict {
    let before = match event.after() {
        Some(object) => told.insert(event.key(), object),
        None => told.remove(&event.key()),
    };
    let fits = match event {
        Event::Added { .. } => before.is_none(),
        Event::Updated { old, new } => before == Some(*old) && (old != new || anew),
        Event::Deleted { .. } => before.is_some(),
    };
    holds(fits, || format!("the store says {event:?} of {before:?}"))
}

fn find(objects: &[Object], key: Key) -> Option<Object> {
    objects.binary_search_by_key(&key, |object| object.key).ok().map(|at| objects[at])
}
