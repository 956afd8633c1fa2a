//! The loop that reads and writes the table, observes the other members and kills dead ones.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use futures_util::StreamExt;
use kube_client::core::DynamicObject;
use kube_informer::{Informer, ResourceVersion};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{
    lease_client::RequestFailure,
    lease_objects::{is_member_name, parse_member, parse_table},
    member::{Phase, Step, StoredTable},
    own_lease::MemberLease,
    sharding::Group,
};
use crate::election::seed_of;

/// The maximum delay after a conflict, for each member of the group.
const CONFLICT_DELAY: Duration = Duration::from_millis(10);
/// The maximum delay after a conflict. A slot that moves has no owner in this time.
const MAX_CONFLICT_DELAY: Duration = Duration::from_millis(100);

/// Takes part until `stop` is cancelled and all slots are released.
pub(super) async fn run(group: &Group, stop: &CancellationToken) {
    let informer = group.leases.informer();
    let mut events = informer.events();
    let mut filled = group.shared.filled.subscribe();
    let mut stopped_at = None;
    let mut rng = Rng::with_seed(seed_of(group.member.lock().name()));
    loop {
        let (now, is_draining) = (Instant::now(), group.shared.draining.is_cancelled());
        if is_draining {
            group.member.lock().drain();
        }
        if stop.is_cancelled() {
            let stopped_at = *stopped_at.get_or_insert(now);
            let mut member = group.member.lock();
            if now >= stopped_at + group.options.drain_timeout {
                member.leave();
            } else {
                member.drain();
            }
            // Without a valid Lease, the slots cannot be released, and no work may run.
            let has_expired = member.is_leaving() && member.valid_until().is_none_or(|until| now >= until);
            if member.has_left() || has_expired {
                break;
            }
        }
        let slots_in_cache = *filled.borrow_and_update();
        let step = {
            let mut member = group.member.lock();
            member.set_filled(slots_in_cache);
            member.next_step(now)
        };
        group.publish();
        group.wake_lease_loop.notify_one();
        if end_slots(group) {
            continue;
        }
        let Step::Wait(until) = step else {
            request(group, step, &informer, &mut rng).await;
            continue;
        };
        let leaves_at = stopped_at.map(|at| at + group.options.drain_timeout).filter(|at| *at > now);
        tokio::select! {
            Some(_) = events.next() => observe(group, &informer),
            // `Shared` keeps the sender, so the channel is never closed.
            _ = filled.changed() => {}
            () = group.shared.ended.notified() => {}
            () = group.wake_table_loop.notified() => {}
            () = stop.cancelled(), if stopped_at.is_none() => {}
            () = group.shared.draining.cancelled(), if !is_draining => {}
            () = sleep_until(leaves_at.map_or(until, |at| at.min(until))) => {}
        }
    }
    informer.stop().await;
}

/// Completes the stopping slots without running work. Returns whether such slots exist.
fn end_slots(group: &Group) -> bool {
    let mut member = group.member.lock();
    let slots = member.slots().iter().map(|(slot, held)| (*slot, *held));
    let ended = slots
        .filter(|(slot, held)| held.phase == Phase::Stopping && !group.shared.is_running(*slot, held.epoch));
    let ended: Vec<_> = ended.collect();
    for (slot, held) in &ended {
        member.on_ended(*slot, held.epoch, group.shared.take_term(*slot, held.epoch));
    }
    !ended.is_empty()
}

/// Handles the Leases in the cache.
fn observe(group: &Group, informer: &Informer<DynamicObject>) {
    let leases = informer.lister().list_all();
    let mut member = group.member.lock();
    let (now, own) = (Instant::now(), member.name().to_owned());
    let mut table = None;
    let mut absent: Vec<String> = member.peers.names().map(str::to_owned).collect();
    for lease in leases.iter() {
        let name = lease.metadata.name.as_deref().unwrap_or_default();
        absent.retain(|absent| absent != name);
        if name == group.options.name {
            table = Some(parse_table(lease));
        } else if name != own && is_member_name(&group.options.name, name) {
            member.peers.on_event(name, Some(parse_member(lease)), now);
        }
    }
    for name in absent {
        member.peers.on_event(&name, None, now);
    }
    member.on_table_event(table, now);
}

/// Returns whether the watch delivers events. The renewals of the own Lease are also events.
fn is_watching(group: &Group, informer: &Informer<DynamicObject>) -> bool {
    let last_event = informer.reflector_status().borrow().last_event;
    last_event.is_some_and(|at| at.elapsed() < 2 * group.options.times.retry_period)
}

type TableRead = ((ResourceVersion, Option<StoredTable>), Option<BTreeMap<String, MemberLease>>);

/// Reads the table, and also the other members if the watch does not deliver them.
async fn read(group: &Group, informer: &Informer<DynamicObject>) -> Result<TableRead, RequestFailure> {
    let members = if is_watching(group, informer) { None } else { Some(group.leases.list_members().await?) };
    Ok((group.leases.read_table().await?, members))
}

/// Returns the random delay after a conflict. If a member joins, all members release slots at the same time.
/// Without a delay, each of them would need as many writes as there are members.
fn conflict_delay(group: &Group, rng: &mut Rng) -> Duration {
    let members = group.member.lock().peers.names().count() + 1;
    let max = CONFLICT_DELAY.saturating_mul(u32::try_from(members).unwrap_or(u32::MAX));
    max.min(MAX_CONFLICT_DELAY).mul_f64(rng.f64())
}

/// Sends one request and handles its response.
async fn request(group: &Group, step: Step, informer: &Informer<DynamicObject>, rng: &mut Rng) {
    let (leases, sent) = (&group.leases, Instant::now());
    let failure = match step {
        Step::Wait(_) | Step::Dead => return std::future::pending().await, // the other loop returns
        Step::ReadTable => match read(group, informer).await {
            Ok(((history, table), members)) => {
                let (mut member, now) = (group.member.lock(), Instant::now());
                if let Some(members) = members {
                    member.peers.on_list(members, now);
                }
                return member.on_table_read(history, table, sent, now);
            }
            Err(failure) => failure,
        },
        Step::WriteTable { over, table } => match leases.write_table(over.as_ref(), &table).await {
            Ok(written) => return group.member.lock().on_table_written(written, sent, Instant::now()),
            Err(failure) => {
                leases.log(&failure);
                let is_conflict = failure.is_conflict();
                group.member.lock().on_table_failed(sent, Instant::now(), is_conflict);
                if is_conflict {
                    sleep(conflict_delay(group, rng)).await;
                }
                return;
            }
        },
        Step::ReadPeer(name) => match leases.read_member(&name).await {
            Ok(lease) => return group.member.lock().peers.on_read(&name, lease, Instant::now()),
            Err(failure) => failure,
        },
        Step::Kill(kill) => match leases.kill(&kill).await {
            Ok(lease) => {
                tracing::warn!(group = %group.key(), member = %kill.member, "a member did not renew its Lease; other members take its slots");
                return group.member.lock().on_killed(&kill.member, lease, Instant::now());
            }
            Err(failure) => {
                group.member.lock().peers.on_failure(&kill.member);
                failure
            }
        },
        Step::Remove(kill) => match leases.remove(&kill).await {
            Ok(()) => return group.member.lock().peers.on_read(&kill.member, None, Instant::now()),
            Err(failure) => {
                group.member.lock().peers.on_failure(&kill.member);
                failure
            }
        },
    };
    leases.log(&failure);
    group.member.lock().on_failure(sent, Instant::now(), failure.is_conflict());
}
