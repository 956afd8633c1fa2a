//! Log lines about slots that move.

use kube_object::SlotSet;

use super::{member::Phase, owned::Ownership, sharding::ShardOptions};

/// Logs the slots that this process gained, stops or lost.
pub(super) fn log(options: &ShardOptions, before: &Ownership, after: &Ownership) {
    let group = options.key();
    let slots = |ownership: &Ownership, is_selected: fn(Phase) -> bool| -> SlotSet {
        ownership.slots.iter().filter(|(_, held)| is_selected(held.phase)).map(|(slot, _)| *slot).collect()
    };
    let owned = |ownership| slots(ownership, |_| true);
    let (gained, lost) = (owned(after).difference(&owned(before)), owned(before).difference(&owned(after)));
    let is_stopping = |phase| phase != Phase::Active;
    let stopping = slots(after, is_stopping).difference(&slots(before, is_stopping));
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
    if !lost.is_empty() {
        let released = slots(before, |phase| phase == Phase::Ended).intersection(&lost);
        let taken = lost.difference(&released);
        if !released.is_empty() {
            tracing::info!(%group, slots = %released, count, "released slots");
        }
        if !taken.is_empty() {
            tracing::warn!(%group, slots = %taken, count, "lost slots; writes for these slots fail");
        }
    }
}
