//! `Member`: decides which slots this process owns. Plain data without I/O and without a clock.
//!
//! A member owns a slot from its claim in the table to its release. It may act for its slots until the
//! earlier of two times:
//! - the end of the Lease of this member, see [`OwnLease`]; and
//! - the renew deadline after it sent the last request that confirmed the table.
//!
//! Other members take a slot only after its release, or after the death of its owner, see [`Peers`]. Two
//! members therefore never act for one slot at the same time.
//!
//! The second time protects against a table that was deleted or restored from a backup. A member that
//! observes this gives up its slots, and acts again only after the lease duration.

mod decisions;
mod targets;

use std::{collections::BTreeMap, time::Duration};

use kube_informer::ResourceVersion;
use kube_object::{Slot, SlotSet};
use tokio::time::Instant;

use self::targets::Target;
use super::{
    own_lease::{MemberInfo, MemberLease, OwnLease},
    peers::{Kill, Peers},
    table::{Table, TableError, TableOptions},
    written::{Term, Written},
};
use crate::LeaseTimes;

/// The settings of a member. All members must have equal settings, except for the slots in their caches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) times: LeaseTimes,
    pub(crate) table: TableOptions,
    /// The time for which the placement must not change before a slot moves.
    pub(crate) settle_time: Duration,
    /// The caches also contain the slots that this member claims if one other member dies.
    pub(crate) caches_standby_slots: bool,
}

/// A table as the server stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredTable {
    pub(crate) uid: String,
    pub(crate) version: ResourceVersion,
    pub(crate) table: Result<Table, TableError>,
}

/// A slot that this member owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) epoch: u64,
    pub(crate) phase: Phase,
}

/// The phases of a slot. A slot never returns to an earlier phase, because a request that releases it may
/// still be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Work may start.
    Active,
    /// No work may start. Running work continues.
    Stopping,
    /// No work runs. The next write of the table releases the slot.
    Ended,
}

/// The next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Wait until this time, or until something changes.
    Wait(Instant),
    ReadTable,
    /// Create the table, or replace the table if it still has this version.
    WriteTable {
        over: Option<StoredTable>,
        table: Table,
    },
    ReadPeer(String),
    /// Mark a Lease as killed.
    Kill(Kill),
    /// Delete a killed Lease.
    Remove(Kill),
    /// The own Lease was killed or deleted, so this member must stop.
    Dead,
}

/// The last response with the table.
#[derive(Clone, Debug)]
enum TableState {
    Unread,
    Absent,
    Known(StoredTable),
}

/// A member of the group that shares the slots.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    name: String,
    settings: Settings,
    pub(crate) own: OwnLease,
    pub(crate) peers: Peers,
    table: TableState,
    /// When the last request was sent that confirmed the table.
    confirmed: Option<Instant>,
    slots: BTreeMap<Slot, Held>,
    /// The writes for the slots that this member releases, with their epochs.
    terms: BTreeMap<Slot, (u64, Term)>,
    /// The epochs of claims whose result is not known yet. Only such a slot becomes active.
    claims: BTreeMap<Slot, u64>,
    /// The version of the last response of these requests. A lower version proves that a backup was
    /// restored. The requests for the own Lease run at the same time, so they have their own check.
    history: ResourceVersion,
    /// The members by weight from which the targets were computed.
    placed: BTreeMap<String, u32>,
    targets: BTreeMap<Slot, Target>,
    /// The slots of other members that this member claims if their target dies.
    standby: SlotSet,
    free_since: BTreeMap<Slot, Instant>,
    /// The table was deleted or restored. Until this time, other members may act for any slot.
    distrusted_until: Option<Instant>,
    weight: u32,
    filled: SlotSet,
    /// The slots stop as soon as other members are ready.
    is_draining: bool,
    /// All slots stop, whether or not another member takes them.
    is_leaving: bool,
    /// When the server last responded.
    last_contact: Option<Instant>,
    must_read: bool,
    has_read: bool,
    next_read: Instant,
    next_request: Instant,
}

