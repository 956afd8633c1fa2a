//! `Delivering`: calls a handler with a checkpoint, and records the states that it has finished.

use std::{
    future::{pending, poll_fn},
    sync::{Arc, Weak},
    time::Duration,
};

use kube_delta_fifo::Delivery;
use kube_object::{Entry, Event, Object, ObjectId};
use kube_store::Store;
use tokio::{sync::watch, time::sleep_until};

use super::{
    CheckpointHandler,
    journal::CheckpointWriter,
    known_objects::{Comparison, KnownObjects},
    list_observer::AppliedList,
};
use crate::{
    handlers::{CallOutcome, Mailbox, Resync, call, call_unless_abandoned_with},
    shared::Shared,
};

type AppliedLists = watch::Receiver<Option<Arc<AppliedList>>>;

/// Delivers the events of a mailbox to a handler. Compares the first complete list with the checkpoint.
pub(super) struct Delivering<'a, T, H> {
    pub(super) mailbox: &'a Mailbox<T>,
    pub(super) handler: H,
    pub(super) store: Store<T>,
    pub(super) lists: AppliedLists,
    pub(super) known: KnownObjects,
    pub(super) writer: CheckpointWriter,
    /// The complete list that was compared with the checkpoint. Before the comparison, the file is not
    /// written, because it would no longer contain the objects whose deletion the handler missed.
    pub(super) compared: Option<Arc<AppliedList>>,
}

/// The next work of the task.
enum Next<T> {
    CompleteList(Arc<AppliedList>),
    CheckIsDue,
    Delivery(Delivery<T>),
    Closed,
}

