//! Disruptions of the entire server.

use jiff::SignedDuration;

use crate::journal::FaultKind;
use crate::storage::watch_cache::Lag;

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
