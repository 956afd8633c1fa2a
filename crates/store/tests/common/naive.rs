//! A model of the store: a sorted map. At the end of a relist, the model evaluates all deltas that
//! it received since `Begin`. The model is simple and slow.

use std::collections::BTreeMap;

use kube_object::{Delta, Digest, Entry, Event, Listed, ObjectId, ObjectKey, Removal, ResourceVersion};
use kube_store::Watermark;

use super::Thing;

#[derive(Default)]
pub(crate) struct Naive {
    /// The entry of each object, and whether the object is stale.
    pub(crate) objects: BTreeMap<ObjectKey, (Entry<Thing>, bool)>,
    pub(crate) watermark: Watermark,
    /// The watermark if incomplete lists counted as complete lists.
    position: Option<ResourceVersion>,
    pub(crate) repeats: u64,
    relist: Option<(bool, Vec<Delta<Thing>>)>,
}

/// The result of a relist for one key.
#[derive(Default)]
struct KeyResult {
    listed: Option<(Entry<Thing>, bool)>,
    /// Whether the object with this key was deleted.
    removed: bool,
    /// The last state of the cached object, if its deletion was received.
    last_state: Option<Entry<Thing>>,
    /// The position of the first change of the key. It is `None` if `listed` is the cached entry.
    place: Option<usize>,
}

fn is_same_object(a: &ObjectId, b: &ObjectId) -> bool {
    !a.uid.differs_from(&b.uid)
}

fn is_repeat(held: &ObjectId, event: &ObjectId) -> bool {
    let versions = event.version.partial_cmp(&held.version);
    if held.version.is_opaque() || event.version.is_opaque() {
        return false;
    }
    versions.is_some_and(|order| order.is_lt() || (order.is_eq() && is_same_object(held, event)))
}

fn flat(delta: Delta<Thing>) -> Vec<Delta<Thing>> {
    match delta {
        Delta::Page(items) => (items.into_iter())
            .map(|item| match item {
                Listed::Object(entry) => Delta::Put(entry),
                Listed::Undecodable(id) => Delta::Undecodable(id),
            })
            .collect(),
        other => vec![other],
    }
}

impl Naive {
    pub(crate) fn apply(&mut self, batch: Vec<Delta<Thing>>) -> Vec<Event<Thing>> {
        let mut events = Vec::new();
        for delta in batch.into_iter().flat_map(flat) {
            match (delta, self.relist.take()) {
                (Delta::Begin { without_reuse }, _) => self.relist = Some((without_reuse, Vec::new())),
                (Delta::Clear, _) => {
                    for (cached, _) in self.objects.clone().into_values() {
                        self.delete(cached, Removal::FinalStateUnknown, &mut events);
                    }
                }
                (Delta::End { version, complete }, Some((without_reuse, seen))) => {
                    self.end(without_reuse, seen, version, complete, &mut events);
                }
                (delta, Some((without_reuse, mut seen))) => {
                    seen.push(delta);
                    self.relist = Some((without_reuse, seen));
                }
                (delta, None) => self.live(delta, &mut events),
            }
        }
        events
    }

    /// Returns whether an event has no effect, because the cache contains this state or a later state.
    fn repeats(&self, held: &Entry<Thing>, stale: bool, id: &ObjectId, digest: Option<Digest>) -> bool {
        if self.position.as_ref().is_none_or(|position| !position.is_opaque()) {
            return is_repeat(&held.id, id) && !(stale && self.is_lost(&held.id, id));
        }
        let is_other_value = held.digest.is_some() && digest.is_some() && held.digest != digest;
        !stale
            && is_same_object(&held.id, id)
            && held.id.version == id.version
            && !id.version.is_opaque()
            && !is_other_value
    }

    /// Returns whether the version of a stale object belongs to a lost history, and the event is new.
    fn is_lost(&self, held: &ObjectId, event: &ObjectId) -> bool {
        self.position
            .as_ref()
            .is_some_and(|position| held.version > *position && !position.at_least(&event.version))
    }

    fn advance(&mut self, version: &ResourceVersion) {
        for old in [&mut self.watermark.version, &mut self.position] {
            let ahead = old.as_ref().is_some_and(|old| old.at_least(version) || old.is_opaque());
            if !version.is_opaque() && !ahead {
                *old = Some(version.clone());
            }
        }
    }

