//! `Informer`: shares one watch and one cache between many handlers.

use std::{
    any::Any,
    hash::Hash,
    io,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use kube_object::{Entry, Event, Object, ObjectMemory};
use kube_reflector::{Phase, ReflectorStatus};
use kube_store::{Index, IndexError, Lister, Store};
use tokio::{runtime::Handle, sync::watch, time::Instant};

use crate::{
    CacheSyncError, EventHandler, EventStream, HandlerRegistration, InformerStatus, UnsyncedInformer,
    config::InformerConfig,
    factory::FactoryLink,
    handler_fn,
    handlers::{HandlerThread, LagPolicy, Mailbox, deliver, deliver_to_thread},
    shared::{KeepAlive, Shared},
    sync,
};

/// Watches one resource and keeps a shared cache of its objects. Equivalent to client-go's
/// `SharedIndexInformer`.
///
/// An informer is cheap to clone, and all clones share one watch and one cache. The informer runs
/// from [`Informer::start`] to [`Informer::stop`]. It also stops when the last value that keeps it
/// alive is dropped: a clone, a lister, an index, a stream or a
/// [registration](HandlerRegistration).
pub struct Informer<T> {
    pub(crate) shared: Arc<Shared<T>>,
    keep_alive: Arc<KeepAlive>,
}

/// Identifies an informer. Two informers of a program never have the same id, also if one of them was
/// dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InformerId(u64);

impl InformerId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

/// Refers to an informer without keeping it alive.
pub(crate) struct WeakInformer<T> {
    shared: Weak<Shared<T>>,
    keep_alive: Weak<KeepAlive>,
}

impl<T> WeakInformer<T> {
    pub(crate) fn is_dropped(&self) -> bool {
        self.keep_alive.strong_count() == 0
    }

    pub(crate) fn upgrade(&self) -> Option<Informer<T>> {
        Some(Informer { keep_alive: self.keep_alive.upgrade()?, shared: self.shared.upgrade()? })
    }
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), keep_alive: Arc::clone(&self.keep_alive) }
    }
}

impl<T: Object> Informer<T> {
    pub(crate) fn new(config: InformerConfig<T>, factory: Option<FactoryLink>) -> Self {
        let keep_alive = Arc::new(KeepAlive::new(factory));
        Self { shared: Arc::new(Shared::new(config, &keep_alive)), keep_alive }
    }

    pub(crate) fn downgrade(&self) -> WeakInformer<T> {
        WeakInformer { shared: Arc::downgrade(&self.shared), keep_alive: Arc::downgrade(&self.keep_alive) }
    }

    /// Starts to list, to watch, and to call handlers.
    ///
    /// A second call has no effect. A stopped informer cannot be started again.
    ///
    /// # Panics
    /// Panics if the informer was neither started nor stopped before, and the caller is outside of
    /// a tokio runtime.
    pub fn start(&self) {
        Shared::start(&self.shared, Handle::current);
    }

    /// Starts on the runtime of the caller. If the caller is outside of a runtime, starts on
    /// `runtime`.
    pub(crate) fn start_on(&self, runtime: &Handle) {
        Shared::start(&self.shared, || Handle::try_current().unwrap_or_else(|_| runtime.clone()));
    }

    /// Stops the watch, the handlers and the streams of this informer.
    ///
    /// Waits until all tasks, requests and timers of the informer have completed. Afterwards, the
    /// cache can still be read, but is no longer updated.
    ///
    /// The queued events of handlers are dropped. A handler that is being removed with
    /// [`HandlerRegistration::remove_after_delivery`] still receives its queued events. A stream
    /// still yields its queued events, and then `None`.
    ///
    /// If the tokio runtime of the informer shuts down, the informer also stops.
    ///
    /// The method waits for running handler calls. Do not wait for this method within a handler
    /// call, because the call and the method would wait for each other indefinitely.
    ///
    /// # Cancel safety
    /// The first poll stops the informer. If you drop the future after this poll, the informer
    /// still stops, but you do not know when its tasks have completed.
    pub async fn stop(&self) {
        self.shared.stop();
        self.shared.tasks.wait().await;
    }

    /// Returns whether the informer is stopping or stopped. The cache of such an informer can still
    /// be read, but is no longer updated.
    pub fn is_stopped(&self) -> bool {
        self.shared.stopping.is_cancelled()
    }

    /// Registers a handler with the default resync period of the informer
    /// ([`InformerBuilder::default_resync`](crate::InformerBuilder::default_resync)).
    ///
    /// The handler has its own task, which starts with the informer. If the informer is running,
    /// the handler first receives the cached objects as initial adds. If you drop the returned
    /// registration, the handler is removed.
    pub fn add_handler(&self, handler: impl EventHandler<T>) -> HandlerRegistration<T> {
        self.register(handler, LagPolicy::Coalesce, self.default_resync())
    }

