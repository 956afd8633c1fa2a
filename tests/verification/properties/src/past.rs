//! `Past`: the state that the checkers record. It drops data that no property can use, so that
//! histories with the same future are equal.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::observation::{CacheState, Cause, Content, Event, HandlerId, Key, Mark, Object, Observation};

/// The recorded observations. Equal values lead to equal results for each future observation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Past {
    /// The writes of the server since the cached states.
    pub server: Server,
    /// The content of the cache.
    pub cache: Cache,
    /// The position of the reflector. `None` if it is not observed.
    pub position: Option<Mark>,
    /// The number of lists without reuse. Each can start an epoch.
    pub fresh_relists: u64,
    /// Each handler that is registered or was removed.
    pub handlers: BTreeMap<HandlerId, Handler>,
    /// Objects that were decoded and not yet transformed.
    pub untransformed: BTreeSet<Object>,
    /// The informer was stopped.
    pub stopped: bool,
    /// True if the resourceVersions of the server are opaque. An unchanged object then counts as
    /// changed.
    pub opaque_versions: bool,
}

/// The states of each object on the server, in the order of time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Server {
    /// The first state of each object is the cached state.
    pub lives: BTreeMap<Key, VecDeque<Written>>,
    /// The present history with versions, to which a restore can return.
    log: Vec<(u64, Key, Written)>,
}

/// A state of an object on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Written {
    /// The version of the write; 0 before the first.
    pub version: u64,
    /// `None` after a delete.
    pub object: Option<Object>,
    /// Clients can decode it.
    pub decodable: bool,
    /// A restore has undone it.
    pub lost: bool,
}

impl Written {
    const NEVER: Written = Written { version: 0, object: None, decodable: true, lost: false };

    /// Returns whether a cache that contained `before` can contain `cached` after this state. An
    /// undecodable state removes the object with an earlier uid.
    #[must_use]
    pub fn shows_as(&self, cached: Option<Object>, before: Option<Object>) -> bool {
        match (self.decodable, self.object) {
            (true, object) => object == cached,
            (false, Some(hidden)) => cached.is_none() && before.is_none_or(|before| before.uid != hidden.uid),
            (false, None) => false,
        }
    }
}

/// The content of the cache.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Cache {
    /// The cached objects.
    pub objects: BTreeMap<Key, Object>,
    /// The keys of stale objects.
    pub stale: BTreeSet<Key>,
    /// The watermark.
    pub mark: Mark,
    /// True if a list was applied, complete or not.
    pub listed: bool,
    /// True if the informer reported that it is synced.
    pub synced: bool,
}

/// The delivered and the pending events of a handler.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Handler {
    /// The objects that it knows.
    pub knows: BTreeMap<Key, Object>,
    /// The objects that were cached when the handler was added and are not delivered. `None` before the
    /// first list.
    pub initial: Option<BTreeMap<Key, Initial>>,
    /// The call that it is in.
    pub running: Option<Event>,
    /// The pending changes of the cache, in order.
    pub pending: VecDeque<PendingEvent>,
    /// The number of pending events from which changes may be coalesced.
    pub mark: usize,
    /// True if changes of the cache were observed since the handler was added. If so, each delivered
    /// event is pending or a resync.
    pub observed: bool,
    /// A resync may still wait for it, which counts for the mark.
    pub resynced: bool,
    /// True if the handler reported that it is synced.
    pub synced: bool,
    /// True if the handler was removed.
    pub left: bool,
}

/// An object that was cached when a handler was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Initial {
    /// The number of the uid.
    pub uid: u64,
    /// It has left the cache since, so that its add may have been merged away.
    pub gone: bool,
}

/// A pending event of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PendingEvent {
    /// The change of the cache.
    pub event: Event,
    /// True if the event was queued above the mark.
    pub mergeable: bool,
    /// The watermark of the cache at the change.
    pub made_at: Mark,
}

