//! Where deltas go.

use std::future::Future;

use kube_object::Delta;
use tokio::sync::mpsc;

/// Nobody takes deltas any more: the reflector ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody takes deltas any more")]
pub struct SinkClosed;

/// Takes what a reflector has learned, in order.
///
/// Implemented by the DeltaFIFO of an informer, and by the sender of a bounded `tokio::sync::mpsc`
/// channel for programs that use a reflector alone.
pub trait Sink<T>: Send {
    /// Takes the deltas, waiting while there is no room: meanwhile nothing is read from the
    /// server, which is how back-pressure reaches it.
    ///
    /// # Errors
    /// [`SinkClosed`] once nobody takes deltas any more.
    ///
    /// # Cancel safety
    /// A reflector drops the future only when it is itself dropped.
    fn push(&mut self, deltas: Vec<Delta<T>>) -> impl Future<Output = Result<(), SinkClosed>> + Send;

    /// Completes once nobody takes deltas any more, so that a reflector ends even while it has
    /// nothing to push. The default never completes: the end is noticed by the next push.
    ///
    /// # Cancel safety
    /// A reflector drops the future and calls again whenever something has come.
    fn closed(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

impl<T: Send + Sync + 'static> Sink<T> for mpsc::Sender<Vec<Delta<T>>> {
    async fn push(&mut self, deltas: Vec<Delta<T>>) -> Result<(), SinkClosed> {
        self.send(deltas).await.map_err(|_| SinkClosed)
    }

    async fn closed(&self) {
        mpsc::Sender::closed(self).await;
    }
}
