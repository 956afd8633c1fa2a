//! Serves the pages over HTTP/1, with or without TLS. The number of connections is limited, and all
//! connections are closed with the manager.

mod connections;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    pin::pin,
    time::Duration,
};

use axum::{
    Router,
    http::{HeaderValue, header::CONNECTION},
};
use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::connections::{ConnectionState, Connections};

/// The limits of a server. At the limit, a further connection closes the oldest connection that has not sent
/// a request yet. If all have sent a request, it closes the connection that is idle for the longest time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    connections: usize,
    /// True if a further connection can also close a connection with a request in progress. Otherwise, it
    /// waits until a request completes.
    closes_busy: bool,
    /// Limit for receiving the head of a request, and for an idle connection.
    header_read_timeout: Duration,
}

impl Limits {
    pub(crate) const PAGES: Self =
        Self { connections: 64, closes_busy: true, header_read_timeout: Duration::from_secs(60) };
    /// A closed connection could fail the request of a client. A Go client closes idle connections after 90
    /// s, also connections without a request so far. The server waits for a longer time. Below the limit, it
    /// therefore closes no connection on which a client sends a request.
    #[cfg(feature = "webhooks")]
    pub(crate) const WEBHOOKS: Self =
        Self { connections: 1024, closes_busy: false, header_read_timeout: Duration::from_secs(120) };
}

/// Age limit of a connection. A slow reader can therefore not hold it indefinitely.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(300);

/// The age after which a response contains `Connection: close`. The client then sends no
/// request while the server closes an old connection. An idle connection is closed before the age limit.
const LAST_REQUEST_AGE: Duration = Duration::from_secs(150);

/// Time limit for a response in progress after a stop.
const LAST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause after a failed `accept`.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The transport of the connections of a socket.
#[derive(Clone)]
pub(crate) enum Transport {
    Plain,
    #[cfg(feature = "tls")]
    Tls(super::tls::ServingCertificate),
}

/// An extension of each request. The token is cancelled when the server closes the connection. A response
/// that does not end by itself must then end.
#[derive(Clone)]
#[cfg_attr(not(feature = "page"), expect(dead_code, reason = "only streams of updates read this"))]
pub(crate) struct ConnectionClosing(pub(crate) CancellationToken);

/// Binds a socket. The socket is non-blocking, because a runtime uses it later. Returns its address
/// with the actual port.
pub(crate) fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Serves `router` until `stop` is cancelled, and returns when the last connection is closed.
pub(crate) async fn serve(
    listener: TcpListener,
    transport: Transport,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut connections = Connections::new(limits.connections, limits.closes_busy);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = connections.changed() => {}
            accepted = listener.accept(), if connections.has_place() => match accepted {
                Ok((stream, _)) => {
                    let (transport, router, stop) = (transport.clone(), router.clone(), stop.clone());
                    let serve = |state| serve_connection(stream, transport, router, limits, state, stop);
                    connections.spawn(serve);
                }
                Err(error) => {
                    // If too many files are open, an immediate retry would fail again.
                    tracing::warn!(%error, "cannot accept a connection; retrying");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
        }
    }
    drop(listener);
    connections.join().await;
    Ok(())
}

/// Completes the handshake of a TLS connection, and serves the connection. The handshake does not block
/// other connections, because each connection has its own task.
async fn serve_connection(
    stream: TcpStream,
    transport: Transport,
    router: Router,
    limits: Limits,
    state: ConnectionState,
    stop: CancellationToken,
) {
    match transport {
        Transport::Plain => serve_http(stream, router, limits, state, stop).await,
        #[cfg(feature = "tls")]
        Transport::Tls(certificate) => match stop.run_until_cancelled(certificate.accept(stream)).await {
            Some(Ok(stream)) => serve_http(stream, router, limits, state, stop).await,
            Some(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            None => {}
        },
    }
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    limits: Limits,
    state: ConnectionState,
    stop: CancellationToken,
) {
    let (router, opened) = (TowerToHyperService::new(router), Instant::now());
    let closing = stop.child_token();
    let request_closing = ConnectionClosing(closing.clone());
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        let busy = state.begin_request();
        request.extensions_mut().insert(request_closing.clone());
        let responded = router.call(request);
        async move {
            let mut response = responded.await?;
            if opened.elapsed() >= LAST_REQUEST_AGE {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            drop(busy);
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read_timeout)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = sleep(MAX_CONNECTION_AGE) => {}
        ended = served.as_mut() => return log_error(ended),
    }
    closing.cancel();
    served.as_mut().graceful_shutdown();
    if let Ok(ended) = timeout(LAST_RESPONSE_TIMEOUT, served).await {
        log_error(ended);
    }
}

fn log_error(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "connection failed");
    }
}

#[cfg(test)]
mod tests;
