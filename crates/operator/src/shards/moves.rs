//! Log lines and counters of slots that move.

use std::{collections::BTreeMap, time::Duration};

use kube_object::{Slot, SlotSet};
use tokio::time::Instant;

use super::{member::Phase, owned::Ownership, sharding::ShardOptions};

/// The moves of slots since the start of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    pub(crate) claimed: u64,
    pub(crate) released: u64,
    pub(crate) lost: u64,
    /// The number of claimed slots that became ready, and the total time from their claims until then.
    pub(crate) ready: u64,
    pub(crate) wait: Duration,
    /// The claimed slots that are not ready, with the times of their claims.
    pub(crate) waiting: BTreeMap<Slot, Instant>,
}

impl Moves {
    fn add(&mut self, gained: &SlotSet, released: &SlotSet, taken: &SlotSet) {
        self.claimed += gained.len() as u64;
        self.released += released.len() as u64;
        self.lost += taken.len() as u64;
        self.waiting.retain(|slot, _| !released.contains(*slot) && !taken.contains(*slot));
        let now = Instant::now();
        self.waiting.extend(gained.iter().map(|slot| (slot, now)));
    }

    /// Counts the slots that have become ready: all required caches contain the writes of earlier owners.
    pub(super) fn become_ready(&mut self, is_ready: impl Fn(Slot) -> bool) {
        let now = Instant::now();
        let (ready, wait) = (&mut self.ready, &mut self.wait);
        self.waiting.retain(|slot, claimed| {
            if is_ready(*slot) {
                *ready += 1;
                *wait += now.duration_since(*claimed);
            }
            !is_ready(*slot)
        });
    }
}

/// Logs and counts the slots that this process gained, stops or lost.
pub(super) fn record(moves: &mut Moves, options: &ShardOptions, before: &Ownership, after: &Ownership) {
    let group = options.key();
    let slots = |ownership: &Ownership, is_selected: fn(Phase) -> bool| -> SlotSet {
        ownership.slots.iter().filter(|(_, held)| is_selected(held.phase)).map(|(slot, _)| *slot).collect()
    };
    let owned = |ownership| slots(ownership, |_| true);
    // A slot that ends at once was not claimed: a restored table contains it.
    let gained = slots(after, |phase| phase != Phase::Ended).difference(&owned(before));
    let lost = owned(before).difference(&owned(after));
    let stopping = slots(after, |phase| phase == Phase::Stopping);
    let stopping = stopping.difference(&slots(before, |phase| phase != Phase::Active));
    let count = owned(after).len();
    if let Some(error) = after.refusal.as_ref().filter(|_| after.refusal != before.refusal) {
        tracing::error!(%group, %error, "this process takes no part in the shard group");
    }
    if !gained.is_empty() {
        tracing::info!(%group, slots = %gained, count, "claimed slots");
    }
    if !stopping.is_empty() {
        tracing::info!(%group, slots = %stopping, "slots move to another process; waiting for running reconciles");
    }
    let released = slots(before, |phase| phase == Phase::Ended).intersection(&lost);
    let taken = lost.difference(&released);
    if !released.is_empty() {
        tracing::info!(%group, slots = %released, count, "released slots");
    }
    if !taken.is_empty() {
        tracing::warn!(%group, slots = %taken, count, "lost slots; writes for these slots fail");
    }
    moves.add(&gained, &released, &taken);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shards::member::Held;

    fn set(slots: impl IntoIterator<Item = u8>) -> SlotSet {
        slots.into_iter().map(Slot).collect()
    }

    #[test]
    fn slot_that_ends_at_once_is_not_claimed() {
        let (mut moves, options) = (Moves::default(), ShardOptions::new("default", "group"));
        let owns = |phase| Ownership {
            slots: BTreeMap::from([(Slot(1), Held { epoch: 1, phase })]),
            ..Ownership::default()
        };
        record(&mut moves, &options, &Ownership::default(), &owns(Phase::Ended));
        assert_eq!((moves.claimed, moves.waiting.len()), (0, 0));
        record(&mut moves, &options, &Ownership::default(), &owns(Phase::Active));
        assert_eq!((moves.claimed, moves.waiting.len()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn claimed_slots_wait_until_they_are_ready_or_leave() {
        let mut moves = Moves::default();
        let none = SlotSet::default();
        moves.add(&set([1, 2, 3]), &none, &none);
        tokio::time::advance(Duration::from_secs(2)).await;
        moves.become_ready(|slot| slot == Slot(1));
        moves.become_ready(|slot| slot == Slot(1));
        assert_eq!((moves.ready, moves.wait), (1, Duration::from_secs(2)), "a slot is counted once");
        moves.add(&none, &set([2]), &set([3]));
        moves.become_ready(|_| true);
        assert_eq!((moves.ready, moves.waiting.len()), (1, 0), "slots that left are not counted");
        assert_eq!((moves.claimed, moves.released, moves.lost), (3, 1, 1));
    }
}
