//! `Replica`: an additional API server over the same storage.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::http::listen::Listening;
use crate::http::service::ApiService;
use crate::replicas::{Backend, Cache};
use crate::server::Server;
use crate::storage::watch_cache::Lag;

/// Represents an additional API server over the same storage, with a separate watch cache that may lag.
///
/// Its cache serves LIST with resourceVersion 0 or NotOlderThan, GET with a version, and every WATCH. Reads
/// that must be up to date wait up to 3 s for the cache. After that, a LIST without a version is served
/// from storage, and a version that the cache has not reached is rejected as too large. Writes, LIST with
/// Exact, and `continue` use the storage.
///
/// A clone is another handle. The cache is dropped with the last handle, service and watch of the replica.
#[derive(Clone, Debug)]
pub struct Replica {
    server: Server,
    cache: Arc<Cache>,
}

impl Server {
    /// Adds an API server over the same storage, as if it had always lagged by `lag`, as far back as the
    /// history reaches.
    pub fn replica(&self, lag: Lag) -> Replica {
        Replica { server: self.clone(), cache: Arc::new(Cache::add(&self.shared, lag)) }
    }

    /// Returns the API server behind this handle as a replica.
    pub fn primary_replica(&self) -> Replica {
        Replica { server: self.clone(), cache: self.shared.cache.clone() }
    }
}

impl Replica {
    /// Returns this replica as a [`tower::Service`].
    pub fn service(&self) -> ApiService {
        ApiService::new(self.server.shared.clone(), self.front(), self.server.never.subscribe())
    }

    /// Serves this replica on a TCP address, like [`Server::listen`].
    ///
    /// # Errors
    /// Returns the I/O error if the address cannot be bound.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the address is released.
    pub async fn listen(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        Listening::bind(self.server.shared.clone(), self.front(), addr, false).await
    }

    /// Serves this replica over TLS, like [`Server::listen_tls`].
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, or if no certificate can be created.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the address is released.
    pub async fn listen_tls(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        Listening::bind(self.server.shared.clone(), self.front(), addr, true).await
    }

    /// Returns the number of the replica in the journal; the server itself has number 0.
    pub fn number(&self) -> u64 {
        self.cache.id().number()
    }

    /// Returns the latest resourceVersion that the replica has seen.
    pub fn resource_version(&self) -> u64 {
        self.cache.position(&self.server.shared)
    }

    /// Changes the lag. The position of the replica does not move back: if the lag grows, the position
    /// stays until the new lag is reached.
    pub fn set_lag(&self, lag: Lag) {
        self.server.shared.lag(self.cache.id(), lag);
    }

    /// Restarts the replica. Its watches break, and its cache starts with the current state. No watch can
    /// then start from an earlier version. Lists that read from storage are not affected.
    pub fn restart(&self) {
        self.server.shared.restart(self.cache.id());
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    fn front(&self) -> Backend {
        Backend::One(self.cache.clone())
    }
}
