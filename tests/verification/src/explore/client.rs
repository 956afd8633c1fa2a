//! The client: the real state machine, queue, store and backlogs. This module performs the work of the
//! driver and the informer's task without tasks, clocks and streams.

use std::{collections::VecDeque, sync::Arc};

use kube_delta_fifo::{Backlog, Delivery, DeltaFifo, EventPages};
use kube_object::{Delta, Event, ResourceVersion};
use kube_reflector::{Deadline, EventKind, Input, Marker, Output, ReflectorOptions, State, step};
use kube_store::{Snapshot, Store};

use super::test_object::{self, TestObject};
use crate::properties::{HandlerId, Key};

/// A request of the state machine to its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Open a request, or cancel it and wait. This replaces the open request.
    Request(Output),
    /// A list is complete.
    Listed {
        /// The version of the list.
        version: ResourceVersion,
        /// All its items could be identified.
        complete: bool,
    },
    /// Request the version of the server, beside the watch.
    CheckVersion,
    /// A change restarts the deadline of the initial events.
    Extended,
    /// A list starts.
    Begun {
        /// True if the list does not reuse cached objects.
        fresh: bool,
    },
}

/// A handler with its mailbox.
#[derive(Clone)]
pub struct Member {
    /// The number of the handler.
    pub id: HandlerId,
    /// The queued events.
    pub backlog: Backlog<TestObject>,
    /// True if the initial state was pushed.
    pub complete: bool,
    /// The present delivery and the index of the running call.
    pub in_hand: Option<(Delivery<TestObject>, usize)>,
    /// True if the handler is synced.
    pub synced: bool,
    /// The next page of a running resync.
    pub resync: Option<usize>,
}

impl Member {
    fn new(id: HandlerId, mark: usize) -> Self {
        Self { id, backlog: Backlog::new(mark), complete: false, in_hand: None, synced: false, resync: None }
    }

    /// As a mailbox does after each change of its backlog.
    pub fn show_synced(&mut self) -> bool {
        let synced = self.complete && self.backlog.initial_pending() == 0;
        synced && !std::mem::replace(&mut self.synced, true)
    }

    fn push(&mut self, events: Arc<[Event<TestObject>]>, complete: bool) {
        self.complete |= complete;
        self.backlog.push(events);
    }
}

/// The client.
pub struct Client {
    /// The reflector.
    pub machine: State,
    /// The armed deadlines, one bit for each.
    pub armed: u8,
    /// The deltas that the driver must push before it reads further input.
    pub outgoing: VecDeque<Delta<TestObject>>,
    /// The queue.
    pub fifo: DeltaFifo<TestObject>,
    /// The cache.
    pub store: Store<TestObject>,
    /// The received deltas of the relist in progress. They are not in the store.
    pub collected: Vec<Delta<TestObject>>,
    /// The handlers.
    pub members: Vec<Member>,
    /// The informer's flag.
    pub synced: bool,
    /// The store was filled from a snapshot.
    pub is_restored: bool,
}

impl Clone for Client {
    fn clone(&self) -> Self {
        Self {
            machine: self.machine.clone(),
            outgoing: self.outgoing.clone(),
            fifo: self.fifo.clone(),
            collected: self.collected.clone(),
            members: self.members.clone(),
            store: self.store.fork(),
            ..*self
        }
    }
}

impl Client {
    /// A client before its start.
    #[must_use]
    pub fn new(queue: usize) -> Self {
        let store = Store::new();
        store.add_index("key", |thing: &TestObject| [thing.0.key]).expect("the first index");
        Self {
            machine: State::Idle,
            armed: 0,
            outgoing: VecDeque::new(),
            fifo: DeltaFifo::new(queue),
            store,
            collected: Vec::new(),
            members: Vec::new(),
            synced: false,
            is_restored: false,
        }
    }

    /// Returns whether no handler may receive the contents of the store, because they are not verified.
    #[must_use]
    pub fn hides_contents(&self) -> bool {
        self.is_restored && !self.store.is_synced()
    }

    /// Delivers the verified contents as initial adds.
    pub fn deliver_verified(&mut self) -> Arc<[Event<TestObject>]> {
        let snapshot = self.store.snapshot();
        for member in &mut self.members {
            member.backlog.push_pages(Arc::new(InitialAdds(snapshot.clone())));
            member.complete = true;
        }
        self.synced = true;
        snapshot.iter().map(|object| Event::Added { object: object.clone(), initial: true }).collect()
    }

    /// The driver's step.
    pub fn step(
        &mut self,
        input: Input<'_>,
        item: Option<Delta<TestObject>>,
        options: &ReflectorOptions,
    ) -> Vec<Ask> {
        let is_change = matches!(input, Input::Event { kind: EventKind::Changed, .. });
        let state = std::mem::replace(&mut self.machine, State::Idle);
        let (state, outputs) = step(state, input, options);
        let (mut item, mut asks) = (item, Vec::new());
        for output in outputs {
            match output {
                Output::List { .. } | Output::Stream { .. } | Output::Watch(_) => {
                    self.armed = 0;
                    asks.push(Ask::Request(output));
                }
                Output::BackOff(_) => {
                    self.armed = bit(Deadline::Backoff);
                    asks.push(Ask::Request(output));
                }
                Output::CheckVersion => asks.push(Ask::CheckVersion),
                Output::Arm(deadline) => {
                    let again = deadline == Deadline::InitialEvents && self.is_armed(deadline);
                    asks.extend((is_change && again).then_some(Ask::Extended));
                    self.armed |= bit(deadline);
                }
                Output::Disarm(deadline) => self.armed &= !bit(deadline),
                Output::Deliver => self.outgoing.extend(item.take()),
                Output::Discard | Output::Count(_) | Output::AbandonPages { .. } => {}
                Output::Mark(marker) => {
                    asks.extend(match marker.clone() {
                        Marker::Clear => None,
                        Marker::Begin { fresh } => Some(Ask::Begun { fresh }),
                        Marker::End { version, complete } => Some(Ask::Listed { version, complete }),
                    });
                    self.outgoing.push_back(marker.into());
                }
            }
        }
        self.machine = state;
        self.push();
        asks
    }

