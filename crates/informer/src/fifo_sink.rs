//! `FifoSink`: connects the reflector with the queue in front of the store.

use kube_delta_fifo::Sender;
use kube_object::Delta;
use kube_reflector::{Sink, SinkClosed};

/// Pushes the deltas of a reflector into the queue in front of the store.
pub(crate) struct FifoSink<T>(pub(crate) Sender<T>);

impl<T: Send + Sync + 'static> Sink<T> for FifoSink<T> {
    async fn push(&mut self, deltas: Vec<Delta<T>>) -> Result<(), SinkClosed> {
        self.0.send(&mut deltas.into()).await.map_err(|_| SinkClosed)
    }
}
