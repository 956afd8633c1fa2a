//! kube-testserver on a socket, with a counter of requests and bytes. `requests` counts.

mod requests;

use std::io;

use http::Request;
use hyper::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube_testserver::{ApiService, Body, ServiceError};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::io::{InspectReader, InspectWriter};

pub(crate) use requests::RequestCounter;
pub use requests::RequestCounts;

/// Serves connections until the future is dropped, and counts the requests.
///
/// # Errors
///
/// Fails if the listener fails.
///
/// # Cancel safety
///
/// Dropping the future closes all connections.
pub(crate) async fn serve(
    listener: TcpListener,
    service: ApiService,
    counter: RequestCounter,
) -> io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (reads, writes) = (counter.clone(), counter.clone());
        let stream = InspectReader::new(stream, move |bytes: &[u8]| reads.add_bytes(bytes.len()));
        let stream = InspectWriter::new(stream, move |bytes: &[u8]| writes.add_bytes(bytes.len()));
        let (service, counter) = (service.clone(), counter.clone());
        let answer = service_fn(move |request| answer(service.clone(), counter.clone(), request));
        // A failed connection affects only its client.
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(
    service: ApiService,
    counter: RequestCounter,
    request: Request<Incoming>,
) -> Result<Response<Body>, ServiceError> {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let answer = service.respond(request).await?;
    counter.record(&method, &uri, answer.status());
    Ok(answer)
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
