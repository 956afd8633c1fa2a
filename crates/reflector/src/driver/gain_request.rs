//! `GainRequest`: the open list of added slots, with the objects and events that it collects.

use std::{collections::HashMap, time::Duration};

use futures_util::{StreamExt, stream::BoxStream};
use kube_listwatch::{ListPart, ListWatchError};
use kube_object::{Delta, Listed, ObjectKey, ResourceVersion, Shard};
use tokio::time::Instant;

use crate::{Deadline, ReflectorOptions, backoff::Backoff, deadlines::Alarm};

pub(super) type ListParts<T> = BoxStream<'static, Result<ListPart<T>, ListWatchError>>;

/// The list of added slots. It has its own backoff, because the watch next to the watch continues.
pub(super) struct GainRequest<T> {
    parts: Option<ListParts<T>>,
    /// The deadline of the open page, or the end of the backoff.
    timer: Option<(Instant, Deadline)>,
    alarm: Alarm,
    pub(super) backoff: Backoff,
    /// The time when the list started.
    pub(super) began: Instant,
    /// The objects of the complete parts.
    items: Vec<Listed<T>>,
    /// The last event of each object since the position at which the list started. The next list starts at a
    /// later position, so the number of events is limited by the duration of one list.
    events: HashMap<ObjectKey, Delta<T>>,
}

/// A result of the open list, or its timer.
pub(super) enum GainArrival<T> {
    Part(Option<Result<ListPart<T>, ListWatchError>>),
    Fired(Deadline),
}

impl<T> GainRequest<T> {
    pub(super) fn new(options: &ReflectorOptions) -> Self {
        Self {
            parts: None,
            timer: None,
            alarm: Alarm::default(),
            backoff: Backoff::new(options),
            began: Instant::now(),
            items: Vec::new(),
            events: HashMap::new(),
        }
    }

