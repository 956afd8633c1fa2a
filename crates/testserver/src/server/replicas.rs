//! Load balancing: several replicas behind one address.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::http::backend::{Backend, Balance, LoadBalancing};
use crate::http::listen::Listening;
use crate::http::service::ApiService;
use crate::server::Server;
use crate::server::replica::Replica;

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

impl Replicas {
    /// Combines `first` and `others`, which must be replicas of the same server.
    pub fn new(first: &Replica, others: impl IntoIterator<Item = Replica>, balancing: LoadBalancing) -> Self {
        let others = others.into_iter().map(|replica| replica.cache().clone()).collect();
        let balance = Balance::new(first.cache().clone(), others, balancing);
        Self { server: first.server().clone(), balance: Arc::new(balance) }
    }

    /// Returns all replicas as one [`tower::Service`](tower_service::Service), which distributes the
    /// requests.
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
        Listening::bind(self.server.shared.clone(), Backend::Several(self.balance.clone()), addr).await
    }
}
