//! `OwnedSlots` reports the slots of this process, and permits work for them.

use std::{collections::BTreeMap, sync::Arc};

use kube_informer::ResourceVersion;
use kube_object::{Slot, SlotSet};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    member::{Held, Phase},
    moves::Moves,
    table::TableError,
    written::{Term, Written, resource_of},
};

/// The slots of this process in the last response of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ownership {
    /// The name of the Lease of this process.
    pub(super) name: String,
    pub(super) slots: BTreeMap<Slot, Held>,
    /// Work may run until this time.
    pub(super) until: Option<Instant>,
    /// The slots whose objects this process needs in its caches.
    pub(super) wanted: SlotSet,
    /// The versions that the caches must contain before the work for a slot starts.
    pub(super) written: BTreeMap<Slot, Written>,
    /// The slots without an owner in the table.
    pub(super) unowned: SlotSet,
    /// The slots of each member in the table.
    pub(super) members: BTreeMap<String, SlotSet>,
    /// The reason why this process does not take part.
    pub(super) refusal: Option<TableError>,
}

/// The state of the group, for metrics and pages.
#[cfg(any(feature = "http", feature = "metrics"))]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read all fields"))]
pub(crate) struct ShardsView {
    /// The name of the Lease of this process.
    pub(crate) name: String,
    /// The slots that move to another process.
    pub(crate) stopping: SlotSet,
    pub(crate) wanted: SlotSet,
    pub(crate) unowned: SlotSet,
    /// The slots of each member, as text.
    pub(crate) members: BTreeMap<String, String>,
    pub(crate) refusal: Option<String>,
    pub(crate) moves: Moves,
}

impl Ownership {
    /// Returns the epoch of a slot for which work may run now.
    fn epoch(&self, slot: Slot, last_phase: Phase) -> Option<u64> {
        let is_valid = self.until.is_some_and(|until| Instant::now() < until);
        self.slots.get(&slot).filter(|held| is_valid && held.phase <= last_phase).map(|held| held.epoch)
    }
}

/// The state that [`Sharding`](super::sharding::Sharding) and its handles share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The name of the group.
    group: String,
    pub(super) ownership: watch::Sender<Ownership>,
    /// The number of [`SlotPermit`]s by slot and epoch.
    running: Mutex<BTreeMap<(Slot, u64), usize>>,
    /// The writes for the slots, by slot and epoch.
    terms: Mutex<BTreeMap<(Slot, u64), Term>>,
    pub(super) moves: Mutex<Moves>,
    /// The slots in the caches.
    pub(super) filled: watch::Sender<SlotSet>,
    /// The process releases its slots as soon as other processes are ready.
    pub(super) draining: CancellationToken,
    /// Wakes the task that sends requests: the last permit of a slot was dropped.
    pub(super) ended: Notify,
}

impl Shared {
    pub(super) fn new(group: &str) -> Arc<Self> {
        Arc::new(Self {
            group: group.to_owned(),
            ownership: watch::Sender::default(),
            running: Mutex::default(),
            terms: Mutex::default(),
            moves: Mutex::default(),
            filled: watch::Sender::default(),
            draining: CancellationToken::new(),
            ended: Notify::new(),
        })
    }

    /// Returns whether work runs for a slot.
    pub(super) fn is_running(&self, slot: Slot, epoch: u64) -> bool {
        self.running.lock().contains_key(&(slot, epoch))
    }

    fn change_term(&self, slot: Slot, epoch: u64, change: impl FnOnce(&mut Term)) {
        change(self.terms.lock().entry((slot, epoch)).or_default());
    }

    /// Returns the writes for a slot, and removes them.
    pub(super) fn take_term(&self, slot: Slot, epoch: u64) -> Term {
        self.terms.lock().remove(&(slot, epoch)).unwrap_or_default()
    }

    /// Removes the terms of slots that this process has lost.
    pub(super) fn forget_terms(&self, slots: &BTreeMap<Slot, Held>) {
        let is_held = |slot: &Slot, epoch: u64| slots.get(slot).is_some_and(|held| held.epoch == epoch);
        self.terms.lock().retain(|(slot, epoch), _| is_held(slot, *epoch));
    }
}

