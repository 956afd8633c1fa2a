//! `place`: decides which member should own each slot.
//!
//! Placement is a pure function of the members, so all members compute the same result from the same input.
//! Placement does not depend on caches. It decides only which member *should* own a slot. The table records
//! which member owns it.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    hash::Hasher,
};

use kube_object::{Slot, SlotCount, SlotSet};
use siphasher::sip::SipHasher13;

/// Returns the owner of each slot, or an empty map if no member has a weight.
///
/// This is rendezvous hashing with a limit. Each pair of slot and member has a score, and a slot belongs to
/// the member with the highest score that has room. A member has room for a share of the slots that is
/// proportional to its weight, rounded up. If a member joins or leaves, most slots keep their owners.
pub(crate) fn place<'a>(count: SlotCount, members: &BTreeMap<&'a str, u32>) -> BTreeMap<Slot, &'a str> {
    let total: u64 = members.values().map(|weight| u64::from(*weight)).sum();
    let mut scores: Vec<(u64, Slot, &str)> = SlotSet::all(count)
        .iter()
        .flat_map(|slot| members.keys().map(move |member| (score(slot, member), slot, *member)))
        .collect();
    scores.sort_unstable_by(|one, other| other.cmp(one));

    let room = |weight: u32| (u64::from(count.get()) * u64::from(weight)).div_ceil(total.max(1));
    let mut room: BTreeMap<&str, u64> =
        members.iter().map(|(member, weight)| (*member, room(*weight))).collect();
    let mut owners = BTreeMap::new();
    for (_, slot, member) in scores {
        let Some(room) = room.get_mut(member).filter(|room| **room > 0) else { continue };
        if let Entry::Vacant(owner) = owners.entry(slot) {
            owner.insert(member);
            *room -= 1;
        }
    }
    owners
}

/// Returns the member with the highest score for a slot.
pub(crate) fn best<'a>(slot: Slot, members: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    members.max_by_key(|member| (score(slot, member), *member))
}

/// Returns the score of a slot and a member. It must be the same in all versions of this crate.
fn score(slot: Slot, member: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(member.as_bytes());
    hasher.write_u8(slot.0);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("replica-{number}")).collect()
    }

    fn equal(names: &[String]) -> BTreeMap<&str, u32> {
        names.iter().map(|name| (name.as_str(), 1)).collect()
    }

    fn slots_of(owners: &BTreeMap<Slot, &str>, member: &str) -> usize {
        owners.values().filter(|owner| **owner == member).count()
    }

    #[test]
    fn no_member_owns_no_slot() {
        assert!(place(SlotCount::default(), &BTreeMap::new()).is_empty());
        assert!(place(SlotCount::default(), &BTreeMap::from([("a", 0)])).is_empty());
    }

    #[test]
    fn slots_move_only_as_far_as_necessary() {
        for count in 1..12 {
            let names = names(count + 1);
            let (before, after) = (equal(&names[..count]), equal(&names));
            let (before, after) = (place(SlotCount::default(), &before), place(SlotCount::default(), &after));
            let moved = before.iter().filter(|(slot, owner)| after[slot] != **owner).count();
            let share = 64_usize.div_ceil(count + 1);
            assert!(moved <= 2 * share, "{moved} of 64 slots moved when member {count} joined");
        }
    }

    /// Replicas of two versions place slots side by side, so the result must never change.
    #[test]
    fn placement_is_the_same_in_all_versions() {
        let owners = place(SlotCount::new(8).unwrap(), &BTreeMap::from([("a", 1), ("b", 1), ("c", 2)]));
        let owners: Vec<_> = owners.into_values().collect();
        assert_eq!(owners.concat(), "cbcbacca");
    }

    proptest! {
        #[test]
        fn each_slot_has_an_owner_within_its_share(
            weights in prop::collection::vec(0_u32..5, 1..20),
            bits in 0_u32..=8,
        ) {
            let count = SlotCount::new(1 << bits).unwrap();
            let names = names(weights.len());
            let members: BTreeMap<&str, u32> =
                names.iter().map(String::as_str).zip(weights.iter().copied()).collect();
            let owners = place(count, &members);
            let total: u32 = weights.iter().sum();
            prop_assert_eq!(owners.len(), if total == 0 { 0 } else { usize::from(count.get()) });
            for (member, weight) in &members {
                let share = (u32::from(count.get()) * weight).div_ceil(total.max(1));
                prop_assert!(slots_of(&owners, member) <= share as usize);
            }
        }
    }
}
