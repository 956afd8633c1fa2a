//! `Sink`: the receiver of deltas.

use std::future::Future;

use kube_object::Delta;
use tokio::sync::mpsc;

/// Reports that the receiver of the deltas was dropped. The reflector stops after this error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the receiver of the deltas was dropped")]
pub struct SinkClosed;

/// Receives the deltas of a reflector, in order.
///
/// The DeltaFIFO of an informer implements this trait. For programs without an informer, the sender of a
/// bounded `tokio::sync::mpsc` channel implements it.
pub trait Sink<T>: Send {
    /// Pushes deltas. Waits while the sink is full. During this wait, the reflector does not read from
    /// the connection to the server.
    ///
    /// # Errors
    /// Returns [`SinkClosed`] if the receiver was dropped.
    ///
    /// # Cancel safety
    /// This method need not be cancel safe. A reflector drops the future only if the future of
    /// [`Reflector::run`](crate::Reflector::run) is dropped.
    fn push(&mut self, deltas: Vec<Delta<T>>) -> impl Future<Output = Result<(), SinkClosed>> + Send;

    /// Waits until the receiver is dropped. When this method returns, the reflector stops immediately.
    /// The default implementation never returns. The reflector then stops only at the next push.
    ///
    /// # Cancel safety
    /// This method must be cancel safe. For each response or event that the reflector receives, it drops
    /// the future and calls the method again.
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