/// Reports the slots of this process, and permits work for them. All clones refer to the same
/// [`Sharding`](crate::Sharding).
///
/// Each call compares the clock of the process with the time until which the slots are valid. It does not
/// depend on a background task. If a process is paused, the first call after the pause therefore already
/// reports that it owns no slot.
#[derive(Clone, Debug)]
pub struct OwnedSlots {
    pub(super) shared: Arc<Shared>,
}

impl OwnedSlots {
    /// Returns the name of the shard group.
    pub fn group(&self) -> &str {
        &self.shared.group
    }

    /// Returns the slots that this process owns, without the slots that it is about to release. The result is
    /// empty while the Lease of this process has expired.
    pub fn get(&self) -> SlotSet {
        let ownership = self.shared.ownership.borrow();
        let slots = ownership.slots.keys().copied();
        slots.filter(|slot| ownership.epoch(*slot, Phase::Active).is_some()).collect()
    }

    /// Returns a watch channel that changes with the slots, and with each renewal of the Lease.
    pub(super) fn subscribe(&self) -> watch::Receiver<Ownership> {
        self.shared.ownership.subscribe()
    }

    /// Records that a cache with this version contains all writes of the earlier owners of a slot.
    pub(super) fn reached(&self, (slot, epoch): (Slot, u64), resource: &str, version: &ResourceVersion) {
        self.shared.change_term(slot, epoch, |term| term.reached(resource, version));
    }

    /// Returns a permit for work, for example for a reconcile of an object in this slot. Returns
    /// `None` if this process does not own the slot, or is about to release it.
    ///
    /// This method does not check the caches. After a claim, first wait until they contain the writes of the
    /// earlier owners, for example with
    /// [`Informer::wait_for_latest`](kube_informer::Informer::wait_for_latest).
    ///
    /// The process does not release the slot while a permit exists, without a time limit. But if it cannot
    /// renew its Lease within the renew deadline, it loses the slot. Check [`SlotPermit::is_valid`] before
    /// each write.
    pub fn permit(&self, slot: Slot) -> Option<SlotPermit> {
        let permit = self.recorded_permit(slot)?;
        self.shared.change_term(slot, permit.epoch, Term::add_unknown);
        Some(permit)
    }

    /// Returns a permit for work whose writes are recorded with [`SlotPermit::start_write`].
    pub(super) fn recorded_permit(&self, slot: Slot) -> Option<SlotPermit> {
        // The lock orders this call and the check whether work runs, which follows a change of the phase.
        let mut running = self.shared.running.lock();
        let epoch = self.shared.ownership.borrow().epoch(slot, Phase::Active)?;
        *running.entry((slot, epoch)).or_default() += 1;
        drop(running);
        Some(SlotPermit { shared: Arc::clone(&self.shared), slot, epoch })
    }

    /// Returns the slots whose objects this process needs in its caches: the slots that it owns, and the
    /// slots that it should own. With [`ShardOptions::standby`](crate::ShardOptions::standby), also returns
    /// the slots that it will own if one other process crashes.
    pub fn wanted(&self) -> SlotSet {
        self.shared.ownership.borrow().wanted
    }

    #[cfg(any(feature = "http", feature = "metrics"))]
    pub(crate) fn view(&self) -> ShardsView {
        let ownership = self.shared.ownership.borrow();
        let stopping = ownership.slots.iter().filter(|(_, held)| held.phase != Phase::Active);
        ShardsView {
            name: ownership.name.clone(),
            stopping: stopping.map(|(slot, _)| *slot).collect(),
            wanted: ownership.wanted,
            unowned: ownership.unowned,
            members: ownership
                .members
                .iter()
                .map(|(name, slots)| (name.clone(), slots.to_string()))
                .collect(),
            refusal: ownership.refusal.as_ref().map(ToString::to_string),
            moves: self.shared.moves.lock().clone(),
        }
    }

    /// Records the claimed slots whose caches are ready.
    pub(super) fn become_ready(&self, is_ready: impl Fn(Slot) -> bool) {
        self.shared.moves.lock().become_ready(is_ready);
    }

    /// Returns the reason why this process takes no part in the group. The table then belongs to replicas
    /// with another version of this crate or with other options, or it is not readable. Returns `None` if
    /// the process takes part.
    pub fn refusal(&self) -> Option<String> {
        self.shared.ownership.borrow().refusal.as_ref().map(ToString::to_string)
    }

