//! Disruptions of the entire server.

use jiff::SignedDuration;

use crate::faults::{FaultKind, RequestMatch};
use crate::read::open_watches::Command;
use crate::state::{Shared, State};
use crate::status::Status;
use crate::storage::log::{Compacted, Expiry};
use crate::storage::watch_cache::{CacheId, Lag};

/// Describes a disruption of the entire server. [`crate::Server`] also has a method for each disruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disruption {
    /// Removes all history, for lists and for watches. See [`Server::compact`](crate::Server::compact).
    Compact,
    /// Compacts etcd up to the current resourceVersion. See
    /// [`Server::expire_lists`](crate::Server::expire_lists).
    ExpireLists,
    /// Removes all events from the watch cache. See
    /// [`Server::expire_watches`](crate::Server::expire_watches).
    ExpireWatches,
    /// Closes every open watch with an ERROR event that reports Expired (410). The clients must list
    /// again.
    FailWatches,
    /// Restarts the server. Its watches break, and its watch cache starts with the current state. See
    /// [`Server::restart`](crate::Server::restart).
    Restart,
    /// Restores etcd from a backup. The last writes are lost, and the server uses their resourceVersions
    /// again. See [`Server::restore`](crate::Server::restore).
    Restore {
        /// The number of revisions to lose. If the history is shorter, the server restores the oldest
        /// revision in the history.
        back: u64,
    },
    /// Restores etcd like `etcdutl snapshot restore --bump-revision --mark-compacted`. All history is
    /// expired. If `bump` is greater than `back`, no resourceVersion is used twice. See
    /// [`Server::restore_bumped`](crate::Server::restore_bumped).
    RestoreBumped {
        /// The number of revisions to lose. If the history is shorter, the server restores the oldest
        /// revision in the history.
        back: u64,
        /// The number that is added to the restored revision.
        bump: u64,
    },
    /// Sets the lag of the watch cache behind etcd.
    Lag(Lag),
    /// Moves the clock for the timestamps in objects. Timers are not affected.
    JumpClock(SignedDuration),
}

impl Disruption {
    /// Returns the kind of this disruption, without the parameters.
    pub fn kind(self) -> FaultKind {
        match self {
            Self::Compact => FaultKind::Compact,
            Self::ExpireLists => FaultKind::ExpireLists,
            Self::ExpireWatches => FaultKind::ExpireWatches,
            Self::FailWatches => FaultKind::FailWatches,
            Self::Restart => FaultKind::Restart,
            Self::Restore { .. } => FaultKind::Restore,
            Self::RestoreBumped { .. } => FaultKind::RestoreBumped,
            Self::Lag(_) => FaultKind::Lag,
            Self::JumpClock(_) => FaultKind::JumpClock,
        }
    }
}

impl Shared {
    /// Executes a disruption.
    pub(crate) fn disrupt(&self, disruption: Disruption) {
        match disruption {
            Disruption::Compact => self.expire(Expiry::Both, u64::MAX),
            Disruption::ExpireLists => self.expire(Expiry::Lists, u64::MAX),
            Disruption::ExpireWatches => self.expire(Expiry::Watches, u64::MAX),
            Disruption::FailWatches => {
                self.fail_watches(&RequestMatch::any(), Status::expired());
            }
            Disruption::Restart => self.restart(CacheId::MAIN),
            Disruption::Restore { back } => self.restore_back(back, 0),
            Disruption::RestoreBumped { back, bump } => self.restore_back(back, bump),
            Disruption::Lag(lag) => self.lag(CacheId::MAIN, lag),
            Disruption::JumpClock(by) => self.config.clock.jump(by),
        }
    }

    /// Stops the lasting effects of a disruption.
    pub(crate) fn heal(&self, disruption: Disruption) {
        if let Disruption::Lag(_) = disruption {
            self.lag(CacheId::MAIN, Lag::None);
        }
    }

    /// Removes history up to and including this version.
    pub(crate) fn expire(&self, expiry: Expiry, up_to: u64) {
        self.write(|state| state.store.expire(expiry, up_to));
    }

    /// Restarts a watch cache, and breaks the watches that it serves.
    pub(crate) fn restart(&self, cache: CacheId) {
        self.write(|state| {
            state.store.restart_cache(cache);
            self.open.send_command(&Command::Abort, |request| request.replica == cache.number());
        });
        self.stir();
    }

    pub(crate) fn lag(&self, cache: CacheId, lag: Lag) {
        self.write(|state| state.store.lag(cache, lag));
        self.stir();
    }

    /// Restores the state `back` revisions ago, or the oldest one in the history, and adds `bump` to
    /// the revision.
    fn restore_back(&self, back: u64, bump: u64) {
        self.write(|state| {
            let version = state.store.revision().saturating_sub(back).max(state.store.oldest());
            // The history contains the oldest version, so this cannot fail.
            let _ = self.restore_in(state, version, bump);
        });
    }

    /// Restores the state of a version, and adds `bump` to the revision.
    pub(crate) fn restore(&self, version: u64, bump: u64) -> Result<(), Status> {
        self.write(|state| self.restore_in(state, version, bump)).map_err(|_| Status::list_expired())
    }

    /// Also breaks all watches. Otherwise a watch could send new events with the versions of lost events.
    fn restore_in(&self, state: &mut State, version: u64, bump: u64) -> Result<(), Compacted> {
        state.store.restore(version)?;
        self.open.send_command(&Command::Abort, |_| true);
        crate::crd::serve::serve_restored(state, self);
        if bump > 0 {
            state.store.bump(bump);
        }
        Ok(())
    }

    /// Closes the watches that `matches` selects with an ERROR event. Returns the number of these
    /// watches.
    pub(crate) fn fail_watches(&self, matches: &RequestMatch, status: Status) -> usize {
        self.open.send_command(&Command::Fail(status), |request| matches.selects(request))
    }
}
