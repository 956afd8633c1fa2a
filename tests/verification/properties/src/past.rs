//! `Past`: all that the checkers remember of what was observed. It forgets what no property can ask for any more, so
//! that histories with the same future look the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::observation::{Event, HandlerId, Key, Mark, Object, Observation, Shown};

/// What was observed so far. Equal pasts judge every future alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Past {
    /// What the server wrote, from what the cache shows on.
    pub server: Server,
    /// What the cache shows.
    pub cache: Cache,
    /// What has left the reflector; `None` where nobody says so.
    pub position: Option<Mark>,
    /// Lists that reuse nothing, each of which may begin an epoch.
    pub fresh_relists: u64,
    /// Each handler that is registered or was removed.
    pub handlers: BTreeMap<HandlerId, Handler>,
    /// Objects that were decoded and not yet transformed.
    pub untransformed: BTreeSet<Object>,
    /// The informer was stopped.
    pub stopped: bool,
}

/// The states that the server gave each object, in the order of time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Server {
    /// The first of each is the one that the cache shows.
    pub lives: BTreeMap<Key, VecDeque<Written>>,
    /// The current history with versions, for a restore: what it goes back to.
    log: Vec<(u64, Key, Written)>,
}

/// A state of an object on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Written {
    /// The version of the write; 0 before the first.
    pub version: u64,
    /// `None`: the object is not there.
    pub object: Option<Object>,
    /// Clients can decode it.
    pub decodable: bool,
    /// A restore has undone it.
    pub lost: bool,
}

impl Written {
    const NEVER: Written = Written { version: 0, object: None, decodable: true, lost: false };

    /// Whether a cache that showed `before` may show `cached` because of this state. One that can't be decoded hides
    /// the incarnation before it.
    #[must_use]
    pub fn shows_as(&self, cached: Option<Object>, before: Option<Object>) -> bool {
        match (self.decodable, self.object) {
            (true, object) => object == cached,
            (false, Some(hidden)) => cached.is_none() && before.is_none_or(|before| before.uid != hidden.uid),
            (false, None) => false,
        }
    }
}

/// What the cache shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Cache {
    /// Its objects.
    pub objects: BTreeMap<Key, Object>,
    /// Those marked stale.
    pub stale: BTreeSet<Key>,
    /// Its watermark.
    pub mark: Mark,
    /// The informer has said that it is synced.
    pub synced: bool,
}

/// What a handler was told, and what it is owed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Handler {
    /// The objects that it knows.
    pub knows: BTreeMap<Key, Object>,
    /// The incarnations that were there when it began to look and that it has not been told of; `None` before there
    /// is a first list.
    pub initial: Option<BTreeMap<Key, Initial>>,
    /// The call that it is in.
    pub running: Option<Event>,
    /// The changes of the cache that it was not told of, in order.
    pub owed: VecDeque<Owed>,
    /// From how many owed events on they may be merged.
    pub mark: usize,
    /// Changes of the cache were observed since it joined, so that whatever it is told must be owed or a resync.
    pub observed: bool,
    /// A resync may still wait for it, which counts for the mark.
    pub resynced: bool,
    /// It has said that it is synced.
    pub synced: bool,
    /// It was removed.
    pub left: bool,
}

/// An object that a handler found when it began to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Initial {
    /// Its incarnation.
    pub uid: u64,
    /// It has left the cache since, so that its add may have been merged away.
    pub gone: bool,
}

/// An event that a handler has not been told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owed {
    /// What the cache said.
    pub event: Event,
    /// It came past the mark.
    pub mergeable: bool,
    /// How far the cache was when it said so.
    pub made_at: Mark,
}

