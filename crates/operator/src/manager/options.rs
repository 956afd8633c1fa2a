//! What a manager is told.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use crate::ElectionOptions;

/// What a manager is told.
#[derive(Clone, Debug)]
pub struct ManagerOptions {
    /// Where metrics, health and debug pages are served: port 8080 of the loopback address unless set, so that nobody else
    /// sees them; `None` for nowhere. Port 0 is one that is free: see [`Manager::local_address`](crate::Manager::local_address).
    pub bind_address: Option<SocketAddr>,
    /// Where `/healthz` and `/readyz` alone are served, too: nowhere unless set. The kubelet asks from outside of the Pod, and
    /// needs an address that is not the loopback one. There they show what was looked at and whether it is well; why it is
    /// not is said at `address`.
    pub probe_address: Option<SocketAddr>,
    /// The election that decides which process works; none unless set, and each works.
    pub election: Option<ElectionOptions>,
    /// How long the first lists of all caches may take: two minutes unless set.
    pub cache_sync_timeout: Duration,
    /// How long runs that are under way are waited for at the end: 20 seconds unless set. Then they are dropped, and the lease is
    /// left to expire. The rest of the end takes up to 9 seconds more, and the kubelet kills after 30.
    pub graceful_shutdown_timeout: Duration,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            bind_address: Some((Ipv4Addr::LOCALHOST, 8080).into()),
            probe_address: None,
            election: None,
            cache_sync_timeout: Duration::from_secs(120),
            graceful_shutdown_timeout: Duration::from_secs(20),
        }
    }
}

/// Which processes a controller or a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// The one that leads.
    LeaderOnly,
    /// Each of them.
    EveryReplica,
}
