//! Runs the task of a handler with a checkpoint.

use std::{
    future::poll_fn,
    sync::{Arc, Weak},
    time::Duration,
};

use kube_object::{Object, ResourceVersion};
use tokio::sync::watch;

use super::{
    CheckpointHandler, delivery::Delivering, journal::CheckpointWriter, known_objects::KnownObjects,
    list_observer::AppliedList,
};
use crate::{
    handlers::{CallOutcome, Mailbox, call_unless_abandoned_with, run_until_closed},
    shared::Shared,
};

/// The usable contents of a file.
pub(super) struct Saved {
    pub(super) version: ResourceVersion,
    pub(super) len: u64,
    pub(super) known: KnownObjects,
}

/// Waits for the first list, and then calls the handler.
pub(super) struct CheckpointTask<T> {
    pub(super) shared: Weak<Shared<T>>,
    pub(super) lists: watch::Receiver<Option<Arc<AppliedList>>>,
    pub(super) saved: Option<Saved>,
    pub(super) writer: CheckpointWriter,
}

impl<T: Object> CheckpointTask<T> {
    pub(super) async fn run(
        mut self,
        mailbox: Arc<Mailbox<T>>,
        mut handler: impl CheckpointHandler<T>,
        resync: Option<Duration>,
    ) {
        let Some(list) = self.first_list(&mailbox).await else { return };
        let Some(store) = self.shared.upgrade().map(|shared| shared.store.clone()) else { return };
        let known = match self.take_usable(&list) {
            Some(saved) => {
                self.writer.resume(saved.len).await;
                saved.known
            }
            None => {
                self.start_cold(&mailbox, &mut handler, &list.version).await;
                KnownObjects::default()
            }
        };
        let Self { shared, lists, writer, .. } = self;
        let mut delivering =
            Delivering { mailbox: &mailbox, handler, store, lists, known, writer, compared: None };
        run_until_closed(&mailbox, delivering.run(&shared, resync)).await;
        delivering.finish().await;
    }

    /// Waits for the first list. Returns `None` if the handler is removed or the informer stops before.
    async fn first_list(&mut self, mailbox: &Mailbox<T>) -> Option<Arc<AppliedList>> {
        tokio::select! {
            biased;
            list = self.lists.wait_for(Option::is_some) => list.ok()?.clone(),
            () = poll_fn(|context| mailbox.poll_closed(context)) => None,
        }
    }

    /// Returns the checkpoint if it belongs to the history of the server.
    fn take_usable(&mut self, list: &AppliedList) -> Option<Saved> {
        let handler = self.writer.name();
        if list.version.is_opaque() {
            tracing::warn!(%handler, "the resourceVersions of the server have no order; the checkpoint is not used and not written");
            return None;
        }
        let saved = self.saved.take()?;
        if !list.version.at_least(&saved.version) {
            tracing::warn!(%handler, saved = %saved.version, listed = %list.version, "checkpoint is not used, because the server has a lower resourceVersion and therefore another history; the handler starts cold");
            return None;
        }
        tracing::info!(%handler, objects = saved.known.len(), "checkpoint is used; the handler receives only changes");
        Some(saved)
    }

    /// Reports the cold start to the handler. If its call does not return, the next start is also cold. The
    /// next start is also cold if the versions have no order.
    async fn start_cold(
        &mut self,
        mailbox: &Mailbox<T>,
        handler: &mut impl CheckpointHandler<T>,
        version: &ResourceVersion,
    ) {
        self.writer.discard().await;
        let told = call_unless_abandoned_with(mailbox, "on_cold_start", || handler.on_cold_start());
        if told == CallOutcome::Finished && !version.is_opaque() {
            self.writer.start_cold(version.clone()).await;
        } else {
            self.writer.turn_off();
        }
    }
}
