//! Serves the pages over HTTP/1, with or without TLS. The number of connections is limited, and all
//! connections are closed with the manager.

use std::{
    collections::VecDeque,
    io,
    net::{SocketAddr, TcpListener},
    pin::pin,
    time::Duration,
};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    connections: usize,
    /// True if a further connection closes the oldest connection, so that idle clients cannot block other
    /// clients. Otherwise, a further connection waits.
    closes_oldest: bool,
    /// Limit for receiving the head of a request, and for an idle connection.
    header_read_timeout: Duration,
}

impl Limits {
    pub(crate) const PAGES: Self =
        Self { connections: 64, closes_oldest: true, header_read_timeout: Duration::from_secs(60) };
    /// A closed connection could fail the request of a client. A Go client closes idle connections after
    /// 90 s. The server waits for a longer time, so it closes no connection on which a client sends a
    /// request.
    #[cfg(feature = "webhooks")]
    pub(crate) const WEBHOOKS: Self =
        Self { connections: 1024, closes_oldest: false, header_read_timeout: Duration::from_secs(120) };
}

/// Age limit of a connection. A slow reader can therefore not hold it indefinitely.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(300);

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
    let mut connections = JoinSet::new();
    let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let accepts = limits.closes_oldest || connections.len() < limits.connections;
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if accepts => match accepted {
                Ok((stream, _)) => {
                    by_age.retain(|connection| !connection.is_finished());
                    if by_age.len() >= limits.connections && let Some(oldest) = by_age.pop_front() {
                        oldest.abort();
                    }
                    let (transport, router, stop) = (transport.clone(), router.clone(), stop.clone());
                    let served = serve_connection(stream, transport, router, limits, stop);
                    by_age.push_back(connections.spawn(served));
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
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// Completes the handshake of a TLS connection, and serves the connection. The handshake does not block
/// other connections, because each connection has its own task.
async fn serve_connection(
    stream: TcpStream,
    transport: Transport,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    match transport {
        Transport::Plain => serve_http(stream, router, limits, stop).await,
        #[cfg(feature = "tls")]
        Transport::Tls(certificate) => match stop.run_until_cancelled(certificate.accept(stream)).await {
            Some(Ok(stream)) => serve_http(stream, router, limits, stop).await,
            Some(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            None => {}
        },
    }
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read_timeout)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served);
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = sleep(MAX_CONNECTION_AGE) => {}
        ended = served.as_mut() => return log_error(ended),
    }
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
