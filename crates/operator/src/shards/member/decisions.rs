//! The decisions of a member: the slots that it stops, and its next write.

use kube_object::{Slot, SlotSet};
use tokio::time::Instant;

use super::{Member, MemberInfo, Phase, StoredTable, TableState};
use crate::shards::{peers::Kill, placement::best, table::Table};

impl Member {
    /// Returns the information for the other members. A member that takes no part owns no slots.
    pub(super) fn info(&self) -> MemberInfo {
        match self.refusal() {
            Some(_) => MemberInfo { weight: 0, filled: SlotSet::default() },
            None if self.is_draining => MemberInfo { weight: 0, filled: self.filled },
            None => MemberInfo { weight: self.weight, filled: self.filled },
        }
    }

    /// Stops the slots that another member should have and is ready for.
    pub(super) fn stop_slots(&mut self, now: Instant) {
        let stopping: Vec<Slot> =
            self.slots.keys().copied().filter(|slot| self.must_stop(*slot, now)).collect();
        for slot in stopping {
            if let Some(held) = self.slots.get_mut(&slot) {
                held.phase = held.phase.max(Phase::Stopping);
            }
        }
    }

    fn must_stop(&self, slot: Slot, now: Instant) -> bool {
        let Some(target) = self.targets.get(&slot) else { return self.is_leaving };
        let is_draining = self.own.info().weight == 0;
        let is_settled = is_draining || now >= target.since + self.settings.settle_time;
        let is_ready = match target.member.as_deref() {
            Some(member) if member == self.name => false,
            Some(member) => {
                self.peers.infos().any(|(name, info)| name == member && info.filled.contains(slot))
            }
            None => is_draining,
        };
        self.is_leaving || (is_settled && is_ready)
    }

    /// Returns the next table, and the table that it replaces, if this member must write it at `now`.
    pub(super) fn next_table(&self, now: Instant) -> Option<(Option<StoredTable>, Table)> {
        let options = self.settings.table;
        let is_valid = self.own.valid_until().is_some_and(|until| now < until);
        if !is_valid || self.distrusted_until.is_some_and(|until| now < until) {
            return None;
        }
        let (over, before) = match &self.table {
            TableState::Absent => (None, Table::new(options)),
            TableState::Known(stored) => (Some(stored.clone()), stored.table.clone().ok()?),
            TableState::Unread => return None,
        };
        let mut table = before.clone();
        for owner in before.owners().into_iter().filter(|owner| self.peers.is_dead(owner, now)) {
            before.slots_of(owner).iter().for_each(|slot| table.release(slot, owner, None));
        }
        for (slot, held) in &self.slots {
            if held.phase == Phase::Ended {
                let term = self.terms.get(slot).filter(|(epoch, _)| *epoch == held.epoch);
                table.release(*slot, &self.name, term.map(|(_, term)| term));
            }
        }
        if table.check(options).is_err() {
            // Another member still owns slots with other options. If it has another format, only members of
            // that format can write the table.
            return (table != before && table.has_format(options)).then_some((over, table));
        }
        table = table.with_options(options);
        let claims =
            table.free().iter().filter(|slot| !self.slots.contains_key(slot) && self.may_claim(*slot, now));
        let claims: Vec<Slot> = claims.collect();
        if self.distrusted_until.is_some() {
            // Members may have written after the backup was created from which the table was restored.
            table.free().iter().for_each(|slot| table.forget_written(slot));
        }
        claims.into_iter().for_each(|slot| table.claim(slot, &self.name));
        (over.is_none() || table != before).then_some((over, table))
    }

    /// Returns the next killed Lease that this member must delete. The first member by name deletes it.
    pub(super) fn next_removal(&self) -> Option<Kill> {
        let is_first = self.peers.names().all(|name| self.name.as_str() < name);
        self.peers.next_removal(&self.table().filter(|_| is_first)?.owners())
    }

    /// Returns whether this member claims a free slot. If a slot is free for the lease duration, its target
    /// does not respond, and another member with filled caches claims the slot.
    fn may_claim(&self, slot: Slot, now: Instant) -> bool {
        let info = self.own.info();
        if info.weight == 0 || !info.filled.contains(slot) {
            return false;
        }
        let is_target =
            self.targets.get(&slot).is_some_and(|target| target.member.as_ref() == Some(&self.name));
        let is_late = self
            .free_since
            .get(&slot)
            .is_some_and(|since| now >= *since + self.settings.times.lease_duration);
        let filled = self.peers.infos().chain([(self.name.as_str(), info)]);
        let filled = filled.filter(|(_, info)| info.weight > 0 && info.filled.contains(slot));
        is_target || (is_late && best(slot, filled.map(|(name, _)| name)) == Some(&self.name))
    }

    /// Returns the next time at which the result of [`Member::next_step`] may change.
    pub(super) fn next_time(&self, now: Instant) -> Instant {
        let settled = self
            .slots
            .keys()
            .filter_map(|slot| Some(self.targets.get(slot)?.since + self.settings.settle_time));
        let late = self.free_since.values().map(|since| *since + self.settings.times.lease_duration);
        let times = settled.chain(late).chain(self.peers.next_time()).chain(self.distrusted_until);
        times.filter(|time| *time > now).chain([self.next_read]).min().unwrap_or(self.next_read)
    }
}
