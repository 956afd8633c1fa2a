//! `World`: a server, a client, the open request, and the judge, with the effects of one action.

use kube_listwatch::{Decoded, ListAt};
use kube_object::{CacheProbe, DecodeError, Delta, ObjectId, ResourceVersion};
use kube_reflector::{FirstList, Input, Output, ReflectorOptions, State};

use super::{
    bounds::{Bounds, Streams},
    cache_gap::CacheGap,
    client::{Ask, Client, stale},
    open::{self, Open, Reuse},
    restart::SavedState,
    server::{Server, Stored},
    test_object::{self, TestObject},
};
use crate::properties::{
    CacheState, CacheView, Cause, Content, HandlerId, Judge, Key, Mark, Observation, Violation,
};

/// More requests in a row without a delay are a loop.
const HASTE: u8 = 8;
/// A server that works is watched after no more requests.
const TRIES: u8 = 12;
/// A streaming list that more changes extend may never end.
const EXTENSIONS: u8 = 1;

/// The complete state of an exploration.
#[derive(Clone)]
pub struct World {
    /// The remaining bounds.
    pub left: Bounds,
    /// The server.
    pub server: Server,
    /// The open request of the client.
    pub open: Open,
    /// The client.
    pub client: Client,
    /// Watches.
    pub judge: Judge,
    /// Up to where everything has left the reflector.
    pub position: Mark,
    /// An event was lost.
    pub lost: CacheGap,
    /// True if a request for a relist is missing since a lost event.
    pub unasked: bool,
    /// The last list that was applied had items without a name.
    pub incomplete: bool,
    /// The server was restored to a state before the client's.
    pub restored: CacheGap,
    /// True if the restored server reached the version of the client, so that the client cannot detect
    /// the restore.
    pub passed: bool,
    /// Requests since a delay.
    pub haste: u8,
    /// Requests since something outside of the client happened.
    pub tries: u8,
    /// The server accepted a watch, which the client does not know yet.
    pub opening: bool,
    /// A check of the server's version is open.
    pub check: bool,
    /// The last request failed without a response to it, so the server may have been restored.
    pub failed: bool,
    /// The open watch followed such a failure, or the restored server sent an event out of order. The
    /// server's version is not known since.
    pub unchecked: bool,
    /// The reflector discarded an event out of order, and no list was complete since.
    pub disordered: bool,
    /// Changes that extended a streaming list.
    pub extensions: u8,
    /// True if the informer was stopped.
    pub stopped: bool,
    /// The snapshot that the next process restores.
    pub saved: Option<SavedState>,
    /// The restored snapshot, until its contents are verified.
    pub verifying: Option<SavedState>,
}

pub(super) type Outcome = Result<(), Violation>;

impl World {
    /// Returns a world with a new client that has sent no request, and has no handlers.
    pub(super) fn before_start(bounds: Bounds, server: Server, judge: Judge) -> Self {
        Self {
            left: bounds,
            server,
            open: Open::None,
            client: Client::new(bounds.queue),
            judge,
            position: Mark::default(),
            lost: CacheGap::None,
            unasked: false,
            incomplete: false,
            restored: CacheGap::None,
            passed: false,
            haste: 0,
            tries: 0,
            opening: false,
            check: false,
            failed: false,
            unchecked: false,
            disordered: false,
            extensions: 0,
            stopped: false,
            saved: None,
            verifying: None,
        }
    }

    /// Creates a client at its start, with its handlers.
    ///
    /// # Errors
    /// Fails if a property is violated.
    pub fn new(bounds: Bounds) -> Result<Self, Violation> {
        let mut world = Self::before_start(bounds, Server::new(bounds.versions), Judge::new());
        world.judge.observe(Observation::Position { mark: Mark::default(), cause: Cause::Changes })?;
        for handler in 0..bounds.handlers {
            world.join(handler)?;
        }
        world.input(Input::Start, None)?;
        world.prompt()?;
        Ok(world)
    }

    fn options(&self) -> ReflectorOptions {
        ReflectorOptions {
            page_size: Some(self.left.page),
            first_list: match self.left.stale_start {
                _ if self.client.is_restored => FirstList::Fresh,
                true => FirstList::Any,
                false => FirstList::Consistent,
            },
            streaming_lists: self.left.streams != Streams::Unasked,
            ..ReflectorOptions::default()
        }
    }

