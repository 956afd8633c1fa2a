//! A handler's task: takes deliveries out of its mailbox and calls the handler.

use std::{
    future::poll_fn,
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
    time::Duration,
};

use kube_object::{Event, Object};

use crate::{EventHandler, handler, mailbox::Mailbox, resync, shared::Shared};

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
                if mailbox.is_abandoned() {
                    break;
                }
                call_guarded(&mailbox, &mut handler, event);
                // A long list or backlog must not keep the thread from other tasks.
                tokio::task::consume_budget().await;
            }
            mailbox.returned(delivery);
        }
    };
    tokio::select! {
        biased;
        () = delivering => {}
        () = resyncing => {}
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

fn call_guarded<T>(mailbox: &Mailbox<T>, handler: &mut impl EventHandler<T>, event: &Event<T>) {
    let call = AssertUnwindSafe(|| handler::call(handler, event));
    if std::panic::catch_unwind(call).is_err() {
        mailbox.count_panic();
        tracing::error!(key = %event.key(), "an event handler panicked; it stays registered");
    }
}
