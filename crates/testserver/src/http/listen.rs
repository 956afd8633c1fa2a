//! The server on TCP: one task that accepts, which owns a task for each connection, plain or encrypted.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Duration, timeout};

use crate::http::service::ApiService;
use crate::http::tls::Tls;
use crate::read::watch::closed;
use crate::replicas::Backend;
use crate::state::Shared;

/// A graceful shutdown waits this long for answers that are under way.
const GRACE: Duration = Duration::from_secs(5);

/// A client has this long to agree on encryption.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// One HTTP/2 connection may have this many requests open at a time, as on the real server.
const STREAMS: u32 = 250;

/// The server on a TCP address. Dropping it ends all its connections at once.
#[derive(Debug)]
pub struct Listening {
    addr: SocketAddr,
    /// What its kubeconfig presents.
    token: Option<String>,
    /// What clients check the server by, as PEM, if it is on TLS.
    authority: Option<String>,
    closing: watch::Sender<bool>,
    aborting: Arc<Notify>,
    task: Option<JoinHandle<()>>,
}

impl Listening {
    pub(crate) async fn bind(
        shared: Arc<Shared>,
        front: Backend,
        addr: SocketAddr,
        encrypted: bool,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let tls = encrypted.then(|| Tls::new(addr)).transpose().map_err(io::Error::other)?;
        let authority = tls.as_ref().map(|tls| tls.authority.clone());
        let token = shared.access.admin_token();
        let (closing, told) = watch::channel(false);
        let aborting = Arc::new(Notify::new());
        let service = ApiService::new(shared, front, told.clone());
        let acceptor = Acceptor { tls, service, closing: told, streams: Streams::default() };
        let task = tokio::spawn(acceptor.run(listener, aborting.clone()));
        Ok(Self { addr, token, authority, closing, aborting, task: Some(task) })
    }

    /// The address that clients connect to.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address as a URL.
    pub fn url(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
    }

    /// The certificate, as PEM, that a client has to trust if the server is on TLS; it is in the kubeconfig, too.
    pub fn ca_certificate(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// A kubeconfig for this address, as YAML (which JSON is); its user may do everything.
    pub fn kubeconfig(&self) -> String {
        let user = match &self.token {
            Some(token) => serde_json::json!({"token": token}),
            // Over TLS kubectl asks for a name where it finds nothing; a server without users takes any token.
            None if self.authority.is_some() => serde_json::json!({"token": "anybody"}),
            None => serde_json::json!({}),
        };
        let cluster = match &self.authority {
            Some(pem) => {
                let data = BASE64_STANDARD.encode(pem);
                serde_json::json!({"server": self.url(), "certificate-authority-data": data})
            }
            None => serde_json::json!({"server": self.url()}),
        };
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "testserver",
            "clusters": [{"name": "testserver", "cluster": cluster}],
            "users": [{"name": "testserver", "user": user}],
            "contexts": [{"name": "testserver",
                          "context": {"cluster": "testserver", "user": "testserver", "namespace": "default"}}],
        });
        format!("{config:#}\n")
    }

    /// Stops accepting, ends the watches cleanly, lets other answers finish (for at most 5 s), and returns when no
    /// task and no socket is left.
    ///
    /// # Cancel safety
    /// Dropped before it returns, everything ends at once.
    pub async fn shutdown(mut self) {
        self.closing.send_replace(true);
        self.join().await;
    }

    /// Breaks all connections and returns when no task and no socket is left.
    ///
    /// # Cancel safety
    /// Dropped before it returns, everything still ends, unobserved.
    pub async fn abort(mut self) {
        self.aborting.notify_one();
        self.join().await;
    }

    async fn join(&mut self) {
        if let Some(task) = self.task.as_mut() {
            // An abort is what was asked for; the task itself does not panic.
            let _ = task.await;
            self.task = None;
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// The tasks that HTTP/2 connections start for their streams. They end with their connections, and those that still
/// run when the server goes are ended with it.
#[derive(Clone, Debug, Default)]
struct Streams(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let mut streams = self.0.lock();
        while streams.try_join_next().is_some() {}
        streams.spawn(stream);
    }
}

/// What each connection needs.
#[derive(Clone)]
struct Acceptor {
    tls: Option<Tls>,
    service: ApiService,
    closing: watch::Receiver<bool>,
    streams: Streams,
}

impl Acceptor {
    /// Accepts until told to close or to abort. The connections live in its `JoinSet`: when this task is dropped, so
    /// are they.
    async fn run(mut self, mut listener: TcpListener, aborting: Arc<Notify>) {
        let mut connections = JoinSet::new();
        let graceful = loop {
            tokio::select! {
                biased;
                () = aborting.notified() => break false,
                () = closed(&mut self.closing) => break true,
                Some(_) = connections.join_next() => {}
                () = self.service.gate().refused() => {
                    let addr = listener.local_addr();
                    drop(listener);
                    connections.shutdown().await;
                    match self.service.gate().listen_again(addr, &mut self.closing).await {
                        Some(again) => listener = again,
                        None => return,
                    }
                }
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(self.one().connection(stream));
                    }
                    // Out of file descriptors, or a client that was gone already: neither ends the server.
                    Err(error) => {
                        tracing::warn!(%error, "accept failed");
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                },
            }
        };
        drop(listener);
        if graceful {
            let drained = async { while connections.join_next().await.is_some() {} };
            // What is not done by then is broken.
            let _ = timeout(GRACE, drained).await;
        }
        connections.shutdown().await;
        let mut streams = std::mem::take(&mut *self.streams.0.lock());
        streams.shutdown().await;
    }

    /// The same for one connection.
    fn one(&self) -> Self {
        Self { service: self.service.connection(), ..self.clone() }
    }

    async fn connection(self, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY");
        }
        let Some(tls) = self.tls.clone() else { return self.serve(stream).await };
        match timeout(HANDSHAKE, tls.acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "no TLS"),
            Err(_) => tracing::debug!("no TLS in time"),
        }
    }

    /// HTTP/1.1 or HTTP/2, by what the client begins with.
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let Self { service, mut closing, streams, .. } = self;
        let answering = service.clone();
        let answer = service_fn(move |request| answering.clone().respond(request));
        let mut builder = auto::Builder::new(streams);
        builder.http1().timer(TokioTimer::new());
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
        let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), answer));
        let ended = tokio::select! {
            biased;
            ended = service.gate().hold(serving.as_mut()) => ended,
            () = closed(&mut closing) => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
    }
}
