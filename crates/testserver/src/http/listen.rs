//! The server on TCP. One task accepts connections and owns a task for each plain or encrypted
//! connection.

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
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Duration, timeout};

use crate::clock::HeldClock;
use crate::http::backend::Backend;
use crate::http::kubeconfig::NAME;
use crate::http::service::ApiService;
#[cfg(feature = "tls")]
use crate::http::tls::Tls;
use crate::shutdown::closed;
use crate::state::Shared;

/// The grace period of a shutdown, for pending responses.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

#[cfg(feature = "tls")]
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time until the headers of the first request arrive on a new connection. hyper has no limit
/// until it knows the version of HTTP.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum of concurrent requests of one HTTP/2 connection, as on the real server.
const MAX_CONCURRENT_STREAMS: u32 = 250;

/// Serves the API on a TCP address. If this value is dropped, all its connections break immediately.
#[derive(Debug)]
pub struct Listening {
    addr: SocketAddr,
    /// The token in the kubeconfig.
    token: Option<String>,
    /// The certificate authority of a TLS server, in PEM format.
    authority: Option<String>,
    closing: watch::Sender<bool>,
    aborting: Arc<Notify>,
    task: Option<JoinHandle<()>>,
    held_clock: Option<HeldClock>,
}

impl Listening {
    pub(crate) async fn bind(shared: Arc<Shared>, backend: Backend, addr: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        Ok(Self::start(shared, backend, listener, addr, Encryption::None))
    }

    #[cfg(feature = "tls")]
    pub(crate) async fn bind_tls(
        shared: Arc<Shared>,
        backend: Backend,
        addr: SocketAddr,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let tls = Tls::new(addr).map_err(io::Error::other)?;
        Ok(Self::start(shared, backend, listener, addr, Encryption::Tls(tls)))
    }

    fn start(
        shared: Arc<Shared>,
        backend: Backend,
        listener: TcpListener,
        addr: SocketAddr,
        encryption: Encryption,
    ) -> Self {
        let authority = match &encryption {
            Encryption::None => None,
            #[cfg(feature = "tls")]
            Encryption::Tls(tls) => Some(tls.authority.clone()),
        };
        let token = shared.access.admin_token();
        let held_clock = shared.config.hold_paused_clock.then(HeldClock::new);
        let (closing, is_closing) = watch::channel(false);
        let aborting = Arc::new(Notify::new());
        let service = ApiService::new(shared, backend, is_closing.clone()).on_tcp();
        let acceptor = Acceptor { encryption, service, closing: is_closing, streams: StreamTasks::default() };
        let task = tokio::spawn(acceptor.run(listener, aborting.clone()));
        Self { addr, token, authority, closing, aborting, task: Some(task), held_clock }
    }

    /// Returns the address and port on which the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
    }

    /// Returns the certificate of the authority of a TLS server, in PEM format. Returns `None` without
    /// TLS. The kubeconfig also contains this certificate.
    pub fn ca_certificate(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// Returns a kubeconfig for this address, with a user that has all rights. The text is JSON, which
    /// is also valid YAML.
    pub fn kubeconfig(&self) -> String {
        let user = match &self.token {
            Some(token) => json!({"token": token}),
            // Without a user, kubectl prompts for a name on TLS. This server accepts any token.
            None if self.authority.is_some() => json!({"token": "anybody"}),
            None => json!({}),
        };
        let mut cluster = json!({"server": self.url()});
        if let Some(pem) = &self.authority {
            cluster["certificate-authority-data"] = BASE64_STANDARD.encode(pem).into();
        }
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": NAME,
            "clusters": [{"name": NAME, "cluster": cluster}],
            "users": [{"name": NAME, "user": user}],
            "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        });
        format!("{config:#}\n")
    }

    /// Shuts the server down gracefully.
    ///
    /// The server stops accepting connections, closes the watches without an error, and completes other
    /// responses within at most 5 s. When this method returns, all tasks and sockets are closed.
    ///
    /// # Cancel safety
    /// If this future is dropped, all connections break immediately.
    pub async fn shutdown(mut self) {
        self.closing.send_replace(true);
        self.join().await;
    }

    /// Breaks all connections, and waits until all tasks and sockets are closed.
    ///
    /// # Cancel safety
    /// If this future is dropped, the server still stops, but the caller cannot wait for it.
    pub async fn abort(mut self) {
        self.aborting.notify_one();
        self.join().await;
    }

    async fn join(&mut self) {
        // The grace period must end.
        if let Some(held) = self.held_clock.take() {
            held.release().await;
        }
        if let Some(task) = self.task.as_mut() {
            // The task does not panic. An abort is not an error here.
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

/// The tasks that HTTP/2 connections start for their streams. They stop with their connection or with
/// the server.
#[derive(Clone, Debug, Default)]
struct StreamTasks(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamTasks {
    fn execute(&self, stream: F) {
        let mut streams = self.0.lock();
        while streams.try_join_next().is_some() {}
        streams.spawn(stream);
    }
}

#[derive(Clone)]
enum Encryption {
    None,
    #[cfg(feature = "tls")]
    Tls(Tls),
}

#[derive(Clone)]
struct Acceptor {
    encryption: Encryption,
    service: ApiService,
    closing: watch::Receiver<bool>,
    streams: StreamTasks,
}

impl Acceptor {
    /// Accepts connections until a shutdown or abort. The `JoinSet` of this task owns the connections,
    /// so they stop when this task is dropped.
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
                        let acceptor = Self { service: self.service.connection(), ..self.clone() };
                        connections.spawn(acceptor.connection(stream));
                    }
                    // For example, too many open files, or a closed connection. The server continues.
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection; retrying");
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                },
            }
        };
        drop(listener);
        if graceful {
            let drained = async { while connections.join_next().await.is_some() {} };
            // After the grace period, the remaining connections break.
            let _ = timeout(GRACE_PERIOD, drained).await;
        }
        connections.shutdown().await;
        let mut streams = std::mem::take(&mut *self.streams.0.lock());
        streams.shutdown().await;
    }

    async fn connection(self, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY for a connection");
        }
        match self.encryption.clone() {
            Encryption::None => self.serve(stream).await,
            #[cfg(feature = "tls")]
            Encryption::Tls(tls) => match timeout(HANDSHAKE_TIMEOUT, tls.acceptor.accept(stream)).await {
                Ok(Ok(stream)) => self.serve(stream).await,
                Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => tracing::debug!("TLS handshake timed out"),
            },
        }
    }

    /// Serves HTTP/1.1 or HTTP/2, as the client selects.
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let Self { service, mut closing, streams, .. } = self;
        let (responder, requested) = (service.clone(), Arc::new(Notify::new()));
        let requests = requested.clone();
        let respond = service_fn(move |request| {
            requests.notify_one();
            responder.clone().respond(request)
        });
        let mut builder = auto::Builder::new(streams);
        builder.http1().timer(TokioTimer::new());
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_CONCURRENT_STREAMS);
        let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), respond));
        let silent = pin!(async {
            if timeout(FIRST_REQUEST_TIMEOUT, requested.notified()).await.is_ok() {
                std::future::pending::<()>().await;
            }
        });
        let ended = tokio::select! {
            biased;
            ended = service.gate().hold(serving.as_mut()) => ended,
            () = service.gate().hold(silent) => {
                return tracing::debug!("connection closed: no request within {FIRST_REQUEST_TIMEOUT:?}");
            }
            () = closed(&mut closing) => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection closed with an error");
        }
    }
}