impl Past {
    /// Records a checked observation.
    pub fn record(&mut self, observation: &Observation<'_>) {
        match *observation {
            Observation::Written { object, decodable } => {
                self.server.wrote(object.version, object.key, Some(object), decodable);
            }
            Observation::Deleted { key, version } => self.server.wrote(version, key, None, true),
            Observation::Restored { version } => self.server.restored(version),
            Observation::Compacted { version } => self.server.compacted(version),
            Observation::FreshRelist => self.fresh_relists += 1,
            Observation::Position { mark, .. } => self.position = Some(mark),
            Observation::Cache(shown) => self.shown(shown),
            Observation::InformerSynced => self.informer_synced(),
            Observation::HandlerAdded { handler, mark } => self.joined(handler, mark),
            Observation::Resynced { handler } => self.handler(handler).resynced = true,
            Observation::Called { handler, event, .. } => self.handler(handler).record_call(event),
            Observation::Returned { handler } => self.handler(handler).running = None,
            Observation::HandlerSynced { handler } => self.handler(handler).synced = true,
            Observation::Drained { handler } => self.handler(handler).drained(),
            Observation::HandlerRemoved { handler } => self.handler(handler).leave(),
            Observation::Decoded(object) => {
                self.untransformed.insert(object);
            }
            Observation::Transformed(object) => {
                self.untransformed.remove(&object);
            }
            Observation::Stopped { .. } => self.stopped = true,
            Observation::Batch { .. } | Observation::Query { .. } | Observation::Quiet => {}
        }
    }

    pub(crate) fn restarted(self) -> Self {
        let mut server = self.server;
        // No key is cached before the first states are.
        server.lives.values_mut().for_each(|life| life.push_front(Written::NEVER));
        Self { server, opaque_versions: self.opaque_versions, ..Self::default() }
    }

    fn handler(&mut self, handler: HandlerId) -> &mut Handler {
        self.handlers.entry(handler).or_default()
    }

    fn shown(&mut self, shown: CacheState<'_>) {
        let objects: BTreeMap<Key, Object> =
            shown.objects.iter().map(|object| (object.key, *object)).collect();
        let exact = shown.content == Content::AtWatermark;
        self.server.caught_up(&self.cache.objects, &objects, exact);
        let handlers = self.handlers.values_mut().filter(|handler| !handler.left);
        for handler in handlers {
            handler.cache_changed(&shown, &objects);
        }
        self.cache.objects = objects;
        self.cache.stale = shown.stale.iter().copied().collect();
        self.cache.mark = shown.mark;
        // An incomplete first list sets no watermark.
        self.cache.listed |= shown.mark.version.is_some() || matches!(shown.cause, Cause::Relist { .. });
    }

    fn informer_synced(&mut self) {
        self.cache.synced = true;
        let found = self.cache.initial();
        let waiting = self.handlers.values_mut().filter(|handler| handler.initial.is_none());
        waiting.for_each(|handler| handler.initial = Some(found.clone()));
    }

    fn joined(&mut self, id: HandlerId, mark: usize) {
        let initial = self.cache.synced.then(|| self.cache.initial());
        let mut handler = Handler { mark, initial, ..Handler::default() };
        let adds = self.cache.objects.values().map(|object| Event::Added { object: *object, initial: true });
        handler.owe(adds, self.cache.mark);
        self.handlers.insert(id, handler);
    }
}

impl Server {
    fn wrote(&mut self, version: u64, key: Key, object: Option<Object>, decodable: bool) {
        let written = Written { version, object, decodable, lost: false };
        self.log.push((version, key, written));
        self.life(key).push_back(written);
    }

    fn life(&mut self, key: Key) -> &mut VecDeque<Written> {
        self.lives.entry(key).or_insert_with(|| VecDeque::from([Written::NEVER]))
    }

