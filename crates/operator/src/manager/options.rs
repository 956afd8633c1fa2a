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
    /// sees them; `None` for nowhere. Port 0 is one that is free: see [`Manager::address`](crate::Manager::address).
    pub address: Option<SocketAddr>,
    /// Where `/healthz` and `/readyz` alone are served, too: nowhere unless set. The kubelet asks from outside of the Pod, and
    /// needs an address that is not the loopback one. There they show what was looked at and whether it is well; why it is
    /// not is said at `address`.
    pub probes: Option<SocketAddr>,
    /// The election that decides which process works; none unless set, and each works.
    pub election: Option<ElectionOptions>,
    /// How long the first lists of all caches may take: two minutes unless set.
    pub start_within: Duration,
    /// How long runs that are under way are waited for at the end: 20 seconds unless set. Then they are dropped, and the lease is
    /// left to expire. The rest of the end takes up to 9 seconds more, and the kubelet kills after 30.
    pub grace: Duration,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            address: Some((Ipv4Addr::LOCALHOST, 8080).into()),
            probes: None,
            election: None,
            start_within: Duration::from_secs(120),
            grace: Duration::from_secs(20),
        }
    }
}

/// Which processes a controller or a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// The one that leads.
    Leader,
    /// Each of them.
    All,
}
