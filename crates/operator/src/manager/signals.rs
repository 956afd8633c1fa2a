//! `shutdown_signal` waits for SIGTERM or Ctrl-C.

/// Waits until the process receives SIGTERM, which the kubelet sends, or Ctrl-C.
///
/// The first poll replaces the default action of both signals. From then on, the signals do not
/// terminate the process. The program must stop when this function returns.
///
/// # Cancel safety
/// If the future is dropped, the default action is not restored. A signal that arrives while no
/// such future exists has no effect.
pub async fn shutdown_signal() {
    tokio::select! {
        () = ctrl_c() => {}
        () = sigterm() => {}
    }
}

async fn ctrl_c() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::error!(%error, "cannot listen for Ctrl-C; it will not stop the manager gracefully");
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
async fn sigterm() {
    use tokio::signal::unix::{SignalKind, signal};

    match signal(SignalKind::terminate()) {
        Ok(mut signal) => _ = signal.recv().await,
        Err(error) => {
            tracing::error!(%error, "cannot listen for SIGTERM; this signal will not stop the manager gracefully");
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
async fn sigterm() {
    std::future::pending::<()>().await;
}
