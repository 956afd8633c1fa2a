//! The slots that a member should own, and the slots that it needs in its caches.

use std::collections::BTreeMap;

use kube_object::{Slot, SlotSet};
use tokio::time::Instant;

use super::Member;
use crate::shards::placement::place;

/// The member that should own a slot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    /// `None` if no member has a weight.
    pub(super) member: Option<String>,
    pub(super) since: Instant,
}

impl Member {
    /// Returns the slots whose objects this member needs in its caches. Returns `None` before it has read the
    /// other members.
    pub(crate) fn wanted(&self) -> Option<SlotSet> {
        if !self.has_read {
            return None;
        }
        let is_mine = |target: &Target| target.member.as_ref() == Some(&self.name);
        let placed = self.targets.iter().filter(|(_, target)| is_mine(target)).map(|(slot, _)| *slot);
        Some(self.slots.keys().copied().chain(placed).chain(self.standby.iter()).collect())
    }

    /// Updates the targets if the members changed.
    pub(super) fn place(&mut self, now: Instant) {
        let infos = self.peers.infos().chain([(self.name.as_str(), self.own.info())]);
        let members: BTreeMap<String, u32> =
            infos.map(|(name, info)| (name.to_owned(), info.weight)).collect();
        if members == self.placed && !self.targets.is_empty() {
            return;
        }
        let weights = members.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
        let owners = place(self.settings.table.count, &weights);
        if self.settings.caches_standby_slots {
            self.standby = self.standby_slots(&weights, &owners);
        }
        for slot in SlotSet::all(self.settings.table.count).iter() {
            let member = owners.get(&slot).map(|member| (*member).to_owned());
            if self.targets.get(&slot).is_none_or(|target| target.member != member) {
                self.targets.insert(slot, Target { member, since: now });
            }
        }
        self.placed = members;
    }

    /// Returns the slots of each other member that this member should own if only this other member dies.
    fn standby_slots(&self, weights: &BTreeMap<&str, u32>, owners: &BTreeMap<Slot, &str>) -> SlotSet {
        let mut standby = SlotSet::default();
        for dead in weights.keys().filter(|name| **name != self.name) {
            let mut survivors = weights.clone();
            survivors.remove(dead);
            let next = place(self.settings.table.count, &survivors);
            let moves =
                next.iter().filter(|(slot, owner)| **owner == self.name && owners.get(slot) == Some(dead));
            standby.extend(moves.map(|(slot, _)| *slot));
        }
        standby
    }
}