    /// Registers a handler with this resync period instead of the default. With `None`, the handler
    /// receives no resyncs.
    pub fn add_handler_with_resync(
        &self,
        handler: impl EventHandler<T>,
        resync: Option<Duration>,
    ) -> HandlerRegistration<T> {
        self.register(handler, LagPolicy::Coalesce, resync)
    }

    /// Registers a closure as a handler. Equivalent to [`Informer::add_handler`] with
    /// [`handler_fn`].
    pub fn on_event(&self, handler: impl FnMut(&Event<T>) + Send + 'static) -> HandlerRegistration<T> {
        self.add_handler(handler_fn(handler))
    }

    /// Registers a handler that receives every event. The events of this handler are never
    /// coalesced.
    ///
    /// The informer waits for the handler while
    /// [`coalesce_threshold`](crate::InformerBuilder::coalesce_threshold) or more events of the
    /// handler are pending. During this wait, the cache is not updated and the other handlers
    /// receive no new events, so the handler must be fast.
    ///
    /// Use this method if the handler requires each intermediate state. An example is a handler
    /// that enqueues the owners of each object. If an object changes its owner twice, coalesced
    /// events omit the intermediate owner.
    pub fn add_backpressured_handler(&self, handler: impl EventHandler<T>) -> HandlerRegistration<T> {
        self.register(handler, LagPolicy::Backpressure, self.default_resync())
    }

    /// Registers a handler that may block. The handler runs on a separate thread.
    ///
    /// Otherwise, the contract of [`EventHandler`] applies. The handler receives resyncs with the
    /// default period of the informer, and its events are coalesced if it lags. As in
    /// [`tokio::task::spawn_blocking`], the handler may spawn tasks, and may wait for a future with
    /// `Handle::current().block_on`.
    ///
    /// This method spawns the thread. [`HandlerRegistration::remove`] and [`Informer::stop`] wait
    /// for a running call and until the thread has exited. If the runtime shuts down, the thread
    /// exits after the running call. In a test with a paused tokio clock, the clock can advance
    /// during a call, because tokio does not track this thread.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot create a thread.
    pub fn add_blocking_handler(
        &self,
        handler: impl EventHandler<T>,
    ) -> Result<HandlerRegistration<T>, io::Error> {
        let (running, ended) = watch::channel(());
        let (shared, resync) = (Arc::downgrade(&self.shared), self.shared.config.settings.resync);
        // A runtime that shuts down drops the task before the thread exits. The thread therefore
        // holds its own sender and its own token.
        let held = (running.clone(), self.shared.tasks.token());
        let thread = HandlerThread::spawn(handler, held)?;
        Ok(self.subscribe_task(LagPolicy::Coalesce, ended, |mailbox| {
            async move {
                deliver_to_thread(shared, mailbox, thread, resync).await;
                drop(running);
            }
            .boxed()
        }))
    }

    /// Returns the events as a stream. Use a stream if your code must await between events.
    ///
    /// The stream first yields the cached objects as initial adds. If you drop the stream, the
    /// informer no longer queues events for it.
    pub fn events(&self) -> EventStream<T> {
        let subscription = Shared::subscribe(&self.shared, LagPolicy::Coalesce, |_| None);
        EventStream::new(subscription, Arc::clone(&self.shared), self.shared.config.settings.resync)
    }

    pub(crate) fn default_resync(&self) -> Option<Duration> {
        self.shared.config.settings.resync
    }

    pub(crate) fn register(
        &self,
        handler: impl EventHandler<T>,
        policy: LagPolicy,
        resync: Option<Duration>,
    ) -> HandlerRegistration<T> {
        let (running, ended) = watch::channel(());
        let shared = Arc::downgrade(&self.shared);
        self.subscribe_task(policy, ended, |mailbox| {
            async move {
                deliver(shared, mailbox, handler, resync).await;
                drop(running);
            }
            .boxed()
        })
    }

    pub(crate) fn subscribe_task(
        &self,
        policy: LagPolicy,
        ended: watch::Receiver<()>,
        task: impl FnOnce(Arc<Mailbox<T>>) -> BoxFuture<'static, ()>,
    ) -> HandlerRegistration<T> {
        let subscription = Shared::subscribe(&self.shared, policy, |mailbox| Some(task(mailbox)));
        HandlerRegistration::new(subscription, ended)
    }

    /// Adds an index and fills it with the cached objects.
    ///
    /// `values` returns the index values of an object. See [`Store::add_index`] for its contract.
    /// The informer waits for this function while it writes to the cache, so the function may only
    /// read the cache. If it calls a method that would wait for the function, for example
    /// [`Informer::add_handler`], [`Informer::status`] or [`Informer::wait_for_sync`], the method
    /// panics. The informer catches and logs the panic, and the object has no values in this index.
    ///
    /// If `values` captures a lister of this informer, the informer runs until [`Informer::stop`]
    /// is called.
    ///
    /// # Errors
    /// Returns [`IndexError::AlreadyExists`] if an index with this name exists. Returns
    /// [`IndexError::WithinIndexFunction`] if an index function of this informer calls this method.
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

