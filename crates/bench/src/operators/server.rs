//! kube-testserver on a socket, with a counter of requests.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube_testserver::{ApiService, Body, ServiceError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Records a request and the status of its response.
type Record = dyn Fn(&Method, &Uri, StatusCode) + Send + Sync;

/// Contains the number of requests to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// The number of GET requests for objects, lists and pages of lists.
    pub reads: u64,
    /// The number of watches, including streaming lists.
    pub watches: u64,
    /// The number of requests that can change objects.
    pub writes: u64,
    /// The number of failed reads, watches and writes.
    pub refused: u64,
}

impl Requests {
    /// Returns the requests since `then`.
    pub(super) fn since(self, then: Self) -> Self {
        Self {
            reads: self.reads - then.reads,
            watches: self.watches - then.watches,
            writes: self.writes - then.writes,
            refused: self.refused - then.refused,
        }
    }
}

/// Counts the requests through a socket.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<Mutex<Requests>>);

impl Counter {
    pub(super) fn total(&self) -> Requests {
        *self.lock()
    }

    fn record(&self, method: &Method, uri: &Uri, status: StatusCode) {
        let is_write = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let is_watch = uri.query().is_some_and(is_watch_query);
        let mut requests = self.lock();
        match (is_write, is_watch) {
            (true, _) => requests.writes += 1,
            (false, true) => requests.watches += 1,
            (false, false) => requests.reads += 1,
        }
        requests.refused += u64::from(!status.is_success());
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves connections until the future is dropped.
///
/// # Errors
///
/// Fails if the listener fails.
///
/// # Cancel safety
///
/// Dropping the future closes all connections.
pub(crate) async fn serve(listener: TcpListener, service: ApiService, counter: Counter) -> io::Result<()> {
    serve_with(listener, service, move |method, uri, status| counter.record(method, uri, status)).await
}

/// Serves connections until the future is dropped, and calls `record` for each response.
///
/// # Errors
///
/// Fails if the listener fails.
///
/// # Cancel safety
///
/// Dropping the future closes all connections.
pub(crate) async fn serve_with(
    listener: TcpListener,
    service: ApiService,
    record: impl Fn(&Method, &Uri, StatusCode) + Send + Sync + 'static,
) -> io::Result<()> {
    let record: Arc<Record> = Arc::new(record);
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (service, record) = (service.clone(), Arc::clone(&record));
        let answer = service_fn(move |request| answer(service.clone(), Arc::clone(&record), request));
        // A failed connection affects only its client.
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(
    service: ApiService,
    record: Arc<Record>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ServiceError> {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let answer = service.respond(request).await?;
    record(&method, &uri, answer.status());
    Ok(answer)
}

/// Returns true if the query of a URI selects a watch.
pub(crate) fn is_watch_query(query: &str) -> bool {
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    parameters.any(|(key, value)| key == "watch" && matches!(&*value, "true" | "1"))
}

/// Returns a kubeconfig for a server without authentication.
pub(crate) fn kubeconfig(url: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    })
}