    /// Returns whether this deadline can fire.
    #[must_use]
    pub fn is_armed(&self, deadline: Deadline) -> bool {
        self.armed & bit(deadline) != 0
    }

    /// The deadline has fired.
    pub fn disarm(&mut self, deadline: Deadline) {
        self.armed &= !bit(deadline);
    }

    /// The sender's end of the queue.
    fn push(&mut self) {
        self.fifo.push_all(&mut self.outgoing);
    }

    /// The receiver's end of the queue.
    pub fn pop(&mut self) -> Vec<Delta<TestObject>> {
        let batch = self.fifo.pop_batch(usize::MAX);
        self.fifo.check();
        self.push();
        batch
    }

    /// Performs one write of the store and passes its changes to all handlers.
    pub fn apply(&mut self, batch: Vec<Delta<TestObject>>) -> Arc<[Event<TestObject>]> {
        for delta in &batch {
            match delta {
                Delta::Begin { .. } => self.collected = vec![delta.clone()],
                Delta::End { .. } | Delta::Clear => self.collected.clear(),
                _ if self.collected.is_empty() => {}
                _ => self.collected.push(delta.clone()),
            }
        }
        let was_hidden = self.hides_contents();
        let events: Arc<[Event<TestObject>]> = self.store.apply(batch).into();
        if self.hides_contents() {
            return Arc::new([]);
        }
        if was_hidden {
            return self.deliver_verified();
        }
        let synced = self.store.is_synced();
        let first = synced && !self.synced;
        if first || !events.is_empty() {
            for member in &mut self.members {
                member.push(Arc::clone(&events), synced);
                member.backlog.check();
            }
        }
        self.synced |= first;
        events
    }

    /// The client as it is when all queued deltas are applied.
    #[must_use]
    pub fn after_queue(&self) -> Self {
        let mut client = self.clone();
        while !client.fifo.is_empty() {
            let batch = client.pop();
            client.store.apply(batch);
        }
        client
    }

    /// A handler joins.
    pub fn join(&mut self, id: HandlerId, mark: usize) {
        let mut member = Member::new(id, mark);
        member.complete = self.store.is_synced();
        if !self.hides_contents() {
            member.backlog.push_pages(Arc::new(InitialAdds(self.store.snapshot())));
        }
        self.members.push(member);
    }

    /// Starts a resync of a handler.
    pub fn resync(&mut self, id: HandlerId) {
        if let Some(member) = self.member(id) {
            member.resync.get_or_insert(0);
        }
    }

    /// Queues the next object of a resync, if the handler has no queued events.
    pub fn continue_resync(&mut self, id: HandlerId) {
        let snapshot = self.store.snapshot();
        let Some(member) = self.member(id) else { return };
        while let (true, Some(cursor)) = (member.backlog.is_empty(), member.resync) {
            let (entries, next) = snapshot.page(cursor, 1);
            member.backlog.push_resync(entries);
            member.resync = next;
        }
    }

    /// The handler of this number.
    pub fn member(&mut self, id: HandlerId) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    /// Returns the cached objects and the stale keys, by key.
    #[must_use]
    pub fn shown(&self) -> (Vec<crate::properties::Object>, Vec<Key>) {
        let snapshot = self.store.snapshot();
        let mut objects: Vec<_> = snapshot.iter().map(|entry| entry.0).collect();
        objects.sort_unstable();
        (objects, stale(&snapshot))
    }
}

/// The initial adds of a handler, with one object on each page.
struct InitialAdds(Snapshot<TestObject>);

impl EventPages<TestObject> for InitialAdds {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_initial(&self) -> bool {
        true
    }

    fn page(&self, cursor: usize, _: usize) -> (Arc<[Event<TestObject>]>, Option<usize>) {
        let (entries, next) = self.0.page(cursor, 1);
        (entries.into_iter().map(|object| Event::Added { object, initial: true }).collect(), next)
    }
}

/// Returns the stale keys in order.
pub(super) fn stale(cache: &Snapshot<TestObject>) -> Vec<Key> {
    let stale = cache.iter().filter(|entry| cache.is_stale(entry.key()));
    let mut stale: Vec<Key> = stale.map(|entry| test_object::number(entry.key())).collect();
    stale.sort_unstable();
    stale
}

fn bit(deadline: Deadline) -> u8 {
    match deadline {
        Deadline::List => 1,
        Deadline::InitialEvents => 2,
        Deadline::Watch => 4,
        Deadline::Bookmark => 8,
        Deadline::Backoff => 16,
    }
}