    /// Returns the index with this name. Returns `None` if the index does not exist, or if its
    /// values have another type than `V`.
    pub fn index<V>(&self, name: &str) -> Option<Index<T, V>>
    where
        V: Hash + Eq + Clone + Send + Sync + 'static,
    {
        self.store().index(name)
    }

    /// Returns the store. Its listers and indexes keep the informer alive.
    fn store(&self) -> Store<T> {
        let keep_alive: Arc<dyn Any + Send + Sync> = Arc::clone(&self.keep_alive) as _;
        self.shared.store.clone().with_keep_alive(keep_alive)
    }

    /// Returns a read-only view of the cache. The lister keeps the informer alive.
    pub fn lister(&self) -> Lister<T> {
        self.store().lister()
    }

    /// Returns the name of the informer, which appears in errors and logs.
    ///
    /// The default name consists of the kind and the URL path. A factory also appends the
    /// selectors. For [`Informer::from_source`], the default is the name of the type `T`.
    pub fn name(&self) -> &str {
        &self.shared.config.name
    }

    /// Returns the namespace of the informer. Returns `None` for all namespaces, for cluster-scoped types,
    /// and for a source of functions.
    pub fn namespace(&self) -> Option<String> {
        self.shared.config.source.coverage()?.namespace
    }

    /// Returns the label selector and the field selector of the informer. Both are `None` for a source
    /// of functions.
    pub fn selectors(&self) -> (Option<String>, Option<String>) {
        let coverage = self.shared.config.source.coverage().unwrap_or_default();
        (coverage.options.label_selector, coverage.options.field_selector)
    }

    /// Returns the id of this informer. All clones of an informer have the same id.
    pub fn id(&self) -> InformerId {
        self.shared.id
    }

    /// Returns whether the initial list is in the store and the informer is not stopped.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow() && !self.is_stopped()
    }

    /// Waits until the initial list is in the store.
    ///
    /// # Errors
    /// Returns a [`CacheSyncError`] in these cases:
    /// - The timeout expires.
    /// - The informer is stopped, even if it was synced before.
    /// - The server rejects the list as invalid (400, 414, 422 or 431), for example because of an
    ///   unknown field selector.
    ///
    /// In the last two cases, the method returns without waiting for the timeout. The error
    /// contains the phase and the last failure of the informer. An informer that was not stopped
    /// continues to retry.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), CacheSyncError> {
        self.shared.store.refuse_index_function();
        let timeout = sync::effective_timeout(timeout);
        let mut status = self.shared.reflector.subscribe();
        tokio::select! {
            biased;
            _ = sync::wait_true(self.shared.synced.subscribe(), timeout) => {}
            _ = status.wait_for(|status| status.phase == Phase::Stopped || status.rejected) => {}
        }
        if self.has_synced() {
            Ok(())
        } else {
            Err(CacheSyncError { timeout, informers: vec![self.unsynced()] })
        }
    }

    pub(crate) fn unsynced(&self) -> UnsyncedInformer {
        let status = self.shared.reflector.borrow();
        UnsyncedInformer {
            informer: self.shared.config.name.clone(),
            phase: if self.is_stopped() { Phase::Stopped } else { status.phase },
            last_error: status.last_error.clone(),
            rejected: status.rejected,
        }
    }

    /// Requests a relist. Call this method if watch events may have been lost. The relist updates
    /// each cached object to its state on the server, and deletes objects that no longer exist.
    pub fn relist(&self) {
        self.shared.relist.send_modify(|requested| *requested += 1);
    }

    /// Returns a watch channel that contains the current status of the reflector.
    pub fn reflector_status(&self) -> watch::Receiver<ReflectorStatus> {
        self.shared.reflector.subscribe()
    }

    /// Counts the memory of the cached objects and their identities, without indexes. The method visits each
    /// object, so do not call it often for a large cache.
    pub fn memory(&self) -> ObjectMemory {
        self.shared.store.snapshot().iter().map(Entry::memory).sum()
    }

    /// Returns the current status of the informer and of its handlers. See [`InformerStatus`].
    pub fn status(&self) -> InformerStatus {
        let snapshot = self.shared.store.snapshot();
        let reflector = self.shared.reflector.borrow().clone();
        // The guard must be dropped before `subscriber_statuses` locks the subscribers.
        let synced = *self.shared.synced.borrow();
        let age = |at: Option<Instant>| at.map(|at| at.elapsed());
        InformerStatus {
            name: self.shared.config.name.clone(),
            path: self.shared.config.source.path(),
            representation: std::any::type_name::<T>(),
            adopted: false,
            synced,
            restored: self.shared.restored.unverified(),
            objects: snapshot.len(),
            stale: self.shared.store.stats().stale,
            watermark: snapshot.resource_version().cloned(),
            event_age: age(reflector.last_event),
            bookmark_age: age(reflector.last_bookmark),
            handlers: self.shared.subscriber_statuses(),
            handler_panics: self.shared.panics.load(Relaxed),
            reflector,
        }
    }
}
