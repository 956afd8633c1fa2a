//! `Leadership` reports whether this process may act, according to its own clock.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// State of the lease, as this process observes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaderState {
    /// No election exists; this process is always the leader.
    NoElection,
    /// This process is the leader until this time. A renewal replaces the time.
    Leading(Instant),
    /// This process is not the leader. Contains the identity of the leader if it is known.
    Following(Option<String>),
    /// No process is the leader: this holder of the lease did not renew it in time.
    Expired(String),
    /// This process no longer takes part in the election.
    Ended,
}

/// Reports whether this process is the leader. All clones refer to the same lease.
///
/// [`Manager::leadership`](crate::Manager::leadership) and
/// [`Election::leadership`](crate::Election::leadership) return this type.
///
/// A process is the leader for [`LeaseTimes::renew_deadline`](crate::LeaseTimes::renew_deadline) after it
/// sent the last accepted renewal. Each call compares this time with the clock of the process, and does not
/// depend on a background task. If a process is paused for longer, the first call after the pause already
/// reports that the process is not the leader.
///
/// The clock is the monotonic clock of the system (`CLOCK_MONOTONIC` on Linux). This clock may stop
/// while the machine is suspended, for example when a virtual machine is saved or migrated. After the
/// machine resumes, this process and another process can both be the leader, for at most the renew
/// deadline. If this is not acceptable, make writes to other systems conditional.
#[derive(Clone, Debug)]
pub struct Leadership {
    state: watch::Receiver<LeaderState>,
}

/// Reports that a write was not sent, because this process is not the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write not sent: this process is not the leader")]
pub struct NotLeading;

/// Reports that the lease expired while a write was in flight. The write was cancelled, and the server
/// may have applied it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "write cancelled: the lease expired while the request was in flight; the server may have applied the write"
)]
pub struct LeaseExpired;

impl Leadership {
    pub(crate) fn new(state: watch::Receiver<LeaderState>) -> Self {
        Self { state }
    }

    /// Returns a leadership that is never lost, for a process without an election.
    pub fn always() -> Self {
        Self { state: watch::channel(LeaderState::NoElection).1 }
    }

    /// Returns whether this process is the leader now.
    pub fn is_leader(&self) -> bool {
        match *self.state.borrow() {
            LeaderState::NoElection => true,
            LeaderState::Leading(until) => Instant::now() < until,
            LeaderState::Following(_) | LeaderState::Expired(_) | LeaderState::Ended => false,
        }
    }

    /// Returns the time since the lease expired, if the election has not noticed it yet.
    pub(crate) fn expired_for(&self) -> Option<Duration> {
        match *self.state.borrow() {
            LeaderState::Leading(until) => Instant::now().checked_duration_since(until),
            _ => None,
        }
    }

    /// Returns whether [`Election::run`](crate::Election::run) was stopped.
    pub(crate) fn has_ended(&self) -> bool {
        *self.state.borrow() == LeaderState::Ended
    }

    /// Returns the identity of the leader if another process is the leader. Returns `None` if this
    /// process is the leader, if the leader is unknown, or if it did not renew the lease in time.
    pub fn other_leader(&self) -> Option<String> {
        match &*self.state.borrow() {
            LeaderState::Following(holder) => holder.clone(),
            _ => None,
        }
    }

    /// Returns the last holder of the lease if it did not renew the lease in time.
    pub fn expired_leader(&self) -> Option<String> {
        match &*self.state.borrow() {
            LeaderState::Expired(holder) => Some(holder.clone()),
            _ => None,
        }
    }

    /// Waits until this process is the leader, and returns `true`. Returns `false` if the election
    /// was stopped or dropped, because this process can then no longer become the leader.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn acquired(&self) -> bool {
        let may_return = |state: &LeaderState| match *state {
            LeaderState::NoElection | LeaderState::Ended => true,
            LeaderState::Leading(until) => Instant::now() < until,
            LeaderState::Following(_) | LeaderState::Expired(_) => false,
        };
        let mut changes = self.state.clone();
        changes.wait_for(may_return).await.is_ok_and(|state| *state != LeaderState::Ended)
    }

    /// Waits until this process is not the leader. Returns immediately if it is not the leader now.
    /// Never returns for [`Leadership::always`].
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn lost(&self) {
        let mut changes = self.state.clone();
        loop {
            let until = match *changes.borrow_and_update() {
                LeaderState::NoElection => break,
                LeaderState::Leading(until) if Instant::now() < until => until,
                _ => return,
            };
            tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() {
                    sleep_until(until).await; // the election was dropped and cannot renew the lease
                },
                () = sleep_until(until) => {}
            }
        }
        std::future::pending::<()>().await;
    }
}
