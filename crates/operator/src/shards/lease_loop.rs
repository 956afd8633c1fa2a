//! The loop that renews the own Lease. It must not wait for any other request.

use tokio::time::{Instant, sleep_until};

use super::{own_lease::LeaseStep, sharding::Group};

/// Renews the own Lease. Returns if this member is dead.
pub(super) async fn run(group: &Group) {
    loop {
        let step = group.member.lock().own.next_step(Instant::now());
        let sent = Instant::now();
        match step {
            LeaseStep::Dead => return,
            LeaseStep::Wait(until) => {
                tokio::select! {
                    () = sleep_until(until) => {}
                    () = group.wake_lease_loop.notified() => {}
                }
                continue;
            }
            LeaseStep::Read => {
                let name = group.member.lock().name().to_owned();
                match group.leases.read_member(&name).await {
                    Ok(lease) => group.member.lock().on_own_read(lease, Instant::now()),
                    Err(failure) => {
                        group.leases.log(&failure);
                        group.member.lock().own.on_failure(sent, Instant::now());
                    }
                }
            }
            LeaseStep::Write { over, info } => match group.leases.write_member(over.as_ref(), info).await {
                Ok(lease) => group.member.lock().on_own_written(lease, info, sent, Instant::now()),
                Err(failure) => {
                    group.leases.log(&failure);
                    group.member.lock().own.on_failure(sent, Instant::now());
                }
            },
        }
        group.publish();
        group.wake_table_loop.notify_one();
    }
}
