//! `Informer`: one watch, one cache, many handlers.

use std::{
    any::Any,
    hash::Hash,
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use kube_delta_fifo as fifo;
use kube_object::{Delta, Event, Object, ResourceVersion};
use kube_reflector::{Reflector, Sink, SinkClosed, Status};
use kube_store::{Index, IndexError, Lister, Store};
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    EventHandler, EventStream, HandlerRegistration, InformerBuilder, NotSynced, Unsynced,
    delivery::deliver,
    handler::Closure,
    mailbox::{Mailbox, Queued},
    sync,
};

/// A panicking ListFunc or WatchFunc is given this much time before it is called again.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(30);

/// A shared cache of one resource: client-go's `SharedIndexInformer`.
///
/// Cheap to clone; all clones are one informer. It runs from [`Informer::start`] until
/// [`Informer::stop`], or until nobody can see it any more: no informer, lister, index, stream
/// or registered handler is left.
pub struct Informer<T> {
    pub(crate) shared: Arc<Shared<T>>,
    alive: Arc<Alive>,
}

/// Held by everybody for whom the informer must go on; the last one stops it.
pub(crate) struct Alive(CancellationToken);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What the informer's tasks share.
pub(crate) struct Shared<T> {
    config: InformerBuilder<T>,
    store: Store<T>,
    /// Also held over each write of the store and what follows from it, so that a handler that
    /// joins gets a snapshot and exactly the changes after it. Never across an await.
    audience: Mutex<Audience<T>>,
    synced: watch::Sender<bool>,
    reflector: watch::Sender<Status>,
    relist: watch::Sender<u64>,
    stopping: CancellationToken,
    tasks: TaskTracker,
    alive: Weak<Alive>,
}

struct Audience<T> {
    members: Vec<Member<T>>,
    next_id: u64,
    running: Running,
}

struct Member<T> {
    id: u64,
    mailbox: Arc<Mailbox<T>>,
    /// What becomes of its queued events when the informer stops.
    at_stop: Queued,
    /// A member keeps the informer alive.
    _alive: Option<Arc<Alive>>,
}

enum Running {
    /// Handlers' tasks that begin with the informer.
    NotYet(Vec<(u64, BoxFuture<'static, ()>)>),
    On(Handle),
    Stopped,
}

/// What a program and a person can see of an informer. Never holds object contents.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InformerStatus {
    /// Its kind and URL.
    pub name: String,
    /// The first list is in the store.
    pub synced: bool,
    /// Objects in the store.
    pub objects: usize,
    /// Objects whose newest state could not be decoded, so that an older one is shown.
    pub stale: usize,
    /// Everything up to this version is in the store.
    pub watermark: Option<ResourceVersion>,
    /// Registered handlers and streams.
    pub handlers: usize,
    /// What the reflector is doing and has done.
    pub reflector: Status,
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), alive: Arc::clone(&self.alive) }
    }
}

impl<T: Object> Informer<T> {
    pub(crate) fn new(config: InformerBuilder<T>) -> Self {
        let stopping = CancellationToken::new();
        let alive = Arc::new(Alive(stopping.clone()));
        let audience = Audience { members: Vec::new(), next_id: 0, running: Running::NotYet(Vec::new()) };
        let shared = Shared {
            config,
            store: Store::new(),
            audience: Mutex::new(audience),
            synced: watch::Sender::new(false),
            reflector: watch::Sender::new(Status::default()),
            relist: watch::Sender::new(0),
            stopping,
            tasks: TaskTracker::new(),
            alive: Arc::downgrade(&alive),
        };
        Self { shared: Arc::new(shared), alive }
    }

