//! What can happen to the whole server between two requests.

use jiff::SignedDuration;

use crate::faults::{FaultKind, RequestMatch};
use crate::read::open_watches::Command;
use crate::state::{Shared, State};
use crate::status::Status;
use crate::storage::log::{Compacted, Expiry};
use crate::storage::watch_cache::{CacheId, Lag};

/// What can happen to the whole server. Each has a method of [`crate::Server`], too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disruption {
    /// All history is forgotten, for lists and for watches.
    Compact,
    /// etcd is compacted up to the present version: earlier versions and pages of lists that began earlier are expired.
    /// Watches go on from the watch cache.
    ExpireLists,
    /// The watch cache forgets all events: no watch can start from an earlier version. Lists of earlier versions go on.
    ExpireWatches,
    /// Every open watch is told that its version is too old, so that its client lists anew.
    FailWatches,
    /// The server starts anew: watches break, and the watch cache begins with the present state.
    Restart,
    /// etcd is restored from a backup: the last writes are lost, and their versions will be given again.
    Restore {
        /// So many revisions are lost; fewer where history is shorter.
        back: u64,
    },
    /// The same with `etcdutl snapshot restore --bump-revision --mark-compacted`: versions go on, far ahead of all that
    /// were given, and all history is expired.
    RestoreBumped {
        /// So many revisions are lost; fewer where history is shorter.
        back: u64,
        /// The revision goes up by so many from the restored one.
        bump: u64,
    },
    /// The watch cache lags like this from now on.
    Lag(Lag),
    /// The clock of timestamps in objects jumps; timers do not.
    JumpClock(SignedDuration),
}

impl Disruption {
    /// What it is, without its numbers.
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
    /// Lets it happen.
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

    /// Ends what goes on by itself after a disruption.
    pub(crate) fn heal(&self, disruption: Disruption) {
        if let Disruption::Lag(_) = disruption {
            self.lag(CacheId::MAIN, Lag::None);
        }
    }

    /// Forgets history up to and including this version.
    pub(crate) fn expire(&self, expiry: Expiry, up_to: u64) {
        self.write(|state| state.store.expire(expiry, up_to));
    }

    /// Breaks the watches that a cache serves, which begins anew.
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

    /// Goes back by as much as was asked for and history has, and up again by the bump, if any.
    fn restore_back(&self, back: u64, bump: u64) {
        self.write(|state| {
            let version = state.store.revision().saturating_sub(back).max(state.store.oldest());
            // The history reaches to the oldest version.
            let _ = self.restore_in(state, version, bump);
        });
    }

    /// Goes back to this version, and up again by the bump, if any.
    pub(crate) fn restore(&self, version: u64, bump: u64) -> Result<(), Status> {
        self.write(|state| self.restore_in(state, version, bump)).map_err(|_| Status::list_expired())
    }

    /// The watches break in the same step, so that none takes the new events under the versions of lost ones.
    fn restore_in(&self, state: &mut State, version: u64, bump: u64) -> Result<(), Compacted> {
        state.store.restore(version)?;
        self.open.send_command(&Command::Abort, |_| true);
        crate::crd::serve::start_again(state, self);
        if bump > 0 {
            state.store.bump(bump);
        }
        Ok(())
    }

    /// Ends the watches that `matches` picks with an ERROR event; gives how many there were.
    pub(crate) fn fail_watches(&self, matches: &RequestMatch, status: Status) -> usize {
        self.open.send_command(&Command::Fail(status), |request| matches.selects(request))
    }
}
