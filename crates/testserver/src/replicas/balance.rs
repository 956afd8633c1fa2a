//! Several replicas behind one address, and whose turn it is.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::http::listen::Listening;
use crate::http::service::ApiService;
use crate::replicas::{Cache, Replica};
use crate::server::Server;

/// Which replica answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// They take turns, request by request, from the first on.
    Alternate,
    /// Each request goes to one that is drawn from this seed.
    Seeded(u64),
    /// Connections take turns, from the first replica on, and stay with theirs. Without sockets each
    /// [`Replicas::service`] is a connection.
    PerConnection,
}

/// Several replicas of a server behind one address, as behind a load balancer.
///
/// ```
/// use kube_testserver::{Lag, Replicas, Server, Turn};
///
/// let server = Server::new();
/// let both = Replicas::new(&server.itself(), [server.replica(Lag::Revisions(10))], Turn::Alternate);
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
    /// These replicas, which must be of one server, behind one address.
    pub fn new(first: &Replica, others: impl IntoIterator<Item = Replica>, turn: Turn) -> Self {
        let order = match turn {
            Turn::Alternate | Turn::PerConnection => Order::Next(0),
            Turn::Seeded(seed) => Order::Drawn(fastrand::Rng::with_seed(seed)),
        };
        let balance = Balance {
            first: first.cache().clone(),
            others: others.into_iter().map(|replica| replica.cache().clone()).collect(),
            per_connection: turn == Turn::PerConnection,
            order: Mutex::new(order),
        };
        Self { server: first.server().clone(), balance: Arc::new(balance) }
    }

    /// The address as a [`tower::Service`].
    pub fn service(&self) -> ApiService {
        let front = Front::Several(self.balance.clone()).connection();
        ApiService::new(self.server.shared.clone(), front, self.server.never.subscribe())
    }

    /// Serves the replicas on one TCP address, as [`Server::listen`] does.
    ///
    /// # Errors
    /// When the address can't be bound.
    ///
    /// # Cancel safety
    /// Dropped before it returns, nothing listens.
    pub async fn listen(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        Listening::bind(self.server.shared.clone(), Front::Several(self.balance.clone()), addr, false).await
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

/// What a service stands for.
#[derive(Clone, Debug)]
pub(crate) enum Front {
    One(Arc<Cache>),
    Several(Arc<Balance>),
}

impl Front {
    /// The same for one connection.
    pub(crate) fn connection(&self) -> Self {
        match self {
            Self::Several(balance) if balance.per_connection => Self::One(balance.next()),
            other => other.clone(),
        }
    }

    /// The cache that answers the next request.
    pub(crate) fn next(&self) -> Arc<Cache> {
        match self {
            Self::One(cache) => cache.clone(),
            Self::Several(balance) => balance.next(),
        }
    }
}