    /// Begins to list and watch, and to call handlers. Further calls do nothing; an informer that
    /// was stopped stays stopped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(&self) {
        let mut audience = self.shared.audience.lock();
        if !matches!(audience.running, Running::NotYet(_)) {
            return;
        }
        let runtime = Handle::current();
        let before = std::mem::replace(&mut audience.running, Running::On(runtime.clone()));
        if let Running::NotYet(handlers) = before {
            for (_, handler) in handlers {
                self.shared.tasks.spawn_on(handler, &runtime);
            }
        }
        self.shared.tasks.spawn_on(Arc::clone(&self.shared).run(), &runtime);
    }

    /// Ends the watch, the handlers' tasks and all streams. When this returns no task, request or
    /// timer of the informer is left. The cache can still be read; it is no longer fresh.
    ///
    /// What is queued for handlers is dropped; streams end after what is queued for them.
    ///
    /// # Cancel safety
    /// The informer is stopped at the first poll; only the wait is lost.
    pub async fn stop(&self) {
        self.shared.stop();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// Registers a handler with the informer's default resync period. It is called on a task of
    /// its own from when the informer runs; on a running informer it is first shown the current
    /// state as initial adds.
    pub fn add_handler(&self, handler: impl EventHandler<T>) -> HandlerRegistration<T> {
        self.register(handler, self.shared.config.resync)
    }

    /// Registers a handler with a resync period of its own; `None` for no resync.
    pub fn add_handler_with_resync(
        &self,
        handler: impl EventHandler<T>,
        resync: Option<Duration>,
    ) -> HandlerRegistration<T> {
        self.register(handler, resync)
    }

    /// Registers a closure that is called with each event.
    pub fn on(&self, handler: impl FnMut(&Event<T>) + Send + 'static) -> HandlerRegistration<T> {
        self.add_handler(Closure(handler))
    }

    /// The events as a stream: for those who want to await. Dropping it unregisters it.
    pub fn events(&self) -> EventStream<T> {
        let (id, mailbox) = self.shared.join(|_| None);
        EventStream::new(id, Arc::clone(&self.shared), mailbox, self.shared.config.resync)
    }

    fn register(&self, handler: impl EventHandler<T>, resync: Option<Duration>) -> HandlerRegistration<T> {
        let (running, ended) = watch::channel(());
        let shared = Arc::downgrade(&self.shared);
        let (id, mailbox) = self.shared.join(|mailbox| {
            let task = async move {
                deliver(shared, mailbox, handler, resync).await;
                drop(running);
            };
            Some(task.boxed())
        });
        HandlerRegistration { id, shared: Arc::downgrade(&self.shared), mailbox, ended }
    }

    /// Adds an index, now or at any later time; it covers what is cached already.
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

    /// Whether the first list is in the store.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until the first list is in the store.
    ///
    /// # Errors
    /// It is not within this time; the error says what the informer was doing and its last
    /// failure. The informer goes on trying.
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn wait_for_sync(&self, within: Duration) -> Result<(), NotSynced> {
        match sync::wait_true(self.shared.synced.subscribe(), within).await {
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
        InformerStatus {
            name: self.shared.config.name.clone(),
            synced: self.has_synced(),
            objects: snapshot.len(),
            stale: self.shared.store.stats().stale,
            watermark: snapshot.watermark().cloned(),
            handlers: self.shared.audience.lock().members.len(),
            reflector: self.shared.reflector.borrow().clone(),
        }
    }
}

impl<T: Object> Shared<T> {
    /// Until stopped. A panic (of a ListFunc, a modifier or an `on_error`) must not end the
    /// watch silently: it is logged, and the reflector begins anew.
    async fn run(self: Arc<Self>) {
        let stopping = self.stopping.clone();
        let running = async {
            loop {
                if AssertUnwindSafe(self.reflect()).catch_unwind().await.is_err() {
                    tracing::error!(informer = self.config.name, "the informer's source panicked");
                    self.reflector.send_modify(|status| {
                        status.last_error = Some("a function given to the informer panicked".to_owned());
                    });
                }
                tokio::time::sleep(PAUSE_AFTER_PANIC).await;
            }
        };
        tokio::select! {
            biased;
            () = stopping.cancelled() => {}
            () = running => {}
        }
        self.stop();
    }

    /// Reflector, queue and store, on one task: the bytes of a batch are decoded, stored and
    /// handed to the mailboxes without leaving it.
    async fn reflect(&self) {
        let (sender, mut deltas) = fifo::channel(self.config.queue_bound);
        let on_error = self.config.on_error.clone();
        let reflector = Reflector::from_shared(Arc::clone(&self.config.source), FifoSink(sender))
            .known(Arc::new(self.store.clone()))
            .options(self.config.reflector.clone())
            .status_in(self.reflector.clone())
            .relist_on(self.relist.subscribe())
            .on_error(move |error| {
                if let Some(on_error) = &on_error {
                    on_error(error);
                }
            });
        let applying = async {
            while let Some(batch) = deltas.recv().await {
                self.apply(batch);
            }
        };
        futures_util::future::join(reflector.run(), applying).await;
    }

    /// One write of the store, and its changes to everyone.
    fn apply(&self, batch: Vec<Delta<T>>) {
        let audience = self.audience.lock();
        let events: Arc<[Event<T>]> = self.store.apply(batch).into();
        let synced = self.store.is_synced();
        let first = synced && !*self.synced.borrow();
        if first || !events.is_empty() {
            for member in &audience.members {
                member.mailbox.push(Arc::clone(&events), synced);
            }
        }
        if first {
            self.synced.send_replace(true);
        }
    }

    /// A new member of the audience, with the state it finds as its first events.
    fn join(
        &self,
        task: impl FnOnce(Arc<Mailbox<T>>) -> Option<BoxFuture<'static, ()>>,
    ) -> (u64, Arc<Mailbox<T>>) {
        let mut audience = self.audience.lock();
        let mailbox = Arc::new(Mailbox::new(self.config.backlog_mark));
        let initial = |object| Event::Added { object, initial: true };
        let snapshot = self.store.snapshot();
        mailbox.push(snapshot.iter().cloned().map(initial).collect(), self.store.is_synced());
        let id = audience.next_id;
        audience.next_id += 1;
        let task = task(Arc::clone(&mailbox));
        let at_stop = if task.is_some() { Queued::Drop } else { Queued::Deliver };
        match (&mut audience.running, task) {
            (Running::NotYet(tasks), Some(task)) => tasks.push((id, task)),
            (Running::On(runtime), Some(task)) => drop(self.tasks.spawn_on(task, runtime)),
            (Running::Stopped, _) => {
                mailbox.close(Queued::Drop);
                return (id, mailbox);
            }
            (_, None) => {}
        }
        let member = Member { id, mailbox: Arc::clone(&mailbox), at_stop, _alive: self.alive.upgrade() };
        audience.members.push(member);
        (id, mailbox)
    }

    /// Forgets a member; its mailbox is closed by the caller.
    pub(crate) fn remove(&self, id: u64) {
        let mut audience = self.audience.lock();
        let at = audience.members.iter().position(|member| member.id == id);
        let gone = at.map(|at| audience.members.swap_remove(at));
        if let Running::NotYet(tasks) = &mut audience.running {
            tasks.retain(|(task, _)| *task != id);
        }
        drop(audience);
        // The last member may be what kept the informer alive: not under the lock.
        drop(gone);
    }

    /// Shows a member everything again, unless newer events of an object wait for it.
    pub(crate) fn resync(&self, mailbox: &Mailbox<T>) {
        let _unchanging = self.audience.lock();
        mailbox.push_resync(self.store.snapshot().iter().cloned());
    }

    fn stop(&self) {
        self.stopping.cancel();
        let mut audience = self.audience.lock();
        let members = std::mem::take(&mut audience.members);
        let before = std::mem::replace(&mut audience.running, Running::Stopped);
        drop(audience);
        for member in &members {
            member.mailbox.close(member.at_stop);
        }
        drop((members, before));
    }
}

/// The queue in front of the store as a reflector's sink.
struct FifoSink<T>(fifo::Sender<T>);

impl<T: Send + Sync + 'static> Sink<T> for FifoSink<T> {
    async fn push(&mut self, deltas: Vec<Delta<T>>) -> Result<(), SinkClosed> {
        self.0.send(&mut deltas.into()).await.map_err(|_| SinkClosed)
    }
}