    pub(super) fn input(&mut self, input: Input<'_>, item: Option<Delta<TestObject>>) -> Outcome {
        let before = self.client.machine.clone();
        let asks = self.client.step(input, item, &self.options());
        let mut fresh = matches!(&before, State::Listing(list) if list.plan.fresh)
            || matches!(&before, State::Streaming(stream) if stream.plan.fresh);
        for ask in asks {
            match ask {
                Ask::Begun { fresh: now } => {
                    fresh = now;
                    self.unasked = false;
                }
                Ask::Extended => self.extended()?,
                Ask::CheckVersion => self.check = true,
                Ask::Listed { version, .. } => self.listed(&version, fresh)?,
                Ask::Request(output) => self.request(output)?,
            }
        }
        if std::mem::take(&mut self.opening) {
            return self.input(Input::Opened, None);
        }
        self.written()?;
        if let State::Watching(watching) = &self.client.machine {
            let version = known(&watching.position.version);
            if self.position.version < version {
                self.position.version = version;
                self.unchecked = false;
                // The number of new events is bounded.
                self.haste = 0;
                self.tries = 0;
                self.judge.observe(Observation::Position { mark: self.position, cause: Cause::Changes })?;
            }
        }
        Ok(())
    }

    fn extended(&mut self) -> Outcome {
        self.extensions += 1;
        let how = "changes extend a streaming list that does not end".to_owned();
        if self.extensions > EXTENSIONS { Err(Violation { property: 2, how }) } else { Ok(()) }
    }

    fn listed(&mut self, version: &ResourceVersion, fresh: bool) -> Outcome {
        self.disordered = false;
        let version = known(version);
        let epoch = self.position.epoch + u64::from(version.is_some() && self.position.version > version);
        self.position = Mark { epoch, version };
        self.judge.observe(Observation::Position { mark: self.position, cause: Cause::Relist { fresh } })
    }

    fn request(&mut self, output: Output) -> Outcome {
        // The pages of a list count once.
        let failed = std::mem::take(&mut self.failed);
        (self.check, self.unchecked) = (false, false);
        let page =
            matches!(&output, Output::List { request, .. } if matches!(request.at, ListAt::Continue(_)));
        self.open = match output {
            Output::List { request, fresh } => Open::List { request, fresh, sent: None },
            Output::Stream { not_older_than, fresh } => {
                open::stream(&self.server, not_older_than.as_ref(), fresh, self.left.streams)
            }
            Output::Watch(_) if self.disordered => {
                let how = "no list follows a watch that sent an event out of order".to_owned();
                return Err(Violation { property: 2, how });
            }
            Output::Watch(after) => {
                let open = open::watch(&self.server, &after, self.left.versions);
                if matches!(&open, Open::Watch { initial, .. } if !initial.is_empty())
                    || !after.is_resumable()
                {
                    self.find_missed_deletions();
                }
                self.unchecked = failed && after.is_resumable();
                self.opening = matches!(open, Open::Watch { .. });
                open
            }
            _ => {
                // The failure precedes the backoff.
                self.failed = failed;
                self.open = Open::None;
                return Ok(());
            }
        };
        if matches!(&self.open, Open::List { request, .. } if request.at == ListAt::Any)
            && self.position.version.is_some()
        {
            return Err(Violation { property: 13, how: "any state will do after there was one".to_owned() });
        }
        self.haste += u8::from(!page);
        self.tries += u8::from(!page);
        if matches!(&self.client.machine, State::Listing(list) if list.pages > self.left.objects) {
            return Err(Violation { property: 2, how: "a list has more pages than objects".to_owned() });
        }
        let loops = |how: &str| Err(Violation { property: 2, how: how.to_owned() });
        match (self.haste > HASTE, self.tries > TRIES) {
            (true, _) => loops("request follows request without a delay"),
            (_, true) => loops("the server works, but no watch succeeds"),
            _ => Ok(()),
        }
    }

    /// An object as it is decoded.
    pub(super) fn decode(&self, stored: Stored, reuse: Reuse) -> Decoded<TestObject> {
        let id = self.id(stored);
        let unchanged = |digest| self.client.store.find_unchanged(&id.as_id(), digest);
        let same = match reuse {
            _ if self.left.functions => None,
            Reuse::Nothing => None,
            Reuse::Versions => unchanged(None),
            Reuse::Digests => unchanged(Some(test_object::digest(&stored.object))),
        };
        match (same, stored.decodable) {
            (Some(held), _) => Decoded::Object(held),
            (None, true) => Decoded::Object(test_object::decoded(stored.object, id)),
            (None, false) => Decoded::Undecodable { id, error: DecodeError::Panicked },
        }
    }

    /// Returns the identity that the server sends.
    pub(super) fn id(&self, stored: Stored) -> ObjectId {
        test_object::id(&stored.object, self.left.versions.of_object(&stored))
    }

