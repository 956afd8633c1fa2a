//! `Replica`: an additional API server over the same storage.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::http::backend::Backend;
use crate::http::listen::Listening;
use crate::http::service::ApiService;
use crate::server::Server;
use crate::state::cache::Cache;
use crate::storage::watch_cache::Lag;

/// Represents an additional API server over the same storage. It has a separate watch cache that may
/// lag.
///
/// - The watch cache serves LIST with `resourceVersion=0` or `resourceVersionMatch=NotOlderThan`, GET
///   with a resourceVersion, and every WATCH.
/// - A LIST without a resourceVersion waits up to 3 s until the watch cache is up to date. After this
///   time, it reads from the storage.
/// - A LIST, GET or streaming list at a resourceVersion that the watch cache has not reached waits up to
///   3 s. After this time, the server rejects it with "Too large resource version".
/// - Writes, GET without a resourceVersion, LIST with `resourceVersionMatch=Exact`, and further pages of
///   a list use the storage.
///
/// A clone is another handle to the same replica. The watch cache is dropped with the last handle,
/// service and watch of the replica.
#[derive(Clone, Debug)]
pub struct Replica {
    server: Server,
    cache: Arc<Cache>,
}

impl Server {
    /// Adds an API server over the same storage, whose watch cache lags by `lag`. The watch cache starts
    /// with this lag, as far back as the history reaches. With [`Lag::Frozen`], it starts with the
    /// current state.
    pub fn replica(&self, lag: Lag) -> Replica {
        Replica { server: self.clone(), cache: Arc::new(Cache::add(&self.shared, lag)) }
    }

    /// Returns this API server itself as a replica, for example for
    /// [`Replicas::new`](crate::Replicas::new).
    pub fn primary_replica(&self) -> Replica {
        Replica { server: self.clone(), cache: self.shared.cache.clone() }
    }
}

impl Replica {
    /// Returns this replica as a [`tower::Service`](tower_service::Service).
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
        Listening::bind(self.server.shared.clone(), self.front(), addr).await
    }

    /// Serves this replica over TLS, like [`Server::listen_tls`].
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, or if no certificate can be created.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the address is released.
    #[cfg(feature = "tls")]
    pub async fn listen_tls(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        Listening::bind_tls(self.server.shared.clone(), self.front(), addr).await
    }

    /// Returns the number of the replica in the journal. The server itself has number 0.
    pub fn number(&self) -> u64 {
        self.cache.id().number()
    }

    /// Returns the resourceVersion up to which the watch cache of the replica has seen all events.
    pub fn resource_version(&self) -> u64 {
        self.cache.position(&self.server.shared)
    }

    /// Changes the lag of the watch cache. The watch cache never returns to an older state. If the lag
    /// increases, the watch cache stops until it has the new lag.
    pub fn set_lag(&self, lag: Lag) {
        self.server.shared.lag(self.cache.id(), lag);
    }

    /// Restarts the replica. Its watches break, and its watch cache starts with the current state.
    /// Watches from an older resourceVersion then fail with 410. Lists that read from the storage are
    /// not affected.
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
