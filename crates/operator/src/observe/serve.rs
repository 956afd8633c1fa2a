//! Serves pages over HTTP/1: so many connections at most, each owned and ended with the manager.

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
    net::TcpStream,
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// One more ends the oldest: who connects and says nothing keeps nobody out.
const CONNECTIONS: usize = 64;

/// A request takes no longer to arrive, and a client comes back within that or connects anew.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who reads slowly, or not at all, makes room for others after that.
const LONGEST: Duration = Duration::from_secs(300);

/// What is being answered then may be read for so long.
const LAST_ANSWER: Duration = Duration::from_secs(3);

/// Without blocking: it is a runtime's later.
pub(crate) fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Returns when it was told to stop and the last connection has ended.
pub(crate) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut connections = JoinSet::new();
    let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    by_age.retain(|connection| !connection.is_finished());
                    if by_age.len() >= CONNECTIONS && let Some(oldest) = by_age.pop_front() {
                        oldest.abort();
                    }
                    by_age.push_back(connections.spawn(connection(stream, router.clone(), stop.clone())));
                }
                Err(error) => {
                    // There are too many open files, perhaps: the next try would tell the same at once.
                    tracing::warn!(%error, "can't accept a connection");
                    sleep(Duration::from_secs(1)).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
    Ok(())
}

async fn connection(stream: TcpStream, router: Router, stop: CancellationToken) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served);
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = sleep(LONGEST) => {}
        ended = served.as_mut() => return said(ended),
    }
    served.as_mut().graceful_shutdown();
    if let Ok(ended) = timeout(LAST_ANSWER, served).await {
        said(ended);
    }
}

fn said(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection has failed");
    }
}
