//! Applies large writes on a thread for blocking work.

use std::sync::Arc;

use kube_delta_fifo::{EventList, EventPages};
use kube_object::Object;
use kube_store::LargeWrite;
use tokio::task::JoinHandle;

use super::Shared;
use crate::handlers::{InitialAdds, Mailbox};

impl<T: Object> Shared<T> {
    /// Applies a large write on a thread for blocking work, so that the runtime and the locks are not
    /// blocked.
    ///
    /// `was_hidden` is true if the subscribers do not know the contents of the store before the write.
    pub(super) async fn apply_large(
        &self,
        mut write: LargeWrite<T>,
        was_hidden: bool,
    ) -> Vec<Arc<Mailbox<T>>> {
        let is_first_list = !self.store.is_synced() && self.store.snapshot().is_empty();
        loop {
            let prepare = move || {
                let events = write.prepare();
                let changes = events.len();
                // The events of the first list are the adds of all objects. Subscribers read these from the
                // store, because the allocator would keep the memory of a list of all events.
                let is_omitted = is_first_list || was_hidden;
                let events = if is_omitted { None } else { Some(EventList::new(events)) };
                (write, events, changes)
            };
            let (events, changes);
            (write, events, changes) = self.wait_for_thread(self.spawn_blocking(prepare)).await;
            let subscribers = self.lock_subscribers();
            // If an index was added, the write is prepared again.
            if write.publish() {
                self.restored.count(changes);
                if was_hidden {
                    let mailboxes = self.deliver_verified(&subscribers);
                    drop(subscribers);
                    self.announce_sync();
                    drop(self.spawn_blocking(|| drop(write)));
                    return mailboxes;
                }
                let is_empty = events.as_ref().is_some_and(EventList::is_empty);
                let adds: Arc<dyn EventPages<T>> = Arc::new(InitialAdds(self.store.snapshot()));
                let mailboxes = self.deliver(&subscribers, is_empty, |mailbox, synced| match &events {
                    Some(events) => mailbox.push_list(events, synced),
                    None => mailbox.push_pages(Arc::clone(&adds), synced),
                });
                drop(subscribers);
                self.announce_sync();
                drop(self.spawn_blocking(|| drop((write, events))));
                return mailboxes;
            }
        }
    }

    /// Runs this on a thread for blocking work. A stop of the informer waits for it.
    fn spawn_blocking<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        let token = self.tasks.token();
        tokio::task::spawn_blocking(move || {
            let result = work();
            drop(token);
            result
        })
    }

    /// Returns the result of the thread. Never returns if the runtime shuts down.
    async fn wait_for_thread<R>(&self, thread: JoinHandle<R>) -> R {
        match thread.await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => std::future::pending().await,
        }
    }
}