    fn live(&mut self, delta: Delta<Thing>, events: &mut Vec<Event<Thing>>) {
        match delta {
            Delta::Put(entry) => {
                let version = entry.id.version.clone();
                match self.objects.get(entry.key()) {
                    Some((held, stale)) if self.repeats(held, *stale, &entry.id, entry.digest) => {
                        self.repeats += 1;
                    }
                    _ => self.put(entry, false, false, events),
                }
                self.advance(&version);
            }
            Delta::Remove { id, last } => {
                self.advance(&id.version);
                match self.objects.get(&id.key).filter(|(held, _)| is_same_object(&held.id, &id)).cloned() {
                    Some((held, _)) => self.delete(last.unwrap_or(held), Removal::Deleted, events),
                    None => self.repeats += 1,
                }
            }
            Delta::Undecodable(id) => {
                match self.objects.get(&id.key).cloned() {
                    Some((held, stale)) if self.repeats(&held, stale, &id, None) => self.repeats += 1,
                    Some((held, _)) if is_same_object(&held.id, &id) => {
                        self.objects.insert(id.key, (held, true));
                    }
                    Some((held, _)) => self.delete(held, Removal::FinalStateUnknown, events),
                    None => {}
                }
                self.advance(&id.version);
            }
            Delta::Bookmark(version) | Delta::End { version, .. } => self.advance(&version),
            Delta::Begin { .. } | Delta::Page(_) | Delta::Hold { .. } | Delta::Clear => {
                unreachable!("`apply` handles these deltas")
            }
        }
    }

    fn put(&mut self, new: Entry<Thing>, stale: bool, initial: bool, events: &mut Vec<Event<Thing>>) {
        let old = self.objects.get(new.key()).map(|(old, _)| old.clone());
        match old {
            Some(old) if is_same_object(&old.id, &new.id) => {
                events.push(Event::Updated { old, new: new.clone() });
            }
            other => {
                if let Some(old) = other {
                    self.delete(old, Removal::FinalStateUnknown, events);
                }
                events.push(Event::Added { object: new.clone(), initial });
            }
        }
        self.objects.insert(new.key().clone(), (new, stale));
    }

    fn delete(&mut self, last: Entry<Thing>, removal: Removal, events: &mut Vec<Event<Thing>>) {
        self.objects.remove(last.key());
        events.push(Event::Deleted { last, removal });
    }

    /// Returns the result of the relist for each key.
    fn results(&self, without_reuse: bool, seen: Vec<Delta<Thing>>) -> BTreeMap<ObjectKey, KeyResult> {
        let mut results: BTreeMap<ObjectKey, KeyResult> = BTreeMap::new();
        let mut places: BTreeMap<ObjectKey, usize> = BTreeMap::new();
        for (place, delta) in seen.into_iter().enumerate() {
            let Some(key) = delta.key().cloned() else { continue };
            let held = self.objects.get(&key);
            let cached = held.map(|(cached, _)| cached);
            let result = results.entry(key.clone()).or_default();
            match delta {
                Delta::Put(entry) => {
                    let is_same_object = cached.is_some_and(|cached| is_same_object(&cached.id, &entry.id));
                    let last_state = result.last_state.take().filter(|_| !is_same_object);
                    *result = KeyResult { last_state, ..result_of_put(entry, place, held, without_reuse) };
                }
                Delta::Remove { id, last } => remove(result, &id, last, cached),
                Delta::Undecodable(id) => undecodable(result, &id, cached),
                _ => {}
            }
            if result.place.is_some() || result.removed {
                let first = *places.entry(key).or_insert(place);
                result.place = result.place.map(|_| first);
            }
        }
        results
    }

    fn end(
        &mut self,
        without_reuse: bool,
        seen: Vec<Delta<Thing>>,
        version: ResourceVersion,
        complete: bool,
        events: &mut Vec<Event<Thing>>,
    ) {
        let initial = !self.watermark.synced;
        let results = self.results(without_reuse, seen);
        self.delete_unlisted(complete, &results, events);
        let mut puts = Vec::new();
        for (key, result) in results {
            match (result.listed, result.place) {
                (Some((entry, stale)), Some(place)) => puts.push((place, entry, stale)),
                (Some((cached, stale)), None) => {
                    self.objects.insert(key, (cached, stale));
                }
                (None, _) => {}
            }
        }
        puts.sort_by_key(|(place, ..)| *place);
        for (_, entry, stale) in puts {
            self.put(entry, stale, initial, events);
        }
        self.listed(version, complete);
    }