    fn restored(&mut self, version: u64) {
        self.log.retain(|(at, ..)| *at <= version);
        for (key, life) in &mut self.lives {
            life.iter_mut().for_each(|written| written.lost |= written.version > version);
            let again = self.log.iter().rev().find(|(_, of, _)| of == key);
            let again = again.map_or(Written::NEVER, |(_, _, written)| *written);
            if life.back().is_none_or(|last| (last.version, last.object) != (again.version, again.object)) {
                life.push_back(again);
            }
        }
    }

    /// Records new cached states as the earliest states that they can be. An exact cache follows the
    /// present history of the server, so states of lost histories are dropped.
    fn caught_up(&mut self, before: &BTreeMap<Key, Object>, now: &BTreeMap<Key, Object>, exact: bool) {
        for (key, life) in &mut self.lives {
            let (before, now) = (before.get(key).copied(), now.get(key).copied());
            let at = place_of(life, now, before).unwrap_or(0);
            life.drain(..at);
            let mut place = 0;
            life.retain(|written| {
                place += 1;
                place == 1 || !(exact && written.lost)
            });
        }
    }

    /// Drops states before this version, except the last state of each object, because a restore cannot
    /// return to them.
    fn compacted(&mut self, version: u64) {
        let latest: BTreeMap<Key, u64> =
            self.log.iter().filter(|(at, ..)| *at <= version).map(|(at, key, _)| (*key, *at)).collect();
        self.log.retain(|(at, key, _)| *at > version || latest.get(key) == Some(at));
    }
}

/// Returns the index of a cached state among the states of an object.
#[must_use]
pub(super) fn place_of(
    life: &VecDeque<Written>,
    now: Option<Object>,
    before: Option<Object>,
) -> Option<usize> {
    life.iter().position(|written| written.shows_as(now, before))
}

impl Cache {
    fn initial(&self) -> BTreeMap<Key, Initial> {
        self.objects.iter().map(|(key, object)| (*key, Initial { uid: object.uid, gone: false })).collect()
    }
}

impl Handler {
    fn owe(&mut self, events: impl IntoIterator<Item = Event>, made_at: Mark) {
        let past_mark = self.pending.len() >= self.mark || self.resynced;
        let mergeable = past_mark || self.pending.back().is_some_and(|last| last.mergeable);
        self.pending.extend(events.into_iter().map(|event| PendingEvent { event, mergeable, made_at }));
    }

    fn cache_changed(&mut self, shown: &CacheState<'_>, objects: &BTreeMap<Key, Object>) {
        self.observed |= shown.events.is_some();
        self.owe(shown.events.into_iter().flatten().copied(), shown.mark);
        for (key, initial) in self.initial.iter_mut().flatten() {
            initial.gone |= objects.get(key).is_none_or(|object| object.uid != initial.uid);
        }
    }

    fn record_call(&mut self, event: Event) {
        self.running = Some(event);
        let key = event.key();
        // A resync is not a pending event. A pending event that looks like a resync is from a list
        // without reuse, or returns to the last delivered state.
        let pending = match event.is_resync() && self.resynced {
            true => self.pending.iter().position(|pending| pending.event == event),
            false => self.pending_at(&event),
        };
        if let Some(at) = pending {
            let mut passed = 0..=at;
            self.pending.retain(|pending| passed.next().is_none() || pending.event.key() != key);
        }
        if let (Event::Added { object, .. }, Some(initial)) = (event, &mut self.initial)
            && initial.get(&key).is_some_and(|initial| initial.uid == object.uid)
        {
            initial.remove(&key);
        }
        match event.after() {
            Some(object) => self.knows.insert(key, object),
            None => self.knows.remove(&key),
        };
    }

    /// Returns the first pending event of the key with the same final state.
    #[must_use]
    pub fn pending_at(&self, event: &Event) -> Option<usize> {
        let same = |pending: &PendingEvent| {
            pending.event.key() == event.key() && pending.event.after() == event.after()
        };
        self.pending.iter().position(same)
    }

    fn drained(&mut self) {
        self.pending.clear();
        self.resynced = false;
    }

    fn leave(&mut self) {
        *self = Handler { left: true, ..Handler::default() };
    }
}
