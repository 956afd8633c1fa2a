//! `Server`: the handle that programs and tests hold.

pub(crate) mod builder;
pub(crate) mod faults;
pub(crate) mod kubelet;
pub(crate) mod load;
pub(crate) mod outage;
pub(crate) mod plan;
mod recorded;
pub(crate) mod replica;
pub(crate) mod replicas;
pub(crate) mod snapshot;
#[cfg(feature = "kube")]
pub(crate) mod until;
mod verbs;
pub(crate) mod webhooks;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;

use crate::access::control::Access;
use crate::http::listen::Listening;
use crate::http::service::ApiService;
use crate::journal::Journal;
use crate::server::builder::ServerBuilder;
use crate::state::Shared;

/// Represents an API server in memory. A clone is a handle to the same server.
///
/// Clients connect without a socket through [`Server::service`], or over TCP through [`Server::listen`].
/// Methods such as [`Server::create`] and [`Server::get`] execute the same code as requests. These
/// methods are synchronous. The journal does not record them, and faults, users, rules and admission
/// webhooks do not apply to them.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
    /// Never signals a shutdown; in-process services run until they are dropped.
    pub(crate) never: Arc<watch::Sender<bool>>,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// Creates a server with the default settings of [`ServerBuilder`].
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder to configure a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Returns the server as a [`tower::Service`](tower_service::Service). Create a client with
    /// `kube_client::Client::new(server.service(), "default")`.
    pub fn service(&self) -> ApiService {
        self.primary_replica().service()
    }

    /// Serves HTTP/1.1 and HTTP/2 (with prior knowledge) on a TCP address. Port 0 selects a free port.
    ///
    /// The server closes a connection if the headers of the first request do not arrive within 30 s. The
    /// limits follow tokio's clock. If a test pauses that clock, set [`ServerBuilder::hold_paused_clock`].
    /// Otherwise, timeouts can expire at once.
    ///
    /// # Errors
    /// Returns the I/O error if the address cannot be bound.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the address is released.
    pub async fn listen(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        self.primary_replica().listen(addr).await
    }

    /// Serves HTTPS on a TCP address. Requires the feature `tls`. The client and the server negotiate HTTP/2
    /// or HTTP/1.1.
    ///
    /// A new certificate authority signs the certificate. [`Listening::kubeconfig`] contains the
    /// certificate of this authority. The server closes a connection if the TLS handshake takes longer
    /// than 10 s. See [`Server::listen`] for the first request and for paused clocks.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, or if no certificate can be created.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the address is released.
    #[cfg(feature = "tls")]
    pub async fn listen_tls(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        self.primary_replica().listen_tls(addr).await
    }

    /// Returns the latest resourceVersion of the server.
    pub fn resource_version(&self) -> u64 {
        self.shared.revision()
    }

    /// Waits until `look` returns a value. Calls `look` immediately and after each write.
    ///
    /// If `look` never returns a value, the future never completes. Use a timeout.
    ///
    /// # Cancel safety
    /// The future does not change any state. It can be dropped at any time.
    pub async fn wait_until<T>(&self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
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

    /// Returns the journal of all requests.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// Returns the users and the authorization rules, which can be changed at any time.
    pub fn access(&self) -> &Access {
        self.shared.follow_rbac();
        &self.shared.access
    }
}
