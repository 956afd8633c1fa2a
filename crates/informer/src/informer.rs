//! `Informer`: one watch, one cache, many handlers.

use std::{
    any::Any,
    hash::Hash,
    io,
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
    time::Duration,
};

use futures_util::FutureExt;
use kube_object::{Event, Object};
use kube_reflector::{Phase, Status};
use kube_store::{Index, IndexError, Lister, Store};
use tokio::{runtime::Handle, sync::watch, time::Instant};

use crate::{
    EventHandler, EventStream, HandlerRegistration, InformerBuilder, InformerStatus, NotSynced, Unsynced,
    delivery::{deliver, deliver_to_thread},
    handler_fn,
    mailbox::Behind,
    shared::{Alive, Shared},
    sync,
    thread::HandlerThread,
};

/// A shared cache of one resource: client-go's `SharedIndexInformer`.
///
/// Cheap to clone; all clones are one informer. It runs from [`Informer::start`] until
/// [`Informer::stop`], or until nobody can see it any more: no informer, lister, index, stream
/// or registered handler is left.
pub struct Informer<T> {
    pub(crate) shared: Arc<Shared<T>>,
    alive: Arc<Alive>,
}

/// Finds an informer for as long as somebody else has a use for it.
pub(crate) struct WeakInformer<T> {
    shared: Weak<Shared<T>>,
    alive: Weak<Alive>,
}

impl<T> WeakInformer<T> {
    pub(crate) fn upgrade(&self) -> Option<Informer<T>> {
        Some(Informer { alive: self.alive.upgrade()?, shared: self.shared.upgrade()? })
    }
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), alive: Arc::clone(&self.alive) }
    }
}

impl<T: Object> Informer<T> {
    pub(crate) fn new(config: InformerBuilder<T>) -> Self {
        let alive = Arc::new(Alive::default());
        Self { shared: Arc::new(Shared::new(config, &alive)), alive }
    }

    pub(crate) fn downgrade(&self) -> WeakInformer<T> {
        WeakInformer { shared: Arc::downgrade(&self.shared), alive: Arc::downgrade(&self.alive) }
    }

