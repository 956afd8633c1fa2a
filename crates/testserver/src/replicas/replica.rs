//! `Replica`: one more API server over the same storage.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::http::listen::Listening;
use crate::http::service::ApiService;
use crate::replicas::{Cache, Front};
use crate::server::Server;
use crate::storage::watch_cache::Lag;

/// One more API server over the same storage, whose watch cache may lag behind.
///
/// From its cache come LIST at version 0 and at NotOlderThan, GET at a version, and every WATCH. What has to be up to
/// date waits up to 3 s for the cache: a LIST without a version is then answered from storage, a version that the cache
/// has not reached is refused as too large. Writes, LIST at Exact and `continue` go to storage.
///
/// Cloning gives another handle. When all handles, services and watches of a replica are gone, so is its cache.
#[derive(Clone, Debug)]
pub struct Replica {
    server: Server,
    cache: Arc<Cache>,
}

impl Server {
    /// One more API server over the same storage: as if it had lagged like this all along, as far as history reaches.
    pub fn replica(&self, lag: Lag) -> Replica {
        Replica { server: self.clone(), cache: Arc::new(Cache::add(&self.shared, lag)) }
    }

    /// The API server that this handle itself stands for, as a replica.
    pub fn itself(&self) -> Replica {
        Replica { server: self.clone(), cache: self.shared.cache.clone() }
    }
}

impl Replica {
    /// This replica as a [`tower::Service`].
    pub fn service(&self) -> ApiService {
        ApiService::new(self.server.shared.clone(), self.front(), self.server.never.subscribe())
    }

    /// Serves this replica on a TCP address, as [`Server::listen`] does.
    ///
    /// # Errors
    /// When the address can't be bound.
    ///
    /// # Cancel safety
    /// Dropped before it returns, nothing listens.
    pub async fn listen(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        Listening::bind(self.server.shared.clone(), self.front(), addr, false).await
    }

    /// Serves this replica on TLS, as [`Server::listen_tls`] does.
    ///
    /// # Errors
    /// When the address can't be bound, or no certificate can be made.
    ///
    /// # Cancel safety
    /// Dropped before it returns, nothing listens.
    pub async fn listen_tls(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        Listening::bind(self.server.shared.clone(), self.front(), addr, true).await
    }

    /// Its number in the journal; the server itself has 0.
    pub fn number(&self) -> u64 {
        self.cache.id().number()
    }

    /// The latest version that it has seen.
    pub fn resource_version(&self) -> u64 {
        self.cache.position(&self.server.shared)
    }

    /// Lets it lag like this from now on. What it has seen it does not forget: with a greater lag it stands still until
    /// the lag is reached.
    pub fn set_lag(&self, lag: Lag) {
        self.server.shared.lag(self.cache.id(), lag);
    }

    /// Starts it anew: its watches break, and its cache begins with the present state, so that no watch can start from
    /// an earlier version. What lists read from storage stays.
    pub fn restart(&self) {
        self.server.shared.restart(self.cache.id());
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    fn front(&self) -> Front {
        Front::One(self.cache.clone())
    }
}