    /// A watch without a version does not report deletions before its start. A list must follow.
    fn find_missed_deletions(&mut self) {
        let (objects, _) = self.client.after_queue().shown();
        if objects.iter().any(|object| self.server.get(object.key).is_none()) {
            self.lost = CacheGap::Until(self.begins_waiting());
        }
    }

    pub(super) fn delta(&self, stored: Stored, reuse: Reuse) -> Delta<TestObject> {
        match self.decode(stored, reuse) {
            Decoded::Object(entry) => Delta::Put(entry),
            Decoded::Undecodable { id, .. } => Delta::Undecodable(id),
        }
    }

    /// The informer's task takes a batch.
    pub(super) fn apply(&mut self) -> Outcome {
        let batch = self.client.pop();
        let keys: Vec<Key> = batch.iter().filter_map(Delta::key).map(test_object::number).collect();
        self.judge.observe(Observation::Batch { keys: &keys })?;
        let mut cause = Cause::Changes;
        for delta in &batch {
            match delta {
                Delta::Begin { without_reuse: fresh } => {
                    self.lost.begun(true);
                    self.restored.begun(*fresh);
                }
                Delta::End { complete, .. } => {
                    let fresh =
                        matches!(self.client.collected.first(), Some(Delta::Begin { without_reuse: true }));
                    cause = Cause::Relist { fresh };
                    self.lost.ended(*complete);
                    self.restored.ended(*complete);
                    self.passed &= self.restored != CacheGap::None;
                    self.incomplete = !complete;
                }
                _ => {}
            }
        }
        let before = self.client.synced;
        let held = self.client.store.snapshot();
        let watermark = held.watermark().clone();
        let events = self.client.apply(batch);
        if self.client.hides_contents() {
            self.client.store.check();
            return Ok(());
        }
        let shown = self.client.store.snapshot();
        if *shown.watermark() == watermark && events.is_empty() && stale(&held) == stale(&shown) {
            return Ok(());
        }
        drop((held, shown));
        self.show(&events.iter().map(test_object::seen).collect::<Vec<_>>(), cause)?;
        if self.client.synced && !before {
            self.judge.observe(Observation::InformerSynced)?;
        }
        self.show_synced()
    }

    pub(super) fn show(&mut self, events: &[crate::properties::Event], cause: Cause) -> Outcome {
        self.client.store.check();
        let (objects, stale) = self.client.shown();
        let content = match self.lost == CacheGap::None && self.restored == CacheGap::None {
            // Events do not move an opaque watermark.
            true if self.incomplete || self.left.versions.are_opaque_in_lists() => Content::NotOlder,
            true => Content::AtWatermark,
            false => Content::Unknown,
        };
        let mark = self.mark();
        let shown =
            CacheState { objects: &objects, stale: &stale, mark, events: Some(events), cause, content };
        self.judge.observe(Observation::Cache(shown))?;
        if !self.left.queries {
            return Ok(());
        }
        let index = self.client.store.index::<Key>("key").expect("the index was added");
        let found: Vec<_> =
            (0..self.left.objects).flat_map(|key| index.get(&key)).map(|thing| thing.0).collect();
        self.judge.observe(Observation::Query { expected: &objects, found: &found })
    }

    fn mark(&self) -> Mark {
        let position = self.client.store.watermark();
        let version = position.version.as_ref().and_then(known);
        if !self.left.versions.are_opaque_in_lists() {
            return Mark { epoch: position.epoch, version };
        }
        // The store starts an epoch at each list, and has no version after an incomplete list. The world
        // knows the order of the versions, and they never decrease.
        Mark { epoch: 0, version: version.or(self.judge.past().cache.mark.version) }
    }

    /// Handlers that have become synced.
    pub(super) fn show_synced(&mut self) -> Outcome {
        for member in &mut self.client.members {
            if member.show_synced() {
                self.judge.observe(Observation::HandlerSynced { handler: member.id })?;
            }
        }
        Ok(())
    }

    pub(super) fn join(&mut self, id: HandlerId) -> Outcome {
        self.client.join(id, self.left.mark);
        self.judge.observe(Observation::HandlerAdded { handler: id, mark: self.left.mark })?;
        self.show_synced()
    }

    pub(super) fn remove(&mut self, id: HandlerId) -> Outcome {
        let Some(at) = self.client.members.iter().position(|member| member.id == id) else { return Ok(()) };
        let mut member = self.client.members.remove(at);
        // A removal waits for the call that runs.
        if member.in_hand.take().is_some() {
            self.judge.observe(Observation::Returned { handler: id })?;
        }
        self.judge.observe(Observation::HandlerRemoved { handler: id })
    }

