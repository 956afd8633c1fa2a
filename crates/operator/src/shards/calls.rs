//! The parts that the simulation and the exploration share: the requests of a member, and the checks.

use kube_object::Slot;
use tokio::time::Instant;

use super::{
    member::{Member, Phase, Step},
    own_lease::LeaseStep,
    server::{Answer, Call},
};

/// The resource that all processes write.
pub(super) const RESOURCE: &str = "pods";

/// Returns the next request of a member. Channel 0 is for the own Lease, and channel 1 is for all other
/// requests. A member waits for a response before it sends the next request of the channel.
pub(super) fn next_call(member: &mut Member, channel: usize, now: Instant) -> Option<Call> {
    let name = member.name().to_owned();
    if channel == 0 {
        return match member.own.next_step(now) {
            LeaseStep::Wait(_) | LeaseStep::Dead => None,
            LeaseStep::Read => Some(Call::ReadLease(name)),
            LeaseStep::Write { over, info } => {
                Some(Call::WriteLease(name, over.map(|over| over.version), info))
            }
        };
    }
    match member.next_step(now) {
        Step::Wait(_) | Step::Dead => None,
        Step::ReadTable => Some(Call::ReadTable),
        Step::WriteTable { over, table } => Some(Call::WriteTable(over.map(|over| over.version), table)),
        Step::ReadPeer(name) => Some(Call::ReadLease(name)),
        Step::Kill(kill) => Some(Call::Kill(kill)),
        Step::Remove(kill) => Some(Call::Remove(kill)),
    }
}

/// Passes a response to the member. `None` means that no response arrived.
pub(super) fn respond(member: &mut Member, call: &Call, answer: Option<Answer>, sent: Instant, now: Instant) {
    match (call, answer) {
        (Call::ReadLease(name), Some(Answer::Lease(lease))) if name.as_str() == member.name() => {
            member.on_own_read(lease, now);
        }
        (Call::WriteLease(_, _, info), Some(Answer::Lease(Some(lease)))) => {
            member.on_own_written(lease, *info, sent, now);
        }
        (Call::WriteLease(..), _) => member.own.on_failure(sent, now),
        (Call::ReadLease(name), None) if name.as_str() == member.name() => member.own.on_failure(sent, now),
        (Call::ReadLease(name), Some(Answer::Lease(lease))) => member.peers.on_read(name, lease, now),
        (Call::ReadTable, Some(Answer::Table(history, table))) => {
            member.on_table_read(history, table, sent, now);
        }
        (Call::WriteTable(..), Some(Answer::Table(_, Some(table)))) => {
            member.on_table_written(table, sent, now);
        }
        (Call::WriteTable(..), answer) => member.on_table_failed(sent, now, answer.is_some()),
        (Call::Kill(kill), Some(Answer::Lease(Some(lease)))) => {
            member.on_killed(&kill.member, lease, now);
        }
        (Call::Remove(kill), Some(Answer::Removed)) => member.peers.on_read(&kill.member, None, now),
        (Call::Kill(kill) | Call::Remove(kill), answer) => {
            member.peers.on_failure(&kill.member);
            member.on_failure(sent, now, answer.is_some());
        }
        (Call::ReadLease(_) | Call::ReadTable, _) => member.on_failure(sent, now, false),
    }
}

/// Returns whether a member may act for a slot.
pub(super) fn acts(member: &Member, slot: Slot, now: Instant) -> bool {
    member.valid_until().is_some_and(|until| now < until)
        && member.slots().get(&slot).is_some_and(|held| held.phase != Phase::Ended)
}

/// Checks that the caches of a member contain the last write of another member before a reconcile.
pub(super) fn check_caches(member: &Member, slot: Slot, last: Option<&(String, u64)>) -> Result<(), String> {
    let name = member.name();
    let Some((writer, version)) = last.filter(|(writer, _)| writer != name) else { return Ok(()) };
    let required = member.written().get(&slot).map(|written| written.version(RESOURCE));
    let is_visible = match &required {
        Some(None) => true, // the latest state
        Some(Some(reached)) => reached.at_least(&(*version).into()),
        None => false,
    };
    is_visible.then_some(()).ok_or_else(|| {
        format!("{name} requires {required:?} for slot {slot} after the write {version} of {writer}")
    })
}