impl<T: Object, H: CheckpointHandler<T>> Delivering<'_, T, H> {
    /// Delivers until the mailbox is closed.
    pub(super) async fn run(&mut self, shared: &Weak<Shared<T>>, resync: Option<Duration>) {
        let mut resync = Resync::new(resync);
        loop {
            match self.next(shared, &mut resync).await {
                Next::CompleteList(list) => {
                    self.compared = Some(list);
                    self.report_missed_deletes().await;
                }
                Next::CheckIsDue => {
                    self.writer.check(&mut self.known, self.store.resource_version()).await;
                }
                Next::Delivery(delivery) => {
                    self.deliver(&delivery).await;
                    self.mailbox.acknowledge(delivery);
                    // An object can be added and deleted again before the handler receives any event.
                    if self.known.has_unseen() && self.mailbox.pending() == 0 {
                        self.report_missed_deletes().await;
                    }
                }
                Next::Closed => return,
            }
        }
    }

    /// Writes the checkpoint after the last call.
    pub(super) async fn finish(mut self) {
        if self.compared.is_some() {
            self.writer.finish(&mut self.known, self.store.resource_version()).await;
        }
    }

    async fn next(&mut self, shared: &Weak<Shared<T>>, resync: &mut Resync) -> Next<T> {
        let (mailbox, is_compared) = (self.mailbox, self.compared.is_some());
        let check = self.writer.next_check().filter(|_| is_compared);
        tokio::select! {
            biased;
            list = complete_list(&mut self.lists), if !is_compared => Next::CompleteList(list),
            () = sleep_until(check.unwrap_or_else(tokio::time::Instant::now)), if check.is_some() => Next::CheckIsDue,
            taken = poll_fn(|context| resync.poll_take(context, mailbox, || shared.upgrade())) => {
                taken.map_or(Next::Closed, Next::Delivery)
            }
        }
    }

    async fn deliver(&mut self, delivery: &Delivery<T>) {
        let states = delivery.iter().map(Event::entry).filter(|entry| self.known.needs_journal(entry));
        let told: Vec<_> = states.map(|entry| (entry.key().clone(), entry.id.uid.clone())).collect();
        self.writer.append(&told).await;
        for event in delivery.iter() {
            if self.call(event) == CallOutcome::Abandoned {
                return;
            }
            // A long list or backlog must not block other tasks of this worker thread.
            tokio::task::consume_budget().await;
        }
    }

    fn call(&mut self, event: &Event<T>) -> CallOutcome {
        match event {
            Event::Added { object, initial } => self.add(object, *initial),
            Event::Updated { new, .. } => {
                let outcome = self.call_with_event(event);
                if outcome == CallOutcome::Finished {
                    self.known.finish(new);
                }
                outcome
            }
            Event::Deleted { last, .. } => {
                let outcome = self.call_with_event(event);
                if outcome == CallOutcome::Finished {
                    self.known.forget(last.key());
                }
                outcome
            }
        }
    }

    fn call_with_event(&mut self, event: &Event<T>) -> CallOutcome {
        self.begin(event.entry());
        let handler = &mut self.handler;
        call_unless_abandoned_with(self.mailbox, event.key(), || call(handler, event))
    }

    fn begin(&mut self, entry: &Entry<T>) {
        self.known.see(entry.key());
        if !self.mailbox.is_abandoned() {
            self.known.begin(entry.key(), &entry.id.uid);
        }
    }

    /// Delivers an added object, or the difference to its finished state.
    fn add(&mut self, object: &Entry<T>, initial: bool) -> CallOutcome {
        self.known.see(object.key());
        let outcome = match self.known.compare(object) {
            Comparison::Unchanged => CallOutcome::Finished,
            Comparison::Changed(finished) => {
                self.begin(object);
                let handler = &mut self.handler;
                call_unless_abandoned_with(self.mailbox, object.key(), || {
                    handler.on_missed_update(&finished, object);
                })
            }
            Comparison::New => self.add_new(object, initial),
            Comparison::Replaced(last) => match self.missed_delete(&last) {
                CallOutcome::Abandoned => CallOutcome::Abandoned,
                CallOutcome::Finished => self.add_new(object, initial),
                CallOutcome::Panicked => {
                    self.known.replace_unfinished(last);
                    self.add_new(object, initial)
                }
            },
        };
        if outcome == CallOutcome::Finished {
            self.known.finish(object);
        }
        outcome
    }

    fn add_new(&mut self, object: &Entry<T>, initial: bool) -> CallOutcome {
        self.begin(object);
        let handler = &mut self.handler;
        call_unless_abandoned_with(self.mailbox, object.key(), || handler.on_add(object, initial))
    }

    fn missed_delete(&mut self, last: &ObjectId) -> CallOutcome {
        let handler = &mut self.handler;
        call_unless_abandoned_with(self.mailbox, &last.key, || handler.on_missed_delete(last))
    }

    /// Delivers the deletions of the objects of the checkpoint that no longer exist.
    async fn report_missed_deletes(&mut self) {
        let Some(list) = self.compared.clone() else { return };
        let snapshot = self.store.snapshot();
        let missed =
            self.known.missed_deletes(|key| snapshot.get(key).is_some() || list.undecodable.contains(key));
        drop(snapshot);
        let told = missed.iter().filter(|last| self.known.deletion_needs_journal(last));
        let told: Vec<_> = told.map(|last| (last.key.clone(), last.uid.clone())).collect();
        self.writer.append(&told).await;
        told.iter().for_each(|(key, uid)| self.known.begin(key, uid));
        for last in missed {
            let outcome = self.missed_delete(&last);
            if outcome == CallOutcome::Abandoned {
                return;
            }
            self.known.deleted(&last, outcome == CallOutcome::Finished);
            tokio::task::consume_budget().await;
        }
    }
}

/// Waits for a complete list. Never returns after the informer was dropped.
async fn complete_list(lists: &mut AppliedLists) -> Arc<AppliedList> {
    let is_complete = |list: &Option<Arc<AppliedList>>| list.as_ref().is_some_and(|list| list.complete);
    match lists.wait_for(is_complete).await.map(|list| list.clone()) {
        Ok(Some(list)) => list,
        _ => pending().await,
    }
}