impl Member {
    pub(crate) fn new(name: String, settings: Settings, weight: u32, now: Instant) -> Self {
        let info = MemberInfo { weight, filled: SlotSet::default() };
        Self {
            name,
            settings,
            own: OwnLease::new(settings.times, info, now),
            peers: Peers::new(settings.times.lease_duration),
            table: TableState::Unread,
            confirmed: None,
            slots: BTreeMap::new(),
            terms: BTreeMap::new(),
            claims: BTreeMap::new(),
            history: 0.into(),
            placed: BTreeMap::new(),
            targets: BTreeMap::new(),
            standby: SlotSet::default(),
            free_since: BTreeMap::new(),
            distrusted_until: None,
            weight,
            filled: SlotSet::default(),
            is_draining: false,
            is_leaving: false,
            last_contact: None,
            must_read: true,
            has_read: false,
            next_read: now,
            next_request: now,
        }
    }

    /// Creates a member that joins again after this one has died. It still recognizes a table that was
    /// replaced.
    pub(crate) fn rejoin(self, name: String, now: Instant) -> Self {
        Self {
            table: self.table,
            history: self.history,
            distrusted_until: self.distrusted_until,
            last_contact: self.last_contact,
            ..Self::new(name, self.settings, self.weight, now)
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the slots that this member owns.
    pub(crate) fn slots(&self) -> &BTreeMap<Slot, Held> {
        &self.slots
    }

    /// Returns the time until which this member may act for its slots. Returns `None` if it must not act.
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        let table = self.confirmed? + self.settings.times.renew_deadline;
        self.own.valid_until().map(|own| own.min(table))
    }

    /// Returns the versions that the caches of this member must contain before work starts, for each slot.
    pub(crate) fn written(&self) -> BTreeMap<Slot, Written> {
        let entry = |slot: &Slot| Some((*slot, self.table()?.entry(*slot)?.written.clone()));
        self.slots.keys().filter_map(entry).collect()
    }

    /// Returns the reason why this member does not take part.
    pub(crate) fn refusal(&self) -> Option<TableError> {
        match &self.table {
            TableState::Known(StoredTable { table: Ok(table), .. }) => table.check(self.settings.table).err(),
            TableState::Known(StoredTable { table: Err(error), .. }) => Some(error.clone()),
            TableState::Unread | TableState::Absent => None,
        }
    }

    /// Returns the table, if it is known and readable.
    pub(crate) fn table(&self) -> Option<&Table> {
        match &self.table {
            TableState::Known(StoredTable { table: Ok(table), .. }) => Some(table),
            _ => None,
        }
    }

    /// Sets the slots whose objects are in the caches.
    pub(crate) fn set_filled(&mut self, filled: SlotSet) {
        self.filled = filled;
    }

    /// Releases the slots as soon as the caches of other members are filled.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Stops all slots. Other members may need to fill their caches before they claim them.
    pub(crate) fn leave(&mut self) {
        self.drain();
        self.is_leaving = true;
    }

    /// Returns whether all slots stop.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Returns whether this member stops, and owns no slot.
    pub(crate) fn has_left(&self) -> bool {
        self.is_draining && self.slots.is_empty()
    }

    /// Reports that no work runs for a stopping slot. The term contains the writes for the slot.
    pub(crate) fn on_ended(&mut self, slot: Slot, epoch: u64, term: Term) {
        let is_stopping = |held: &&mut Held| held.epoch == epoch && held.phase == Phase::Stopping;
        if let Some(held) = self.slots.get_mut(&slot).filter(is_stopping) {
            held.phase = Phase::Ended;
            self.terms.insert(slot, (epoch, term));
        }
    }

    /// Returns the next request. Updates the targets and the phases of slots before.
    pub(crate) fn next_step(&mut self, now: Instant) -> Step {
        if self.own.is_dead() {
            self.slots.clear();
            return Step::Dead;
        }
        self.peers.advance(now);
        self.own.set_info(self.info());
        self.place(now);
        self.stop_slots(now);
        if now < self.next_request {
            return Step::Wait(self.next_request);
        }
        if self.must_read || now >= self.next_read {
            return Step::ReadTable;
        }
        if let Some(peer) = self.peers.next_read() {
            return Step::ReadPeer(peer.to_owned());
        }
        // A member without a valid Lease has had no contact to the server, so its observations are old.
        let is_valid = self.own.valid_until().is_some_and(|until| now < until);
        if let Some(kill) = self.peers.next_kill(now).filter(|_| is_valid) {
            return Step::Kill(kill);
        }
        if let Some((over, table)) = self.next_table(now) {
            let new = table.slots_of(&self.name).iter().filter(|slot| !self.slots.contains_key(slot));
            self.claims = new.filter_map(|slot| Some((slot, table.entry(slot)?.epoch))).collect();
            return Step::WriteTable { over, table };
        }
        if let Some(removal) = self.next_removal() {
            return Step::Remove(removal);
        }
        Step::Wait(self.next_time(now))
    }

    /// Handles the response to a read of the table that was sent at `sent`. `history` is the version of the
    /// list that contains the table.
    pub(crate) fn on_table_read(
        &mut self,
        history: ResourceVersion,
        read: Option<StoredTable>,
        sent: Instant,
        now: Instant,
    ) {
        self.on_contact(sent, now);
        let can_follow = match (self.table(), read.as_ref().and_then(|read| read.table.as_ref().ok())) {
            (Some(before), Some(table)) => table.can_follow(before),
            _ => true,
        };
        let is_replaced = match (&self.table, &read) {
            (TableState::Known(_), None) => true,
            (TableState::Known(known), Some(read)) => {
                known.uid != read.uid || !read.version.at_least(&known.version)
            }
            (TableState::Unread | TableState::Absent, _) => false,
        };
        if is_replaced || !can_follow || history < self.history {
            self.distrust(now);
        }
        self.history = history;
        (self.must_read, self.has_read) = (false, true);
        self.next_read = sent + self.settings.times.retry_period;
        match read {
            Some(read) => self.set_table(read, sent, now),
            None => (self.table, self.confirmed) = (TableState::Absent, None),
        }
    }

    /// Handles the response to a read of the own Lease. `None` means that it does not exist.
    pub(crate) fn on_own_read(&mut self, lease: Option<MemberLease>, now: Instant) {
        self.check_own_version(lease.as_ref(), now);
        self.own.on_read(lease);
    }

    /// Handles the response to a successful write of the own Lease that was sent at `sent`.
    pub(crate) fn on_own_written(
        &mut self,
        lease: MemberLease,
        info: MemberInfo,
        sent: Instant,
        now: Instant,
    ) {
        self.check_own_version(Some(&lease), now);
        self.own.on_written(lease, info, sent);
    }

    /// Handles the response to the kill of another member.
    pub(crate) fn on_killed(&mut self, member: &str, lease: MemberLease, now: Instant) {
        self.on_written_version(&lease.version, now);
        self.peers.on_read(member, Some(lease), now);
    }

    fn check_own_version(&mut self, lease: Option<&MemberLease>, now: Instant) {
        if lease.zip(self.own.stored()).is_some_and(|(lease, before)| lease.version < before.version) {
            self.distrust(now);
        }
    }

    /// Handles the version in the response to a write. A lower version than before proves that a backup was
    /// restored.
    fn on_written_version(&mut self, version: &ResourceVersion, now: Instant) {
        if *version < self.history {
            self.distrust(now);
        }
        self.history = version.clone();
    }

    /// Handles a response of the server. After a long time without contact, the other members also had
    /// none, so their times start again.
    fn on_contact(&mut self, sent: Instant, now: Instant) {
        let renew_deadline = self.settings.times.renew_deadline;
        if self.last_contact.is_some_and(|last| sent > last + renew_deadline) {
            self.peers.restart_times(now);
        }
        self.last_contact = Some(now);
    }

    /// Gives up all slots, because the table or the history of the server was replaced.
    fn distrust(&mut self, now: Instant) {
        self.distrusted_until = Some(now + self.settings.times.lease_duration);
        self.slots.clear();
        self.claims.clear();
        self.peers.forget_deaths();
        self.must_read = true;
    }

    /// Handles the table in a watch event. The event may be older than the last read. `None` means that the
    /// table was deleted.
    pub(crate) fn on_table_event(&mut self, event: Option<StoredTable>, now: Instant) {
        match (&self.table, event) {
            (TableState::Known(known), Some(event)) if known.uid == event.uid => {
                let can_follow = match (&known.table, &event.table) {
                    (Ok(before), Ok(table)) => table.can_follow(before),
                    _ => true,
                };
                match event.version > known.version {
                    true if can_follow => self.update_table(event, now),
                    true => self.must_read = true,
                    false => {}
                }
            }
            (TableState::Absent, None) => {}
            _ => self.must_read = true,
        }
    }

    /// Handles the response to a successful write of the table that was sent at `sent`.
    pub(crate) fn on_table_written(&mut self, written: StoredTable, sent: Instant, now: Instant) {
        self.next_read = sent + self.settings.times.retry_period;
        // A write that was sent after the time was over has cleared the versions of earlier owners.
        self.distrusted_until = self.distrusted_until.filter(|until| sent < *until);
        self.on_written_version(&written.version, now);
        self.set_table(written, sent, now);
    }

    /// Handles a write of the table that failed, or whose result is not known.
    pub(crate) fn on_table_failed(&mut self, sent: Instant, now: Instant, is_conflict: bool) {
        self.must_read = true;
        self.on_failure(sent, now, is_conflict);
    }

    /// Handles a failed request. The next request waits. After a conflict it is sent immediately.
    ///
    /// A backup may have been restored while the server did not respond, so deaths are read again.
    pub(crate) fn on_failure(&mut self, sent: Instant, now: Instant, is_conflict: bool) {
        if !is_conflict {
            self.peers.check_deaths();
            self.next_request = now.max(sent + self.settings.times.retry_period);
        }
    }

    fn set_table(&mut self, stored: StoredTable, sent: Instant, now: Instant) {
        self.confirmed = stored.table.is_ok().then_some(sent);
        self.update_table(stored, now);
    }

    fn update_table(&mut self, stored: StoredTable, now: Instant) {
        if let Ok(table) = &stored.table {
            let mut owners = table.owners();
            owners.remove(self.name.as_str());
            self.peers.on_owners(&owners, now);
            if table.check(self.settings.table).is_ok() {
                self.take_slots(table);
            } else {
                self.slots.clear();
            }
            self.free_since.retain(|slot, _| table.free().contains(*slot));
            for slot in table.free().iter() {
                self.free_since.entry(slot).or_insert(now);
            }
        } else {
            self.slots.clear();
        }
        self.table = TableState::Known(stored);
    }

    /// Takes the slots that the table contains for this member. A slot that this member did not claim is in
    /// the table because of a restored backup, and is released.
    fn take_slots(&mut self, table: &Table) {
        let mine = table.slots_of(&self.name);
        self.slots.retain(|slot, _| mine.contains(*slot));
        self.terms.retain(|slot, (epoch, _)| self.slots.get(slot).is_some_and(|held| held.epoch == *epoch));
        for slot in mine.iter() {
            let Some(epoch) = table.entry(slot).map(|entry| entry.epoch) else { continue };
            if self.slots.get(&slot).is_none_or(|held| held.epoch != epoch) {
                let is_claimed = self.claims.remove(&slot) == Some(epoch);
                let phase = if is_claimed { Phase::Active } else { Phase::Ended };
                self.slots.insert(slot, Held { epoch, phase });
            }
        }
    }
}

#[cfg(test)]
mod tests;