    /// Reports the slots whose objects are in the caches of this process. The process claims only such
    /// slots. A manager calls this method itself.
    pub fn report_filled(&self, slots: SlotSet) {
        self.shared.filled.send_if_modified(|filled| std::mem::replace(filled, slots) != slots);
    }

    /// Releases each slot as soon as its next owner has filled its caches, and its permits are dropped. The
    /// process claims no further slots, but remains a member of the group until [`Sharding::run`] stops.
    ///
    /// [`Sharding::run`]: crate::Sharding::run
    pub fn drain(&self) {
        self.shared.draining.cancel();
    }

    /// Waits until the results of [`get`](Self::get) and [`wanted`](Self::wanted) differ from `known`.
    /// Returns the new results of both. If the Lease of this process expires, the owned slots become empty.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn changed(&self, known: (SlotSet, SlotSet)) -> (SlotSet, SlotSet) {
        let mut changes = self.shared.ownership.subscribe();
        loop {
            let until = changes.borrow_and_update().until;
            let current = (self.get(), self.wanted());
            if current != known {
                return current;
            }
            let expired = async {
                match until.filter(|until| Instant::now() < *until) {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // This handle keeps the sender, so the channel is never closed.
                _ = changes.changed() => {}
                () = expired => {}
            }
        }
    }
}

/// Permits work for a slot, for example a reconcile. The process does not release the slot before the
/// permit is dropped.
#[derive(Debug)]
pub struct SlotPermit {
    shared: Arc<Shared>,
    slot: Slot,
    epoch: u64,
}

impl SlotPermit {
    /// Returns the slot.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Returns a number that increases with each claim of this slot. It is a fencing token: another
    /// system can reject a request with a lower number than an earlier request for this slot.
    ///
    /// The number decreases only if a user deletes the table or restores a backup of the cluster.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Starts to record a write. The path is the path of the request.
    pub(crate) fn start_write(self: &Arc<Self>, path: &str) -> WriteRecord {
        WriteRecord { permit: Arc::clone(self), resource: resource_of(path), outcome: Outcome::Unknown }
    }

    /// Returns whether this process may write for the slot now. Check it before each write.
    pub fn is_valid(&self) -> bool {
        self.shared.ownership.borrow().epoch(self.slot, Phase::Stopping) == Some(self.epoch)
    }

    /// Waits until [`is_valid`](Self::is_valid) returns false.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn lost(&self) {
        let mut changes = self.shared.ownership.subscribe();
        loop {
            let until = changes.borrow_and_update().until;
            let Some(until) = until.filter(|_| self.is_valid()) else { return };
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep_until(until) => {}
            }
        }
    }
}

/// Records a write when it is dropped. The next owner of the slot must have the write in its caches.
pub(crate) struct WriteRecord {
    permit: Arc<SlotPermit>,
    resource: Option<String>,
    outcome: Outcome,
}

enum Outcome {
    /// The server may have applied the write, or may still apply it.
    Unknown,
    Applied(ResourceVersion),
    Rejected,
}

impl WriteRecord {
    /// Completes the record: the server has applied the write.
    pub(crate) fn applied(mut self, version: ResourceVersion) {
        self.outcome = Outcome::Applied(version);
    }

    /// Completes the record: the server has rejected the write.
    pub(crate) fn rejected(mut self) {
        self.outcome = Outcome::Rejected;
    }
}

impl Drop for WriteRecord {
    fn drop(&mut self) {
        let version = match std::mem::replace(&mut self.outcome, Outcome::Unknown) {
            Outcome::Rejected => return,
            Outcome::Unknown => None,
            Outcome::Applied(version) => Some(version),
        };
        let SlotPermit { shared, slot, epoch } = &*self.permit;
        shared.change_term(*slot, *epoch, |term| term.add(self.resource.as_deref(), version));
    }
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        let mut running = self.shared.running.lock();
        if let Some(count) = running.get_mut(&(self.slot, self.epoch)) {
            *count -= 1;
            if *count == 0 {
                running.remove(&(self.slot, self.epoch));
                self.shared.ended.notify_one();
            }
        }
    }
}
