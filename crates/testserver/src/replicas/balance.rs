//! Load balancing: several replicas behind one address.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::http::listen::Listening;
use crate::http::service::ApiService;
use crate::replicas::{Cache, Replica};
use crate::server::Server;

/// Selects the replica that serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadBalancing {
    /// Sends the first request to the first replica, the second request to the second replica, and so on
    /// in a cycle.
    RoundRobin,
    /// Sends each request to a random replica. The number is the seed.
    Random(u64),
    /// Assigns each connection to the next replica in a cycle. All requests of a connection go to this
    /// replica. A service that [`Replicas::service`] returns counts as one connection.
    PerConnection,
}

/// Combines several replicas of a server behind one address, like a load balancer.
///
/// ```
/// use kube_testserver::{Lag, Replicas, Server, LoadBalancing};
///
/// let server = Server::new();
/// let stale = server.replica(Lag::Revisions(10));
/// let both = Replicas::new(&server.primary_replica(), [stale], LoadBalancing::RoundRobin);
/// // kube_client::Client::new(both.service(), "default")
/// # drop(both.service());
/// ```
#[derive(Clone, Debug)]
pub struct Replicas {
    server: Server,
    balance: Arc<Balance>,
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

impl Replicas {
    /// Combines `first` and `others`, which must be replicas of the same server.
    pub fn new(first: &Replica, others: impl IntoIterator<Item = Replica>, balancing: LoadBalancing) -> Self {
        let order = match balancing {
            LoadBalancing::RoundRobin | LoadBalancing::PerConnection => Order::Next(0),
            LoadBalancing::Random(seed) => Order::Drawn(fastrand::Rng::with_seed(seed)),
        };
        let balance = Balance {
            first: first.cache().clone(),
            others: others.into_iter().map(|replica| replica.cache().clone()).collect(),
            per_connection: balancing == LoadBalancing::PerConnection,
            order: Mutex::new(order),
        };
        Self { server: first.server().clone(), balance: Arc::new(balance) }
    }

    /// Returns all replicas as one [`tower::Service`], which distributes the requests.
    pub fn service(&self) -> ApiService {
        let front = Backend::Several(self.balance.clone()).connection();
        ApiService::new(self.server.shared.clone(), front, self.server.never.subscribe())
    }

    /// Serves the replicas on one TCP address, like [`Server::listen`].
    ///
    /// # Errors
    /// Returns the I/O error if the address cannot be bound.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the address is released.
    pub async fn listen(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        Listening::bind(self.server.shared.clone(), Backend::Several(self.balance.clone()), addr, false).await
    }
}

impl Balance {
    fn next(&self) -> Arc<Cache> {
        let count = self.others.len() + 1;
        let at = match &mut *self.order.lock() {
            Order::Next(next) => std::mem::replace(next, (*next + 1) % count),
            Order::Drawn(rng) => rng.usize(..count),
        };
        at.checked_sub(1).and_then(|at| self.others.get(at)).unwrap_or(&self.first).clone()
    }
}

/// The replicas that a service sends its requests to.
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

    /// Returns the cache that serves the next request.
    pub(crate) fn next(&self) -> Arc<Cache> {
        match self {
            Self::One(cache) => cache.clone(),
            Self::Several(balance) => balance.next(),
        }
    }
}