impl Past {
    /// Takes in what was observed and judged.
    pub fn record(&mut self, observation: &Observation<'_>) {
        match *observation {
            Observation::Wrote { object, decodable } => {
                self.server.wrote(object.version, object.key, Some(object), decodable);
            }
            Observation::Erased { key, version } => self.server.wrote(version, key, None, true),
            Observation::Restored { version } => self.server.restored(version),
            Observation::Compacted { version } => self.server.compacted(version),
            Observation::FreshRelist => self.fresh_relists += 1,
            Observation::Position { mark, .. } => self.position = Some(mark),
            Observation::Cache(shown) => self.shown(shown),
            Observation::InformerSynced => self.informer_synced(),
            Observation::Joined { handler, mark } => self.joined(handler, mark),
            Observation::Resynced { handler } => self.handler(handler).resynced = true,
            Observation::Told { handler, event, .. } => self.handler(handler).told(event),
            Observation::Returned { handler } => self.handler(handler).running = None,
            Observation::HandlerSynced { handler } => self.handler(handler).synced = true,
            Observation::Drained { handler } => self.handler(handler).drained(),
            Observation::Left { handler } => self.handler(handler).leave(),
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

    fn handler(&mut self, handler: HandlerId) -> &mut Handler {
        self.handlers.entry(handler).or_default()
    }

    fn shown(&mut self, shown: Shown<'_>) {
        let objects: BTreeMap<Key, Object> =
            shown.objects.iter().map(|object| (object.key, *object)).collect();
        self.server.caught_up(&self.cache.objects, &objects, shown.exact);
        let handlers = self.handlers.values_mut().filter(|handler| !handler.left);
        for handler in handlers {
            handler.cache_changed(&shown, &objects);
        }
        self.cache.objects = objects;
        self.cache.stale = shown.stale.iter().copied().collect();
        self.cache.mark = shown.mark;
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

    /// The cache shows other states than before: the earliest that they can be are what is asked for from here on. Where
    /// it is exact it is the server's present history that it follows, and nothing can show a lost one any more.
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

    /// Of what is before this version only the last state of each object can be gone back to.
    fn compacted(&mut self, version: u64) {
        let latest: BTreeMap<Key, u64> =
            self.log.iter().filter(|(at, ..)| *at <= version).map(|(at, key, _)| (*key, *at)).collect();
        self.log.retain(|(at, key, _)| *at > version || latest.get(key) == Some(at));
    }
}

/// Where in the life of an object a cache is that shows this.
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
        let past_mark = self.owed.len() >= self.mark || self.resynced;
        let mergeable = past_mark || self.owed.back().is_some_and(|last| last.mergeable);
        self.owed.extend(events.into_iter().map(|event| Owed { event, mergeable, made_at }));
    }

    fn cache_changed(&mut self, shown: &Shown<'_>, objects: &BTreeMap<Key, Object>) {
        self.observed |= shown.events.is_some();
        self.owe(shown.events.into_iter().flatten().copied(), shown.mark);
        for (key, initial) in self.initial.iter_mut().flatten() {
            initial.gone |= objects.get(key).is_none_or(|object| object.uid != initial.uid);
        }
    }

    fn told(&mut self, event: Event) {
        self.running = Some(event);
        let key = event.key();
        // A resync is owed by nobody; what looks like one and is owed comes of a list that trusts no version, or leads
        // back to what is known.
        let owed = match event.is_resync() && self.resynced {
            true => self.owed.iter().position(|owed| owed.event == event),
            false => self.owed_at(&event),
        };
        if let Some(at) = owed {
            let mut passed = 0..=at;
            self.owed.retain(|owed| passed.next().is_none() || owed.event.key() != key);
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

    /// The first owed event of the key that leads where this one leads.
    #[must_use]
    pub fn owed_at(&self, event: &Event) -> Option<usize> {
        let same = |owed: &Owed| owed.event.key() == event.key() && owed.event.after() == event.after();
        self.owed.iter().position(same)
    }

    fn drained(&mut self) {
        self.owed.clear();
        self.resynced = false;
    }

    fn leave(&mut self) {
        *self = Handler { left: true, ..Handler::default() };
    }
}
