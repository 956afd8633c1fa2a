//! The store as one would write it without a thought for speed: a sorted map, and a relist that
//! is worked out at its end from all that came since its begin.

use std::collections::BTreeMap;

use kube_object::{Delta, Entry, Event, Listed, ObjectId, ObjectKey, ResourceVersion};
use kube_store::Watermark;

use super::Thing;

#[derive(Default)]
pub(crate) struct Naive {
    /// The state, and whether it is stale.
    pub(crate) objects: BTreeMap<ObjectKey, (Entry<Thing>, bool)>,
    pub(crate) watermark: Watermark,
    pub(crate) repeats: u64,
    relist: Option<(bool, Vec<Delta<Thing>>)>,
}

/// What a relist has said about one key by its end.
#[derive(Default)]
struct Word {
    listed: Option<(Entry<Thing>, bool)>,
    /// What was there was deleted.
    removed: bool,
    /// The last state of the cached object, if its deletion came.
    gone: Option<Entry<Thing>>,
    /// Place of the first change of the key; none where `listed` is the cached entry.
    place: Option<usize>,
}

fn same(a: &ObjectId, b: &ObjectId) -> bool {
    !a.uid.differs_from(&b.uid)
}

fn is_repeat(held: &ObjectId, event: &ObjectId) -> bool {
    let versions = event.version.partial_cmp(&held.version);
    if held.version.is_opaque() || event.version.is_opaque() {
        return false;
    }
    versions.is_some_and(|order| order.is_lt() || (order.is_eq() && same(held, event)))
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
                (Delta::Begin { history_lost }, _) => self.relist = Some((history_lost, Vec::new())),
                (Delta::Clear, _) => {
                    for (cached, _) in self.objects.clone().into_values() {
                        self.delete(cached, true, &mut events);
                    }
                }
                (Delta::End { version, complete }, Some((history_lost, seen))) => {
                    self.end(history_lost, seen, version, complete, &mut events);
                }
                (delta, Some((history_lost, mut seen))) => {
                    seen.push(delta);
                    self.relist = Some((history_lost, seen));
                }
                (delta, None) => self.live(delta, &mut events),
            }
        }
        events
    }

    fn advance(&mut self, version: &ResourceVersion) {
        let ahead = self.watermark.version.as_ref().is_some_and(|old| old.at_least(version));
        if !version.is_opaque() && !ahead {
            self.watermark.version = Some(version.clone());
        }
    }

    fn live(&mut self, delta: Delta<Thing>, events: &mut Vec<Event<Thing>>) {
        match delta {
            Delta::Put(entry) => {
                let version = entry.id.version.clone();
                // A version beyond the watermark is one of a history that the server has lost.
                let lost = |held: &ObjectId| {
                    let beyond = |seen: &ResourceVersion| held.version > *seen && !seen.at_least(&version);
                    self.watermark.version.as_ref().is_some_and(beyond)
                };
                match self.objects.get(entry.key()) {
                    Some((held, _)) if is_repeat(&held.id, &entry.id) && !lost(&held.id) => self.repeats += 1,
                    _ => self.put(entry, false, false, events),
                }
                self.advance(&version);
            }
            Delta::Remove { id, last } => {
                self.advance(&id.version);
                match self.objects.get(&id.key).filter(|(held, _)| same(&held.id, &id)).cloned() {
                    Some((held, _)) => self.delete(last.unwrap_or(held), false, events),
                    None => self.repeats += 1,
                }
            }
            Delta::Undecodable(id) => {
                self.advance(&id.version);
                match self.objects.get_mut(&id.key) {
                    Some((held, _)) if is_repeat(&held.id, &id) => self.repeats += 1,
                    Some((held, stale)) if same(&held.id, &id) => *stale = true,
                    Some((held, _)) => {
                        let held = held.clone();
                        self.delete(held, true, events);
                    }
                    None => {}
                }
            }
            Delta::Bookmark(version) | Delta::End { version, .. } => self.advance(&version),
            Delta::Begin { .. } | Delta::Page(_) | Delta::Clear => unreachable!("taken by apply"),
        }
    }

    fn put(&mut self, new: Entry<Thing>, stale: bool, initial: bool, events: &mut Vec<Event<Thing>>) {
        let old = self.objects.get(new.key()).map(|(old, _)| old.clone());
        match old {
            Some(old) if same(&old.id, &new.id) => events.push(Event::Updated { old, new: new.clone() }),
            other => {
                if let Some(old) = other {
                    self.delete(old, true, events);
                }
                events.push(Event::Added { object: new.clone(), initial });
            }
        }
        self.objects.insert(new.key().clone(), (new, stale));
    }

    fn delete(&mut self, last: Entry<Thing>, final_state_unknown: bool, events: &mut Vec<Event<Thing>>) {
        self.objects.remove(last.key());
        events.push(Event::Deleted { last, final_state_unknown });
    }

    /// All that the relist has said about each key.
    fn words(&self, history_lost: bool, seen: Vec<Delta<Thing>>) -> BTreeMap<ObjectKey, Word> {
        let mut words: BTreeMap<ObjectKey, Word> = BTreeMap::new();
        let mut places: BTreeMap<ObjectKey, usize> = BTreeMap::new();
        for (place, delta) in seen.into_iter().enumerate() {
            let Some(key) = delta.key().cloned() else { continue };
            let held = self.objects.get(&key);
            let cached = held.map(|(cached, _)| cached);
            let word = words.entry(key.clone()).or_default();
            match delta {
                Delta::Put(entry) => {
                    let again = cached.is_some_and(|cached| same(&cached.id, &entry.id));
                    let gone = word.gone.take().filter(|_| !again);
                    *word = Word { gone, ..word_of_put(entry, place, held, history_lost) };
                }
                Delta::Remove { id, last } => remove(word, &id, last, cached),
                Delta::Undecodable(id) => undecodable(word, &id, cached),
                _ => {}
            }
            if word.place.is_some() || word.removed {
                let first = *places.entry(key).or_insert(place);
                word.place = word.place.map(|_| first);
            }
        }
        words
    }

    fn end(
        &mut self,
        history_lost: bool,
        seen: Vec<Delta<Thing>>,
        version: ResourceVersion,
        complete: bool,
        events: &mut Vec<Event<Thing>>,
    ) {
        let initial = !self.watermark.synced;
        let words = self.words(history_lost, seen);
        self.delete_unlisted(complete, &words, events);
        let mut puts = Vec::new();
        for (key, word) in words {
            match (word.listed, word.place) {
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
        self.listed(version);
    }

    fn delete_unlisted(
        &mut self,
        complete: bool,
        words: &BTreeMap<ObjectKey, Word>,
        events: &mut Vec<Event<Thing>>,
    ) {
        for (key, (cached, _)) in self.objects.clone() {
            let word = words.get(&key);
            let listed = word.and_then(|word| word.listed.as_ref());
            if listed.is_some_and(|(entry, _)| same(&entry.id, &cached.id)) || listed.is_none() && !complete {
                continue;
            }
            match word.and_then(|word| word.gone.clone()).filter(|last| same(&last.id, &cached.id)) {
                Some(last) => self.delete(last, false, events),
                None => self.delete(cached, true, events),
            }
        }
    }

    fn listed(&mut self, version: ResourceVersion) {
        let continues = match &self.watermark.version {
            None => true,
            Some(old) => *old == version || version.at_least(old),
        };
        self.watermark.epoch += u64::from(!continues);
        self.watermark.version = Some(version);
        self.watermark.synced = true;
    }
}

fn word_of_put(
    entry: Entry<Thing>,
    place: usize,
    held: Option<&(Entry<Thing>, bool)>,
    history_lost: bool,
) -> Word {
    let unchanged = |(cached, stale): &&(Entry<Thing>, bool)| {
        let same_version = cached.id.version == entry.id.version;
        let same_value = match (cached.digest, entry.digest) {
            (Some(cached), Some(listed)) => cached == listed,
            _ => {
                let comparable = !history_lost && !entry.id.version.is_opaque() && !stale;
                comparable || std::sync::Arc::ptr_eq(&cached.object, &entry.object)
            }
        };
        same(&cached.id, &entry.id) && same_version && same_value
    };
    match held.filter(unchanged) {
        Some((cached, _)) => Word { listed: Some((cached.clone(), false)), ..Word::default() },
        None => Word { listed: Some((entry, false)), place: Some(place), ..Word::default() },
    }
}

fn remove(word: &mut Word, id: &ObjectId, last: Option<Entry<Thing>>, cached: Option<&Entry<Thing>>) {
    let current = match (&word.listed, word.removed) {
        (Some((entry, _)), _) => Some(&entry.id),
        (None, true) => None,
        (None, false) => cached.map(|cached| &cached.id),
    };
    if current.is_some_and(|current| same(current, id)) {
        let of_cached = |last: &Entry<Thing>| cached.is_some_and(|cached| same(&cached.id, &last.id));
        let gone = last.filter(of_cached).or(word.gone.take());
        *word = Word { removed: true, gone, ..Word::default() };
    }
}

fn undecodable(word: &mut Word, id: &ObjectId, cached: Option<&Entry<Thing>>) {
    match &mut word.listed {
        Some((entry, stale)) if same(&entry.id, id) => *stale = true,
        _ => {
            let kept = cached.filter(|cached| same(&cached.id, id));
            let gone = word.gone.take().filter(|_| kept.is_none());
            let removed = gone.is_some();
            *word = Word { listed: kept.map(|cached| (cached.clone(), true)), removed, gone, place: None };
        }
    }
}