    /// Begins to list and watch, and to call handlers. Further calls do nothing; an informer that
    /// was stopped stays stopped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(&self) {
        Shared::start(&self.shared, Handle::current);
    }

    /// The same in the runtime of the caller, or in this one where the caller has none.
    pub(crate) fn start_within(&self, runtime: &Handle) {
        Shared::start(&self.shared, || Handle::try_current().unwrap_or_else(|_| runtime.clone()));
    }

    /// Ends the watch, the handlers' tasks and all streams. When this returns no task, request or
    /// timer of the informer is left. The cache can still be read; it is no longer fresh.
    ///
    /// What is queued for handlers is dropped, but for those that leave by
    /// [`HandlerRegistration::remove_after_delivery`]; streams end after what is queued for them. A runtime
    /// that is dropped stops the informers that run on it in the same way. Waits for a handler's call
    /// that is running, so it must not be waited for within one.
    ///
    /// # Cancel safety
    /// The informer is stopped at the first poll; only the wait is lost.
    pub async fn stop(&self) {
        self.shared.stop();
        self.shared.tasks.wait().await;
    }

    /// Whether it was told to stop: its cache will never be fresh again.
    pub(crate) fn is_stopped(&self) -> bool {
        self.shared.stopping.is_cancelled()
    }

    /// Registers a handler with the informer's default resync period. It is called on a task of
    /// its own from when the informer runs; on a running informer it is first shown the current
    /// state as initial adds.
    pub fn add_handler(&self, handler: impl EventHandler<T>) -> HandlerRegistration<T> {
        self.register(handler, Behind::IsMerged, self.shared.config.resync)
    }

    /// Registers a handler with a resync period of its own; `None` for no resync.
    pub fn add_handler_with_resync(
        &self,
        handler: impl EventHandler<T>,
        resync: Option<Duration>,
    ) -> HandlerRegistration<T> {
        self.register(handler, Behind::IsMerged, resync)
    }

    /// Registers a closure that is called with each event.
    pub fn on(&self, handler: impl FnMut(&Event<T>) + Send + 'static) -> HandlerRegistration<T> {
        self.add_handler(handler_fn(handler))
    }

    /// Registers a closure that is called with each event, and that none is kept from: where it is behind by as many as the
    /// informer's backlog mark nothing is merged, but the cache waits for it, and with the cache its other handlers, and the
    /// server. So it has to be quick. It is for those who ask each state whom it concerns, as a controller does: also one
    /// that was there for a moment, and in the cache for everybody to see.
    pub fn on_every(&self, handler: impl FnMut(&Event<T>) + Send + 'static) -> HandlerRegistration<T> {
        self.register(handler_fn(handler), Behind::IsWaitedFor, self.shared.config.resync)
    }

    /// Registers a handler that may block, on a thread of its own. What it is promised is the same as for others, back
    /// pressure included; it has the informer's default resync period. Its calls are made within the informer's runtime, as
    /// those of `spawn_blocking` are: they may spawn tasks, and wait for a future by `Handle::current().block_on`.
    ///
    /// The thread is there from now on, and has ended when [`HandlerRegistration::remove`] or [`Informer::stop`]
    /// returns: each waits for the call that is running, however long that blocks. Where a runtime is dropped the
    /// thread ends after that call. A paused clock of tokio does not wait for it.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn add_blocking_handler(
        &self,
        handler: impl EventHandler<T>,
    ) -> Result<HandlerRegistration<T>, io::Error> {
        let (running, ended) = watch::channel(());
        let (shared, resync) = (Arc::downgrade(&self.shared), self.shared.config.resync);
        // A runtime that is dropped ends the task before the thread: the thread says for itself that it runs.
        let held = (running.clone(), self.shared.tasks.token());
        let thread = HandlerThread::spawn(handler, held)?;
        let (id, mailbox) = self.shared.join(Behind::IsMerged, |mailbox| {
            let task = async move {
                deliver_to_thread(shared, mailbox, thread, resync).await;
                drop(running);
            };
            Some(task.boxed())
        });
        Ok(HandlerRegistration { id, shared: Arc::downgrade(&self.shared), mailbox, ended })
    }

    /// The events as a stream: for those who want to await. Dropping it unregisters it.
    pub fn events(&self) -> EventStream<T> {
        let (id, mailbox) = self.shared.join(Behind::IsMerged, |_| None);
        EventStream::new(id, Arc::clone(&self.shared), mailbox, self.shared.config.resync)
    }

    fn register(
        &self,
        handler: impl EventHandler<T>,
        behind: Behind,
        resync: Option<Duration>,
    ) -> HandlerRegistration<T> {
        let (running, ended) = watch::channel(());
        let shared = Arc::downgrade(&self.shared);
        let (id, mailbox) = self.shared.join(behind, |mailbox| {
            let task = async move {
                deliver(shared, mailbox, handler, resync).await;
                drop(running);
            };
            Some(task.boxed())
        });
        HandlerRegistration { id, shared: Arc::downgrade(&self.shared), mailbox, ended }
    }

    /// Adds an index, now or at any later time; it covers what is cached already. The function runs
    /// while the cache is written: it may read the cache, and must not call its informer otherwise.
    /// A lister that it holds keeps the informer alive until it is stopped.
    ///
    /// # Errors
    /// An index of this name exists.
    pub fn add_index<V, I>(
        &self,
        name: &'static str,
        values: impl Fn(&T) -> I + Send + Sync + 'static,
    ) -> Result<Index<T, V>, IndexError>
    where
        V: Hash + Eq + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        self.store().add_index(name, values)
    }

    /// An index that was added under this name with values of this type.
    pub fn index<V>(&self, name: &str) -> Option<Index<T, V>>
    where
        V: Hash + Eq + Clone + Send + Sync + 'static,
    {
        self.store().index(name)
    }

    /// The store, with listers and indexes that keep the informer alive.
    fn store(&self) -> Store<T> {
        let alive: Arc<dyn Any + Send + Sync> = Arc::clone(&self.alive) as _;
        self.shared.store.clone().keeping(alive)
    }

    /// Look-ups in the cache. A lister keeps its informer alive.
    pub fn lister(&self) -> Lister<T> {
        self.store().lister()
    }

    /// What errors and logs call it: where nobody has named it otherwise the kind, the path and the selectors.
    pub fn name(&self) -> &str {
        &self.shared.config.name
    }

    /// Whether the first list is in the store.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until the first list is in the store.
    ///
    /// # Errors
    /// It is not within this time, or the informer was stopped before; the error says what the
    /// informer was doing and its last failure. One that was not stopped goes on trying.
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn wait_for_sync(&self, within: Duration) -> Result<(), NotSynced> {
        let within = sync::patience(within);
        let mut status = self.shared.reflector.subscribe();
        tokio::select! {
            biased;
            _ = sync::wait_true(self.shared.synced.subscribe(), within) => {}
            _ = status.wait_for(|status| status.phase == Phase::Stopped) => {}
        }
        match self.has_synced() {
            true => Ok(()),
            false => Err(NotSynced { within, informers: vec![self.unsynced()] }),
        }
    }

    pub(crate) fn unsynced(&self) -> Unsynced {
        let status = self.shared.reflector.borrow();
        Unsynced {
            informer: self.shared.config.name.clone(),
            phase: status.phase,
            last_error: status.last_error.clone(),
        }
    }

    /// Lists everything again and corrects the cache, in case the source has lost events.
    pub fn relist(&self) {
        self.shared.relist.send_modify(|asked| *asked += 1);
    }

    /// Follows what the reflector is doing.
    pub fn reflector_status(&self) -> watch::Receiver<Status> {
        self.shared.reflector.subscribe()
    }

    /// What it is doing, and what it has done.
    pub fn status(&self) -> InformerStatus {
        let snapshot = self.shared.store.snapshot();
        let reflector = self.shared.reflector.borrow().clone();
        let age = |at: Option<Instant>| at.map(|at| at.elapsed());
        InformerStatus {
            name: self.shared.config.name.clone(),
            path: self.shared.config.source.path(),
            adopted: false,
            synced: self.has_synced(),
            objects: snapshot.len(),
            stale: self.shared.store.stats().stale,
            watermark: snapshot.watermark().cloned(),
            event_age: age(reflector.last_event),
            bookmark_age: age(reflector.last_bookmark),
            handlers: self.shared.members(),
            handler_panics: self.shared.panics.load(Relaxed),
            reflector,
        }
    }
}