    /// Waits for the next part or the timer. The timer has precedence.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub(super) async fn next(&mut self) -> GainArrival<T> {
        let Self { parts, timer, alarm, .. } = self;
        let timer = *timer;
        let fired = async {
            match timer {
                Some((at, deadline)) => {
                    alarm.wait_until(at).await;
                    deadline
                }
                None => std::future::pending().await,
            }
        };
        let part = async {
            match parts {
                Some(parts) => parts.next().await,
                None => std::future::pending().await,
            }
        };
        let arrival = tokio::select! {
            biased;
            deadline = fired => GainArrival::Fired(deadline),
            part = part => GainArrival::Part(part),
        };
        if matches!(arrival, GainArrival::Fired(_)) {
            self.timer = None;
        }
        arrival
    }

    /// Replaces the open page. `None` closes it.
    pub(super) fn request(&mut self, parts: Option<ListParts<T>>) {
        self.parts = parts;
        self.timer = None;
    }

    pub(super) fn arm(&mut self, deadline: Deadline, at: Instant) {
        self.timer = Some((at, deadline));
    }

    /// Moves the deadline by a time in which the reflector did not read.
    pub(super) fn postpone(&mut self, by: Duration) {
        self.began += by;
        if let Some((at, _)) = &mut self.timer {
            *at += by;
        }
    }

    pub(super) fn add_items(&mut self, items: impl IntoIterator<Item = Listed<T>>) {
        self.items.extend(items);
    }

    /// Collects the last event of an object.
    pub(super) fn add_event(&mut self, event: Delta<T>) {
        if let Some(key) = event.key() {
            self.events.insert(key.clone(), event);
        }
    }

    /// Drops the objects of an abandoned list. Keeps the events.
    pub(super) fn restart(&mut self) {
        self.items = Vec::new();
    }

    /// Closes the list, and drops its objects and events.
    pub(super) fn close(&mut self) {
        self.request(None);
        self.items = Vec::new();
        self.events = HashMap::new();
    }

    /// Returns the state of the added slots: the objects of the list at this version, and the later events.
    pub(super) fn take_state(&mut self, shard: &Shard, version: &ResourceVersion) -> Vec<Listed<T>> {
        let is_later = |_: &ObjectKey, event: &mut Delta<T>| match event {
            Delta::Put(entry) => !version.at_least(&entry.id.version),
            Delta::Remove { id, .. } | Delta::Undecodable(id) => !version.at_least(&id.version),
            _ => false,
        };
        let mut events = std::mem::take(&mut self.events);
        events.retain(is_later);
        let is_replaced =
            |key: &ObjectKey| matches!(events.get(key), Some(Delta::Put(_) | Delta::Remove { .. }));
        let mut state = std::mem::take(&mut self.items);
        state.retain(|item| shard.contains(&item.id().as_id()) && !is_replaced(&item.id().key));
        let later = events.into_values().filter_map(|event| match event {
            Delta::Put(entry) => Some(Listed::Object(entry)),
            Delta::Undecodable(id) => Some(Listed::Undecodable(id)),
            _ => None,
        });
        state.extend(later.filter(|item| shard.contains(&item.id().as_id())));
        state
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_object::{Entry, ObjectId, ShardKey, SlotCount, SlotSet};

    use super::*;

    /// Parses `name@version`. The uid is the name.
    fn id(text: &str) -> ObjectId {
        let (name, version) = text.split_once('@').unwrap();
        ObjectId { key: ObjectKey::new(None, name), uid: name.into(), version: version.into() }
    }

    fn object(text: &str) -> Entry<()> {
        Entry::new(id(text), Arc::new(()))
    }

    /// Returns the state after a list at version 20, without the slots of `lost`.
    fn state(items: &[&str], events: &[&str], lost: &[&str]) -> Vec<String> {
        let mut gain = GainRequest::new(&ReflectorOptions::default());
        gain.add_items(items.iter().map(|text| Listed::Object(object(text))));
        for event in events {
            gain.add_event(match event.split_at(1) {
                ("+", text) => Delta::Put(object(text)),
                ("-", text) => Delta::Remove { id: id(text), last: None },
                (_, text) => Delta::Undecodable(id(text)),
            });
        }
        let count = SlotCount::new(256).unwrap();
        let mut shard = Shard { key: ShardKey::Uid, count, slots: SlotSet::all(count) };
        for uid in lost {
            let slot = shard.slot_of(&id(&format!("{uid}@1")).as_id());
            shard.slots.remove(slot);
        }
        let state = gain.take_state(&shard, &20.into());
        assert!(gain.items.is_empty() && gain.events.is_empty());
        let text = |item: &Listed<()>| {
            let sign = if matches!(item, Listed::Object(_)) { "" } else { "!" };
            format!("{sign}{}@{}", item.id().key, item.id().version)
        };
        state.iter().map(text).collect()
    }

    #[test]
    fn only_events_after_the_list_change_its_objects() {
        let items = ["apple@15", "birch@10", "cedar@19"];
        assert_eq!(state(&items, &["+apple@12", "-birch@20", "-cedar@18"], &[]), items);
        assert_eq!(state(&items, &["+apple@21", "-birch@22"], &[]), ["cedar@19", "apple@21"]);
        assert_eq!(state(&[], &["+dates@21", "-elder@22", "+fig@20"], &[]), ["dates@21"]);
        assert_eq!(state(&items, &["+apple@21", "-apple@22"], &[]), ["birch@10", "cedar@19"]);
    }

    #[test]
    fn undecodable_event_follows_the_listed_object() {
        assert_eq!(state(&["apple@15"], &["!apple@21"], &[]), ["apple@15", "!apple@21"]);
        assert_eq!(state(&["apple@15"], &["!apple@19"], &[]), ["apple@15"]);
    }

    #[test]
    fn objects_and_events_of_lost_slots_are_dropped() {
        let state = state(&["apple@15", "birch@10"], &["+cedar@21", "+dates@22"], &["apple", "cedar"]);
        assert_eq!(state, ["birch@10", "dates@22"]);
    }

    #[test]
    fn restart_keeps_events_and_close_drops_them() {
        let mut gain = GainRequest::new(&ReflectorOptions::default());
        gain.add_items([Listed::Object(object("apple@15"))]);
        gain.add_event(Delta::Put(object("birch@21")));
        gain.restart();
        assert_eq!((gain.items.len(), gain.events.len()), (0, 1));
        gain.add_items([Listed::Object(object("apple@15"))]);
        gain.close();
        assert_eq!((gain.items.len(), gain.events.len()), (0, 0));
    }
}
