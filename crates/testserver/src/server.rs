//! `Server`: the handle that programs and tests hold.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;

use crate::access::control::Access;
use crate::builder::ServerBuilder;
use crate::http::listen::Listening;
use crate::http::service::ApiService;
use crate::journal::Journal;
use crate::state::Shared;

/// An API server in memory. Cloning gives another handle to the same server.
///
/// Reach it without a socket by [`Server::service`], over TCP by [`Server::listen`], or directly by the verbs
/// below, which go the same way as requests but are synchronous and not in the journal.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
    /// In-process services never shut down.
    pub(crate) never: Arc<watch::Sender<bool>>,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// A server with the defaults of [`ServerBuilder`].
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A server to be set up first.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The server as a [`tower::Service`], for `kube_client::Client::new(server.service(), "default")`.
    pub fn service(&self) -> ApiService {
        self.itself().service()
    }

    /// Serves HTTP/1.1, and HTTP/2 to who begins with it, on a TCP address; port 0 picks a free one.
    ///
    /// # Errors
    /// When the address can't be bound.
    ///
    /// # Cancel safety
    /// Dropped before it returns, nothing listens.
    pub async fn listen(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        self.itself().listen(addr).await
    }

    /// The same on TLS, where client and server agree on HTTP/2 or HTTP/1.1. The server's certificate is signed by
    /// an authority made for it, which is in [`Listening::kubeconfig`].
    ///
    /// # Errors
    /// When the address can't be bound, or no certificate can be made.
    ///
    /// # Cancel safety
    /// Dropped before it returns, nothing listens.
    pub async fn listen_tls(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        self.itself().listen_tls(addr).await
    }

    /// The latest resourceVersion.
    pub fn resource_version(&self) -> u64 {
        self.shared.revision()
    }

    /// Waits until a look at the server finds something: looks now and after each write. It waits for ever where nothing
    /// is found, so put a timeout around it.
    ///
    /// # Cancel safety
    /// Nothing is changed, so it may be dropped at any time.
    pub async fn until<T>(&self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        let mut revisions = self.shared.revisions();
        loop {
            revisions.mark_unchanged();
            if let Some(found) = look(self) {
                return found;
            }
            if revisions.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// What was asked so far.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// Who may do what: users and rules, which may change at any time.
    pub fn access(&self) -> &Access {
        &self.shared.access
    }
}
