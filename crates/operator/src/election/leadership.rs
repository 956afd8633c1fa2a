//! `Leadership`: whether this process may act, judged by its own clock.

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// What this process knows about its own lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaderState {
    /// No election exists; this process is always the leader.
    NoElection,
    /// This process leads until this time, if the lease is not renewed before.
    Leading(Instant),
    /// Another process holds the lease, if its name is known, or no process does.
    Following(Option<String>),
    /// This process no longer takes part in the election.
    Ended,
}

/// Answers whether this process is the leader. Clones share the same lease.
///
/// Each answer is computed from the process's own clock at the moment of the call. No task must have run before: a process
/// that was paused and resumes after its lease expired is a follower from its first instruction on.
///
/// The clock is the system's monotonic clock (`CLOCK_MONOTONIC` on Linux). It may stand still while a whole machine is
/// suspended, for example a virtual machine that is saved or migrated. A process on that machine still trusts the rest of its
/// lease when it resumes, even if another process has become leader.
#[derive(Clone, Debug)]
pub struct Leadership {
    state: watch::Receiver<LeaderState>,
}

/// A write was not sent, because this process is not the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write not sent: this process is not the leader")]
pub struct NotLeading;

/// The lease expired while a write was in flight. The write was cancelled, and the server may have applied it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write cancelled, result unknown: the lease expired while the request was in flight")]
pub struct LeaseExpired;

impl Leadership {
    pub(crate) fn new(state: watch::Receiver<LeaderState>) -> Self {
        Self { state }
    }

    /// Returns the leadership of a process without an election: it is always the leader.
    pub fn always() -> Self {
        Self { state: watch::channel(LeaderState::NoElection).1 }
    }

    /// Returns whether this process is the leader now.
    pub fn is_leader(&self) -> bool {
        match *self.state.borrow() {
            LeaderState::NoElection => true,
            LeaderState::Leading(until) => Instant::now() < until,
            LeaderState::Following(_) | LeaderState::Ended => false,
        }
    }

    /// Returns whether the election has ended in this process.
    pub(crate) fn has_ended(&self) -> bool {
        *self.state.borrow() == LeaderState::Ended
    }

    /// Returns the identity of the leader if it is another process and known.
    pub fn other_leader(&self) -> Option<String> {
        match &*self.state.borrow() {
            LeaderState::Following(holder) => holder.clone(),
            LeaderState::NoElection | LeaderState::Leading(_) | LeaderState::Ended => None,
        }
    }

    /// Waits until this process is the leader. Returns `false` if it never will be, because the election has ended.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn acquired(&self) -> bool {
        let may_return = |state: &LeaderState| match *state {
            LeaderState::NoElection | LeaderState::Ended => true,
            LeaderState::Leading(until) => Instant::now() < until,
            LeaderState::Following(_) => false,
        };
        let mut changes = self.state.clone();
        changes.wait_for(may_return).await.is_ok_and(|state| *state != LeaderState::Ended)
    }

    /// Waits until this process is not the leader. Returns immediately if it is not the leader now. Never returns if no
    /// election exists.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn lost(&self) {
        let mut changes = self.state.clone();
        loop {
            let until = match *changes.borrow_and_update() {
                LeaderState::NoElection => break,
                LeaderState::Leading(until) if Instant::now() < until => until,
                LeaderState::Leading(_) | LeaderState::Following(_) | LeaderState::Ended => return,
            };
            tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() {
                    sleep_until(until).await; // the election is gone and cannot renew the lease
                },
                () = sleep_until(until) => {}
            }
        }
        std::future::pending::<()>().await;
    }
}
