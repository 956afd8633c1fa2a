//! A handler's task: takes deliveries out of its mailbox and calls the handler, here or on a thread of its own.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::FutureExt;
use kube_object::{Event, Object};

use crate::{
    EventHandler, handler,
    mailbox::{Mailbox, Queued},
    resync,
    shared::Shared,
    thread::HandlerThread,
};

/// Runs until the mailbox is closed.
pub(crate) async fn deliver<T: Object>(
    shared: Weak<Shared<T>>,
    mailbox: Arc<Mailbox<T>>,
    mut handler: impl EventHandler<T>,
    resync: Option<Duration>,
) {
    let resyncing = resync_forever(&shared, &mailbox, resync);
    let delivering = async {
        while let Some(delivery) = poll_fn(|context| mailbox.poll_take(context)).await {
            for event in delivery.iter() {
                if !call_unless_abandoned(&mailbox, &mut handler, event) {
                    break;
                }
                // A long list or backlog must not keep the thread from other tasks.
                tokio::task::consume_budget().await;
            }
            mailbox.returned(delivery);
        }
    };
    until_closed(&mailbox, delivering, resyncing).await;
}

/// The same with a handler that has a thread; ends when the thread has ended.
pub(crate) async fn deliver_to_thread<T: Object>(
    shared: Weak<Shared<T>>,
    mailbox: Arc<Mailbox<T>>,
    mut thread: HandlerThread<T>,
    resync: Option<Duration>,
) {
    let resyncing = resync_forever(&shared, &mailbox, resync);
    let delivering = async {
        while let Some(delivery) = poll_fn(|context| mailbox.poll_take(context)).await {
            let Some(delivery) = thread.call(&mailbox, delivery).await else { break };
            mailbox.returned(delivery);
        }
    };
    until_closed(&mailbox, delivering, resyncing).await;
    thread.end().await;
}

/// Nobody waits for a reader that is gone, also by a panic that is not the handler's: of what an object or the panic of a
/// handler does when it is dropped.
async fn until_closed<T>(
    mailbox: &Mailbox<T>,
    delivering: impl Future<Output = ()>,
    resyncing: impl Future<Output = ()>,
) {
    let both = async {
        tokio::select! {
            biased;
            () = delivering => {}
            () = resyncing => {}
        }
    };
    let ended = AssertUnwindSafe(both).catch_unwind().await;
    if ended.is_err() {
        tracing::error!(handler = %mailbox.name(), "an event handler is gone: what it was given panicked when it was dropped");
    }
    mailbox.close(Queued::Drop);
    if let Err(panicked) = ended {
        resume_unwind(panicked);
    }
}

/// Never returns.
async fn resync_forever<T: Object>(shared: &Weak<Shared<T>>, mailbox: &Mailbox<T>, period: Option<Duration>) {
    let Some(mut ticks) = period.and_then(resync::ticks) else { return std::future::pending().await };
    loop {
        ticks.tick().await;
        // Weak: a handler's task waits in its informer until that is started.
        if let Some(shared) = shared.upgrade() {
            shared.resync(mailbox);
        }
    }
}

/// Gives an event to the handler; `false` if it is to get no more. A panic is caught and counted.
pub(crate) fn call_unless_abandoned<T>(
    mailbox: &Mailbox<T>,
    handler: &mut impl EventHandler<T>,
    event: &Event<T>,
) -> bool {
    if mailbox.is_abandoned() {
        return false;
    }
    let call = AssertUnwindSafe(|| handler::call(handler, event));
    if std::panic::catch_unwind(call).is_err() {
        mailbox.count_panic();
        let handler = mailbox.name();
        tracing::error!(%handler, key = %event.key(), "an event handler panicked; it stays registered");
    }
    true
}
