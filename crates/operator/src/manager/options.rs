//! The options of a manager.

use std::time::Duration;

use crate::ElectionOptions;

/// Configures a [`Manager`](crate::Manager).
#[derive(Clone, Debug)]
pub struct ManagerOptions {
    /// The address of the metrics, health and debug pages. `None` disables these pages.
    ///
    /// The default is port 8080 of the loopback address, which other hosts cannot reach. Port 0
    /// selects a free port, which [`Manager::local_address`](crate::Manager::local_address)
    /// returns.
    #[cfg(feature = "http")]
    pub bind_address: Option<std::net::SocketAddr>,
    /// An additional address that serves only `/healthz` and `/readyz`. The default is `None`.
    ///
    /// Use this address for the probes of the kubelet. The kubelet connects from outside of the Pod, and
    /// cannot reach a loopback address. At this address, the pages contain only the names and results of
    /// the checks. At [`bind_address`](Self::bind_address), they also contain error texts.
    #[cfg(feature = "http")]
    pub probe_address: Option<std::net::SocketAddr>,
    /// The election that decides which process is the leader. The default is `None`: every process acts
    /// as the leader.
    pub election: Option<ElectionOptions>,
    /// The time limit for the initial lists of all caches. If it expires, the manager stops with
    /// [`ManagerError::CacheSync`](crate::ManagerError::CacheSync). The default is 2 minutes.
    pub cache_sync_timeout: Duration,
    /// The grace period: the time limit for running reconciles and tasks after a stop. If it
    /// expires, the manager aborts them, and does not release the lease.
    ///
    /// The default is 20 s. The rest of the shutdown takes at most 9 s. By default, the kubelet kills a
    /// process after 30 s.
    pub graceful_shutdown_timeout: Duration,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            #[cfg(feature = "http")]
            bind_address: Some((std::net::Ipv4Addr::LOCALHOST, 8080).into()),
            #[cfg(feature = "http")]
            probe_address: None,
            election: None,
            cache_sync_timeout: Duration::from_secs(120),
            graceful_shutdown_timeout: Duration::from_secs(20),
        }
    }
}

/// Selects the processes in which a controller or a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// Only the leader runs the controller or task.
    LeaderOnly,
    /// Every process runs the controller or task.
    EveryReplica,
}