    fn delete_unlisted(
        &mut self,
        complete: bool,
        results: &BTreeMap<ObjectKey, KeyResult>,
        events: &mut Vec<Event<Thing>>,
    ) {
        for (key, (cached, _)) in self.objects.clone() {
            let result = results.get(&key);
            let listed = result.and_then(|result| result.listed.as_ref());
            let removed = result.is_some_and(|result| result.removed);
            if listed.is_some_and(|(entry, _)| is_same_object(&entry.id, &cached.id))
                || listed.is_none() && !complete && !removed
            {
                continue;
            }
            match result
                .and_then(|result| result.last_state.clone())
                .filter(|last| is_same_object(&last.id, &cached.id))
            {
                Some(last) => self.delete(last, Removal::Deleted, events),
                None => self.delete(cached, Removal::FinalStateUnknown, events),
            }
        }
    }

    fn listed(&mut self, version: ResourceVersion, complete: bool) {
        let continues = match &self.watermark.version {
            None => true,
            Some(old) => *old == version || version.at_least(old) || is_missing(Some(old)),
        };
        self.position = Some(version.clone());
        self.watermark.epoch += u64::from(!continues);
        self.watermark.synced = true;
        match (complete, continues) {
            (true, _) => self.watermark.version = Some(version),
            (false, true) => {}
            (false, false) => self.watermark.version = None,
        }
    }
}

/// Returns whether the last list had no version.
fn is_missing(version: Option<&ResourceVersion>) -> bool {
    version.is_some_and(|version| ["", "0"].contains(&version.to_string().as_str()))
}

fn result_of_put(
    entry: Entry<Thing>,
    place: usize,
    held: Option<&(Entry<Thing>, bool)>,
    without_reuse: bool,
) -> KeyResult {
    let unchanged = |(cached, stale): &&(Entry<Thing>, bool)| {
        let same_version = cached.id.version == entry.id.version;
        let same_value = match (cached.digest, entry.digest) {
            (Some(cached), Some(listed)) => cached == listed,
            _ => {
                let comparable = !without_reuse && !entry.id.version.is_opaque() && !stale;
                comparable || std::sync::Arc::ptr_eq(&cached.object, &entry.object)
            }
        };
        is_same_object(&cached.id, &entry.id) && same_version && same_value
    };
    match held.filter(unchanged) {
        Some((cached, _)) => KeyResult { listed: Some((cached.clone(), false)), ..KeyResult::default() },
        None => KeyResult { listed: Some((entry, false)), place: Some(place), ..KeyResult::default() },
    }
}

fn remove(result: &mut KeyResult, id: &ObjectId, last: Option<Entry<Thing>>, cached: Option<&Entry<Thing>>) {
    let current = match (&result.listed, result.removed) {
        (Some((entry, _)), _) => Some(&entry.id),
        (None, true) => None,
        (None, false) => cached.map(|cached| &cached.id),
    };
    if current.is_some_and(|current| is_same_object(current, id)) {
        let of_cached =
            |last: &Entry<Thing>| cached.is_some_and(|cached| is_same_object(&cached.id, &last.id));
        let last_state = last.filter(of_cached).or(result.last_state.take());
        *result = KeyResult { removed: true, last_state, ..KeyResult::default() };
    }
}

fn undecodable(result: &mut KeyResult, id: &ObjectId, cached: Option<&Entry<Thing>>) {
    match &mut result.listed {
        Some((entry, stale)) if is_same_object(&entry.id, id) => *stale = true,
        _ => {
            let kept = cached.filter(|cached| is_same_object(&cached.id, id));
            let last_state = result.last_state.take().filter(|_| kept.is_none());
            let removed = cached.is_some() && kept.is_none();
            *result = KeyResult {
                listed: kept.map(|cached| (cached.clone(), true)),
                removed,
                last_state,
                place: None,
            };
        }
    }
}
