//! The replicas behind one address.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::state::cache::Cache;

/// Selects the replica that serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadBalancing {
    /// Sends the first request to the first replica, the second request to the second replica, and so on
    /// in a cycle.
    RoundRobin,
    /// Sends each request to a random replica. The number is the seed.
    Random(u64),
    /// Assigns each connection to the next replica in a cycle. All requests of a connection go to this
    /// replica. A service that [`Replicas::service`](crate::Replicas::service) returns counts as one
    /// connection.
    PerConnection,
}

#[derive(Debug)]
pub(crate) struct Balance {
    first: Arc<Cache>,
    others: Vec<Arc<Cache>>,
    per_connection: bool,
    order: Mutex<Order>,
}

#[derive(Debug)]
enum Order {
    Next(usize),
    Drawn(fastrand::Rng),
}

impl Balance {
    pub(crate) fn new(first: Arc<Cache>, others: Vec<Arc<Cache>>, balancing: LoadBalancing) -> Self {
        let order = match balancing {
            LoadBalancing::RoundRobin | LoadBalancing::PerConnection => Order::Next(0),
            LoadBalancing::Random(seed) => Order::Drawn(fastrand::Rng::with_seed(seed)),
        };
        let per_connection = balancing == LoadBalancing::PerConnection;
        Self { first, others, per_connection, order: Mutex::new(order) }
    }

    fn next(&self) -> Arc<Cache> {
        let count = self.others.len() + 1;
        let at = match &mut *self.order.lock() {
            Order::Next(next) => std::mem::replace(next, (*next + 1) % count),
            Order::Drawn(rng) => rng.usize(..count),
        };
        at.checked_sub(1).and_then(|at| self.others.get(at)).unwrap_or(&self.first).clone()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Backend {
    One(Arc<Cache>),
    Several(Arc<Balance>),
}

impl Backend {
    /// Fixes the replica of one connection if the balancing is per connection.
    pub(crate) fn connection(&self) -> Self {
        match self {
            Self::Several(balance) if balance.per_connection => Self::One(balance.next()),
            other => other.clone(),
        }
    }

    pub(crate) fn next(&self) -> Arc<Cache> {
        match self {
            Self::One(cache) => cache.clone(),
            Self::Several(balance) => balance.next(),
        }
    }
}
