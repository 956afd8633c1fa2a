//! The signal that a listener shuts down.

use tokio::sync::watch;

/// Waits until the listener shuts down. If there is no listener, waits indefinitely.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    if closing.wait_for(|closing| *closing).await.is_err() {
        std::future::pending::<()>().await;
    }
}
