//! `Server`: the handle that programs and tests hold.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use crate::access::control::Access;
use crate::builder::ServerBuilder;
use crate::faults::{Faults, Match};
use crate::http::listen::Listening;
use crate::http::service::ApiService;
use crate::journal::Journal;
use crate::read::open_watches::Command;
use crate::state::Shared;
use crate::status::Status;

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
        ApiService::new(self.shared.clone(), self.never.subscribe())
    }

    /// Serves HTTP/1.1, and HTTP/2 to who begins with it, on a TCP address; port 0 picks a free one.
    ///
    /// # Errors
    /// When the address can't be bound.
    ///
    /// # Cancel safety
    /// Dropped before it returns, nothing listens.
    pub async fn listen(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        Listening::bind(self.shared.clone(), addr, false).await
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
        Listening::bind(self.shared.clone(), addr, true).await
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

    /// The faults that requests will meet.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Who may do what: users and rules, which may change at any time.
    pub fn access(&self) -> &Access {
        &self.shared.access
    }

    /// How many watches are open.
    pub fn open_watches(&self) -> usize {
        self.shared.open.count()
    }

    /// Forgets all history: watches from any earlier version and old pages are expired from now on.
    pub fn compact(&self) {
        self.expire(u64::MAX);
    }

    /// Forgets the history up to and including this version.
    pub fn expire(&self, up_to: u64) {
        self.shared.write(|state| state.store.compact(up_to));
    }

    /// Goes back to an earlier version, as a cluster does whose etcd was restored from a backup: what was written
    /// since is lost, its versions will be given again, and all watches break. Kinds defined since stay served.
    ///
    /// # Errors
    /// Expired where the history does not reach back so far; nothing has changed then.
    pub fn restore(&self, version: u64) -> Result<(), Status> {
        let restored = self.shared.write(|state| state.store.restore(version));
        restored.map_err(|_| Status::list_expired())?;
        self.cut_watches(&Match::any());
        Ok(())
    }

    /// Sends a bookmark to every open watch that allows them and started before the present version; gives how many
    /// watches are open. A watch that is read later sends what happened before the bookmark first.
    pub fn bookmark_now(&self) -> usize {
        self.shared.open.tell(&Command::Bookmark(self.resource_version()), |_| true)
    }

    /// Ends every open watch cleanly; gives how many there were.
    pub fn close_watches(&self) -> usize {
        self.shared.open.tell(&Command::Close, |_| true)
    }

    /// Breaks the connection of every open watch that `matches` picks; gives how many there were.
    pub fn cut_watches(&self, matches: &Match) -> usize {
        self.shared.open.tell(&Command::Cut, |about| matches.picks(about))
    }

    /// Sends these bytes, as they are, into every open watch that `matches` picks; gives how many took them. A watch
    /// takes at most 1,024 such frames before it sends them. A frame should end with a newline.
    pub fn inject(&self, matches: &Match, frame: impl Into<Bytes>) -> usize {
        self.shared.open.tell(&Command::Inject(frame.into()), |about| matches.picks(about))
    }
}
