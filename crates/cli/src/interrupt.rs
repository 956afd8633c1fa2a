//! `interrupted`: waits for Ctrl-C.

/// Waits until the user presses Ctrl-C, or another process sends SIGTERM.
///
/// # Cancel safety
///
/// This function is cancel safe, because it only waits.
pub(crate) async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminated.recv() => {}
            }
            return;
        }
    }
    // If no handler can be installed, the signal kills the process.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
