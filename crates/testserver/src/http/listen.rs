//! The server on TCP: one task that accepts, which owns a task for each connection.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Duration, timeout};

use crate::http::service::ApiService;
use crate::read::watch::closed;
use crate::state::Shared;

/// A graceful shutdown waits this long for answers that are under way.
const GRACE: Duration = Duration::from_secs(5);

/// The server on a TCP address. Dropping it ends all its connections at once.
#[derive(Debug)]
pub struct Listening {
    addr: SocketAddr,
    /// What its kubeconfig presents.
    token: Option<String>,
    closing: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl Listening {
    pub(crate) async fn bind(shared: Arc<Shared>, addr: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let token = shared.access.admin_token();
        let (closing, told) = watch::channel(false);
        let service = ApiService::new(shared, told.clone());
        let task = tokio::spawn(accept(listener, service, told));
        Ok(Self { addr, token, closing, task: Some(task) })
    }

    /// The address that clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// A kubeconfig for this address, as YAML (which JSON is); its user may do everything.
    pub fn kubeconfig(&self) -> String {
        let user = match &self.token {
            Some(token) => serde_json::json!({"token": token}),
            None => serde_json::json!({}),
        };
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "testserver",
            "clusters": [{"name": "testserver", "cluster": {"server": self.url()}}],
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
        if let Some(task) = &self.task {
            task.abort();
        }
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

/// Accepts until told to close. The connections live in its `JoinSet`: when this task is aborted, so are they.
async fn accept(listener: TcpListener, service: ApiService, mut closing: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = closed(&mut closing) => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, service.clone(), closing.clone()));
                }
                // Out of file descriptors, or a client that was gone already: neither ends the server.
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            },
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if timeout(GRACE, drained).await.is_err() {
        connections.shutdown().await;
    }
}

async fn connection(stream: TcpStream, service: ApiService, mut closing: watch::Receiver<bool>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let answer = service_fn(move |request| service.clone().answer(request));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new());
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    let ended = tokio::select! {
        biased;
        ended = serving.as_mut() => ended,
        () = closed(&mut closing) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