    /// A handler's task takes a delivery.
    pub(super) fn take(&mut self, id: HandlerId) -> Outcome {
        self.client.continue_resync(id);
        let Some(member) = self.client.member(id) else { return Ok(()) };
        let Some(delivery) = member.backlog.take() else { return self.drained(id) };
        member.backlog.check();
        member.in_hand = Some((delivery, 0));
        self.show_synced()?;
        self.call(id)
    }

    fn call(&mut self, id: HandlerId) -> Outcome {
        let snapshot = self.client.store.snapshot();
        let (mark, synced) = (self.mark(), self.client.synced);
        let index = self.client.store.index::<Key>("key").expect("the index was added");
        let Some(member) = self.client.member(id) else { return Ok(()) };
        let Some((delivery, at)) = &member.in_hand else { return Ok(()) };
        let event = test_object::seen(&delivery[*at]);
        let cached = snapshot.get(delivery[*at].key()).map(|entry| entry.0);
        let indexed = index.get(&event.key()).first().map(|thing| thing.0);
        let view = Some(CacheView { cached, indexed, mark, synced });
        self.judge.observe(Observation::Called { handler: id, event, view })?;
        match self.left.slow_calls {
            true => Ok(()),
            false => self.returned(id),
        }
    }

    /// Completes a call of a handler. The task of the handler continues.
    pub(super) fn returned(&mut self, id: HandlerId) -> Outcome {
        self.judge.observe(Observation::Returned { handler: id })?;
        let Some(member) = self.client.member(id) else { return Ok(()) };
        let Some((mut delivery, at)) = member.in_hand.take() else { return Ok(()) };
        if at + 1 < delivery.len() {
            member.in_hand = Some((delivery, at + 1));
            return self.call(id);
        }
        member.backlog.acknowledge(&mut delivery);
        member.backlog.check();
        self.show_synced()?;
        self.drained(id)
    }

    /// Records that a handler has no further events.
    fn drained(&mut self, id: HandlerId) -> Outcome {
        let Some(member) = self.client.member(id) else { return Ok(()) };
        match member.backlog.is_empty() && member.resync.is_none() {
            true => self.judge.observe(Observation::Drained { handler: id }),
            false => Ok(()),
        }
    }

    /// Returns the number of list starts that are not applied.
    pub(super) fn begins_waiting(&self) -> usize {
        let waiting = self.client.fifo.iter().chain(&self.client.outgoing);
        waiting.filter(|delta| matches!(delta, Delta::Begin { .. })).count()
    }

    /// Reports that the version of the server, or the first version that the client depends on, has
    /// changed.
    pub(super) fn written(&mut self) -> Outcome {
        self.passed |= self.restored != CacheGap::None && Some(self.server.version()) >= self.horizon();
        Ok(())
    }

    /// Returns whether the server never responds to the open request.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        match &self.open {
            Open::Stalled => true,
            // A watch that continues after a restore waits for versions above the position.
            Open::Watch { sent, .. } => Some(self.server.version()) < self.position.version.max(Some(*sent)),
            Open::Stream { accepted, initial, ends, .. } => *accepted && initial.is_empty() && !ends,
            Open::None | Open::Refused(_) | Open::List { .. } => false,
        }
    }

    /// Returns whether only a list repairs the cache, although the watch works.
    pub(super) fn needs_list(&self) -> bool {
        let is_open = matches!(self.open, Open::Watch { .. });
        let is_versionless = !self.left.versions.are_in_lists();
        is_versionless && self.lost != CacheGap::None || is_open && self.disordered
    }

    /// Returns whether no action is pending.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let is_delivered = match &self.open {
            Open::Watch { initial, sent, .. } => {
                !self.is_stuck() && initial.is_empty() && self.server.next(*sent).is_none()
            }
            _ => false,
        };
        let idle = |member: &super::client::Member| {
            member.in_hand.is_none() && member.backlog.is_empty() && member.resync.is_none()
        };
        is_delivered
            && !self.unasked
            && !self.needs_list()
            && matches!(self.client.machine, State::Watching(_))
            && self.client.outgoing.is_empty()
            && self.client.fifo.is_empty()
            && self.client.members.iter().all(idle)
    }

    /// Checks the properties of a quiet world.
    pub(super) fn quiet(&mut self) -> Outcome {
        self.haste = 0;
        self.tries = 0;
        if !self.passed {
            self.judge.observe(Observation::Quiet)?;
        }
        for id in self.client.members.iter().map(|member| member.id).collect::<Vec<_>>() {
            self.judge.observe(Observation::Drained { handler: id })?;
        }
        Ok(())
    }
}

/// Returns the number of a version, if it is one.
pub(super) fn known(version: &ResourceVersion) -> Option<u64> {
    version.is_resumable().then(|| open::number(version))
}
