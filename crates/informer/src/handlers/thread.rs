//! Runs a handler that may block on its own thread.
//!
//! The thread receives one delivery at a time, calls the handler, and returns the delivery. The
//! handler's task waits for events and resyncs, and stops the thread.

use std::{io, sync::Arc, thread};

use kube_delta_fifo::Delivery;
use kube_object::Object;
use tokio::{runtime::Handle, sync::mpsc};

use super::{EventHandler, Mailbox, call::call_unless_abandoned};

/// One delivery, its mailbox, and the runtime of the informer.
type ThreadInput<T> = (Arc<Mailbox<T>>, Delivery<T>, Handle);

/// Controls the thread of a handler. If the value is dropped without [`HandlerThread::stop`], the
/// thread exits after the running call.
pub(crate) struct HandlerThread<T> {
    deliveries: mpsc::Sender<ThreadInput<T>>,
    returned: mpsc::Receiver<Delivery<T>>,
    thread: thread::JoinHandle<()>,
}

impl<T: Object> HandlerThread<T> {
    /// Spawns the thread. Before the thread exits, it drops the handler, and then `held`.
    pub(crate) fn spawn(
        mut handler: impl EventHandler<T>,
        held: impl Send + 'static,
    ) -> Result<Self, io::Error> {
        let (deliveries, mut input) = mpsc::channel::<ThreadInput<T>>(1);
        let (output, returned) = mpsc::channel(1);
        let run = move || {
            while let Some((mailbox, delivery, runtime)) = input.blocking_recv() {
                let _entered = runtime.enter();
                for event in delivery.iter() {
                    if !call_unless_abandoned(&mailbox, &mut handler, event) {
                        break;
                    }
                }
                if output.blocking_send(delivery).is_err() {
                    break;
                }
            }
            drop(handler);
            drop(held);
        };
        let thread = thread::Builder::new().name("informer-handler".to_owned()).spawn(run)?;
        Ok(Self { deliveries, returned, thread })
    }

    /// Calls the handler with each event. Returns `None` if the thread has exited. Only a panic in
    /// the `Drop` of an object can cause this.
    pub(crate) async fn call(
        &mut self,
        mailbox: &Arc<Mailbox<T>>,
        delivery: Delivery<T>,
    ) -> Option<Delivery<T>> {
        self.deliveries.send((Arc::clone(mailbox), delivery, Handle::current())).await.ok()?;
        self.returned.recv().await
    }

    /// Stops the thread and waits until it has exited.
    pub(crate) async fn stop(self) {
        let Self { deliveries, mut returned, thread } = self;
        drop(deliveries);
        while returned.recv().await.is_some() {}
        // The closure has returned, so this call blocks only for the destructors of the thread.
        if thread.join().is_err() {
            tracing::error!(
                "thread of an event handler panicked in the `Drop` of an event or of the handler"
            );
        }
    }
}
