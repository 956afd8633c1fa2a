//! Being told to end.

/// Returns when the process is asked to end: by SIGTERM, as the kubelet does, or by Ctrl-C.
///
/// From the first poll on neither ends the process by itself.
///
/// # Cancel safety
/// Safe: nothing but the wait is lost.
pub async fn shutdown_signal() {
    tokio::select! {
        () = interrupted() => {}
        () = sent() => {}
    }
}

async fn interrupted() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::error!(%error, "can't wait for Ctrl-C");
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
async fn sent() {
    use tokio::signal::unix::{SignalKind, signal};

    match signal(SignalKind::terminate()) {
        Ok(mut signal) => _ = signal.recv().await,
        Err(error) => {
            tracing::error!(%error, "can't wait for SIGTERM");
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
async fn sent() {
    std::future::pending::<()>().await;
}
