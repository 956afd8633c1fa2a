//! The options of a manager.

use std::time::Duration;

use crate::ElectionOptions;

/// Configures a [`Manager`](crate::Manager).
#[derive(Clone, Debug)]
pub struct ManagerOptions {
    /// Address of the metrics, health and debug pages. `None` disables them. Default: port 8080 of the
    /// loopback address, which other hosts cannot read. Port 0 selects a free port; see
    /// [`Manager::local_address`](crate::Manager::local_address).
    #[cfg(feature = "http")]
    pub bind_address: Option<std::net::SocketAddr>,
    /// Additional address that serves only `/healthz` and `/readyz`. Default: `None`. The kubelet
    /// connects from outside of the Pod and cannot reach a loopback address. The pages at this address
    /// contain the results of the checks without texts. The pages at
    /// [`bind_address`](Self::bind_address) contain texts.
    #[cfg(feature = "http")]
    pub probe_address: Option<std::net::SocketAddr>,
    /// The election that decides which process is the leader. Default: `None`; then every process acts
    /// as leader.
    pub election: Option<ElectionOptions>,
    /// Time limit for the initial lists of all caches. Default: 2 minutes.
    pub cache_sync_timeout: Duration,
    /// Time limit for reconciles and tasks after a stop. Then the manager aborts them and lets the
    /// lease expire. Default: 20 s. The remaining shutdown takes up to 9 s, and the kubelet kills the
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
    /// Only the leader runs it.
    LeaderOnly,
    /// Every process runs it.
    EveryReplica,
}
