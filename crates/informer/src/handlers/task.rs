//! Runs the task of a handler. The task takes deliveries from the mailbox and calls the handler, on
//! the task or on a thread.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::FutureExt;
use kube_object::{Escaped, Object};

use super::{EventHandler, HandlerThread, Mailbox, Queued, call::call_unless_abandoned, resync::Resync};
use crate::shared::Shared;

/// Calls a handler on this task until the mailbox is closed.
pub(crate) async fn deliver<T: Object>(
    shared: Weak<Shared<T>>,
    mailbox: Arc<Mailbox<T>>,
    mut handler: impl EventHandler<T>,
    resync: Option<Duration>,
) {
    let mut resync = Resync::new(resync);
    let delivering = async {
        // A strong reference would be a cycle, because the informer holds this task before the start.
        while let Some(delivery) =
            poll_fn(|context| resync.poll_take(context, &mailbox, || shared.upgrade())).await
        {
            for event in delivery.iter() {
                if !call_unless_abandoned(&mailbox, &mut handler, event) {
                    break;
                }
                // A long list or backlog must not block other tasks of this worker thread.
                tokio::task::consume_budget().await;
            }
            mailbox.acknowledge(delivery);
        }
    };
    run_until_closed(&mailbox, delivering).await;
}

/// Calls a handler on its thread until the mailbox is closed. Then waits until the thread has
/// exited.
pub(crate) async fn deliver_to_thread<T: Object>(
    shared: Weak<Shared<T>>,
    mailbox: Arc<Mailbox<T>>,
    mut thread: HandlerThread<T>,
    resync: Option<Duration>,
) {
    let mut resync = Resync::new(resync);
    let delivering = async {
        while let Some(delivery) =
            poll_fn(|context| resync.poll_take(context, &mailbox, || shared.upgrade())).await
        {
            let Some(delivery) = thread.call(&mailbox, delivery).await else { break };
            mailbox.acknowledge(delivery);
        }
    };
    run_until_closed(&mailbox, delivering).await;
    drop(resync);
    thread.stop().await;
}

/// Delivers until the mailbox is closed. If a value panics outside of a handler call, for
/// example in the `Drop` of an object, closes the mailbox. Otherwise, the informer could wait for
/// this reader indefinitely.
pub(crate) async fn run_until_closed<T>(mailbox: &Mailbox<T>, delivering: impl Future<Output = ()>) {
    let ended = AssertUnwindSafe(delivering).catch_unwind().await;
    if ended.is_err() {
        tracing::error!(handler = %Escaped(mailbox.name()), "event handler was removed, because the `Drop` of an event or of the handler panicked");
    }
    drop(mailbox.close(Queued::Drop));
    if let Err(panicked) = ended {
        resume_unwind(panicked);
    }
}
