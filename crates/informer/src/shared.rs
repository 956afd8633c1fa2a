//! `Shared`: the state and the subscribers of an informer, and the task that updates the cache.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use kube_delta_fifo as fifo;
use kube_object::{Delta, Escaped, Event, Object};
use kube_reflector::{FirstList, Phase, Reflector, ReflectorStatus};
use kube_store::{Store, is_within_index_function};
use parking_lot::{Mutex, MutexGuard};
use tokio::{runtime::Handle, sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

mod keep_alive;
mod large_write;

pub(crate) use keep_alive::KeepAlive;

use crate::{
    HandlerStatus, InformerId,
    checkpoint::{AppliedList, ListObserver},
    config::InformerConfig,
    delivered::DeliveredEvents,
    fifo_sink::FifoSink,
    handlers::{FinalDeletes, InitialAdds, LagPolicy, Mailbox, Queued},
    read_your_writes::WriteTracker,
    restored::RestoredCache,
    slots::InformerSlots,
    subscription::{Subscription, Unsubscribe},
    tasks::InformerTasks,
};

/// The number of objects of a resync that are queued under one lock.
const RESYNC_PAGE: usize = 256;

/// A write that applies, discards or clears at least this number of objects is prepared on a thread for
/// blocking work.
const LARGE_WRITE: usize = 8192;

/// The delay before the reflector restarts after a panic in a user function.
const DELAY_AFTER_PANIC: Duration = Duration::from_secs(30);

/// Holds the state that the tasks of an informer share.
pub(crate) struct Shared<T> {
    pub(crate) id: InformerId,
    pub(crate) config: InformerConfig<T>,
    pub(crate) store: Store<T>,
    pub(crate) writes: WriteTracker<T>,
    /// `None` for an informer of all objects.
    pub(crate) slots: Option<InformerSlots>,
    lists: ListObserver,
    pub(crate) restored: RestoredCache,
    /// Also locked during each write of the store and the delivery of its events. A new subscriber
    /// therefore receives a snapshot and exactly the later events. Never locked across an await.
    subscribers: Mutex<Subscribers<T>>,
    /// Whether `subscribers` can contain closed mailboxes.
    has_closed: AtomicBool,
    /// The number of panics of all handlers, including removed handlers.
    pub(crate) panics: Arc<AtomicU64>,
    pub(crate) synced: watch::Sender<bool>,
    pub(crate) reflector: watch::Sender<ReflectorStatus>,
    /// The number of requested relists.
    pub(crate) relist: watch::Sender<u64>,
    pub(crate) stopping: CancellationToken,
    pub(crate) tasks: InformerTasks,
    keep_alive: Weak<KeepAlive>,
}

pub(crate) struct Subscribers<T> {
    list: Vec<Subscriber<T>>,
    next_id: u64,
    lifecycle: Lifecycle,
}

struct Subscriber<T> {
    id: u64,
    mailbox: Arc<Mailbox<T>>,
    /// The treatment of its queued events when the informer stops.
    at_stop: Queued,
}

/// The tasks of handlers, by the id of the subscriber.
type HandlerTasks = Vec<(u64, BoxFuture<'static, ()>)>;

enum Lifecycle {
    /// Contains the tasks that start with the informer.
    NotStarted(HandlerTasks),
    Running(Handle),
    Stopped,
}

impl<T> Subscribers<T> {
    pub(crate) fn next_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Returns the tasks that start with the informer. Returns `None` if it was started or stopped.
    pub(crate) fn not_started(&mut self) -> Option<&mut HandlerTasks> {
        match &mut self.lifecycle {
            Lifecycle::NotStarted(tasks) => Some(tasks),
            Lifecycle::Running(_) | Lifecycle::Stopped => None,
        }
    }
}

impl<T: Object> Shared<T> {
    pub(crate) fn new(config: InformerConfig<T>, keep_alive: &Arc<KeepAlive>) -> Self {
        let lifecycle = Lifecycle::NotStarted(Vec::new());
        let slots = config.settings.division.clone().map(InformerSlots::new);
        let store = slots.as_ref().map_or_else(Store::new, InformerSlots::new_store);
        Self {
            id: InformerId::next(),
            config,
            writes: WriteTracker::new(store.clone(), slots.as_ref().map(|slots| slots.wanted.subscribe())),
            slots,
            store,
            lists: ListObserver::new(),
            restored: RestoredCache::default(),
            subscribers: Mutex::new(Subscribers { list: Vec::new(), next_id: 0, lifecycle }),
            has_closed: AtomicBool::new(false),
            panics: Arc::default(),
            synced: watch::Sender::new(false),
            reflector: watch::Sender::new(ReflectorStatus::default()),
            relist: watch::Sender::new(0),
            stopping: keep_alive.stopping.clone(),
            tasks: keep_alive.tasks.clone(),
            keep_alive: Arc::downgrade(keep_alive),
        }
    }

    /// Locks the subscribers. Removes the subscribers that were dropped within index functions.
    ///
    /// # Panics
    /// Panics within an index function of this informer, which runs under this lock. The store catches
    /// and logs the panic.
    pub(crate) fn lock_subscribers(&self) -> MutexGuard<'_, Subscribers<T>> {
        self.store.refuse_index_function();
        let mut subscribers = self.subscribers.lock();
        if self.has_closed.swap(false, Ordering::AcqRel) {
            subscribers.list.retain(|subscriber| !subscriber.mailbox.is_closed());
        }
        subscribers
    }

    /// Locks the subscribers to remove one of them. Within an index function, returns `None` if the
    /// lock is held, because the holder may wait for this thread.
    fn lock_to_remove(&self) -> Option<MutexGuard<'_, Subscribers<T>>> {
        if is_within_index_function() { self.subscribers.try_lock() } else { Some(self.lock_subscribers()) }
    }

    /// Returns the status of each subscriber, in the order of registration.
    pub(crate) fn subscriber_statuses(&self) -> Vec<HandlerStatus> {
        let mut subscribers: Vec<_> = self
            .lock_subscribers()
            .list
            .iter()
            .map(|subscriber| (subscriber.id, Arc::clone(&subscriber.mailbox)))
            .collect();
        // `unsubscribe` moves the last subscriber to the position of the removed subscriber.
        subscribers.sort_unstable_by_key(|(id, _)| *id);
        subscribers.iter().map(|(_, mailbox)| mailbox.status()).collect()
    }

    /// Spawns all tasks on this runtime. Only the first call has an effect. If `runtime` panics,
    /// the informer is not started.
    pub(crate) fn start(this: &Arc<Self>, runtime: impl FnOnce() -> Handle) {
        // A concurrent stop waits for this token, and therefore for the tasks that are spawned
        // here.
        let _spawning = this.tasks.token();
        let Some((runtime, handlers)) = this.begin(runtime) else { return };
        // Runs without the lock, because a runtime that has shut down drops the tasks and the
        // handlers.
        for (_, handler) in handlers {
            this.spawn_on(handler, &runtime);
        }
        let guard = StopGuard(Arc::clone(this));
        this.spawn_on(async move { guard.0.run().await }, &runtime);
    }

    /// Spawns a task of the informer. All log lines of the task contain the name of the informer.
    fn spawn_on(&self, task: impl Future<Output = ()> + Send + 'static, runtime: &Handle) {
        // The highest level, so that warnings have the span even if only warnings are logged. Without a
        // parent, because a reconcile may have started the informer.
        let (cluster, informer) = (self.config.settings.cluster.as_deref(), Escaped(&self.config.name));
        let span = tracing::error_span!(parent: None, "informer", cluster, %informer);
        self.tasks.spawn_on(task.instrument(span), runtime);
    }

    /// Returns the tasks to spawn. Returns `None` if the informer was started or stopped before.
    fn begin(&self, runtime: impl FnOnce() -> Handle) -> Option<(Handle, HandlerTasks)> {
        let mut subscribers = self.lock_subscribers();
        let Lifecycle::NotStarted(handlers) = &mut subscribers.lifecycle else { return None };
        let runtime = runtime();
        let handlers = std::mem::take(handlers);
        subscribers.lifecycle = Lifecycle::Running(runtime.clone());
        Some((runtime, handlers))
    }

    /// Runs the reflector until the informer is stopped.
    ///
    /// If a user function panics (list, watch, modifier, `on_error`), the panic is logged and the
    /// reflector restarts. Otherwise, the watch would stop silently.
    async fn run(&self) {
        let running = async {
            loop {
                if AssertUnwindSafe(self.reflect()).catch_unwind().await.is_err() {
                    self.record_panic();
                }
                tokio::time::sleep(DELAY_AFTER_PANIC).await;
            }
        };
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => {}
            () = running => {}
        }
    }

    fn record_panic(&self) {
        let delay = DELAY_AFTER_PANIC;
        tracing::error!(
            informer = self.config.name,
            ?delay,
            "reflector panicked in a user function; the reflector restarts after the delay"
        );
        self.reflector.send_modify(|status| {
            status.errors += 1;
            status.last_error = Some("reflector panicked in a user function".to_owned());
            status.last_error_at = Some(Instant::now());
            status.phase = Phase::Waiting;
        });
    }

    /// Runs reflector, queue and store on one task. A batch is decoded, stored and pushed to the
    /// mailboxes without a task switch. Only a large write uses another thread.
    async fn reflect(&self) {
        let (sender, mut deltas) = fifo::channel(self.config.settings.queue_capacity);
        let on_error = self.config.settings.on_error.clone();
        let mut options = self.config.settings.reflector.clone();
        let mut delivered = DeliveredEvents::new();
        let (resume, mut busy) = self.verify_restored(&mut delivered).await;
        // After a panic, the position is lost. Only a consistent list cannot be older than the
        // cache. Restored objects belong to an earlier process.
        if self.store.is_synced() || self.restored.is_restored() {
            options.first_list = FirstList::Fresh;
        } else if self.lists.is_enabled() && options.first_list == FirstList::Any {
            // A list that is older than a checkpoint looks like another history.
            options.first_list = FirstList::Consistent;
        }
        let mut reflector = Reflector::from_shared(Arc::clone(&self.config.source), FifoSink(sender))
            .cache_probe(Arc::new(self.store.clone()))
            .options(options)
            .status_in(self.reflector.clone())
            .relist_on(self.relist.subscribe())
            .server_versions(self.config.settings.server_versions.clone())
            .on_error(move |error| {
                if let Some(on_error) = &on_error {
                    on_error(error);
                }
            });
        if let Some(slots) = &self.slots {
            reflector = reflector.slots(slots.key, slots.count, slots.wanted.subscribe());
        }
        if let Some(version) = resume {
            reflector = reflector.resume_from(version);
        }
        let applying = async {
            loop {
                for mailbox in std::mem::take(&mut busy) {
                    mailbox.wait_for_room().await;
                }
                let Some(batch) = delivered.recv(&mut deltas).await else { return };
                busy = self.apply(batch, &mut delivered).await;
            }
        };
        futures_util::future::join(reflector.run(), applying).await;
    }

    /// Writes a batch to the store and pushes its events to all subscribers. Returns the mailboxes
    /// with backpressure. The caller must wait for room in these mailboxes before the next batch.
    pub(crate) async fn apply(
        &self,
        batch: Vec<Delta<T>>,
        delivered: &mut DeliveredEvents<T>,
    ) -> Vec<Arc<Mailbox<T>>> {
        let list = self.lists.observe(&batch);
        let was_hidden = self.hides_contents();
        let mailboxes = match self.store.begin_large_write(&batch, LARGE_WRITE) {
            Some(write) => self.apply_large(write, was_hidden).await,
            None => {
                let subscribers = self.lock_subscribers();
                let events: Arc<[Event<T>]> = self.store.apply(batch).into();
                self.restored.count(events.len());
                let mailboxes = if was_hidden {
                    self.deliver_verified(&subscribers)
                } else {
                    self.deliver(&subscribers, events.is_empty(), |mailbox, synced| {
                        mailbox.push(Arc::clone(&events), synced);
                    })
                };
                drop(subscribers);
                self.announce_sync();
                delivered.push(events);
                mailboxes
            }
        };
        if let Some(list) = list {
            self.lists.report(list);
        }
        mailboxes
    }

    /// Observes the first lists of the informer. Returns `None` if the informer was started or stopped
    /// before. In this case, the first list was possibly applied.
    pub(crate) fn observe_lists(&self) -> Option<watch::Receiver<Option<Arc<AppliedList>>>> {
        let subscribers = self.lock_subscribers();
        let is_early = matches!(subscribers.lifecycle, Lifecycle::NotStarted(_));
        is_early.then(|| self.lists.enable())
    }

    pub(crate) fn observes_lists(&self) -> bool {
        self.lists.is_enabled()
    }

    /// Passes the events of a write to all subscribers. Returns the mailboxes with backpressure.
    pub(crate) fn deliver(
        &self,
        subscribers: &Subscribers<T>,
        is_empty: bool,
        push: impl Fn(&Mailbox<T>, bool),
    ) -> Vec<Arc<Mailbox<T>>> {
        let synced = self.store.is_synced();
        if self.is_newly_synced() || !is_empty {
            for subscriber in &subscribers.list {
                push(&subscriber.mailbox, synced);
            }
        }
        let mailboxes = subscribers.list.iter().map(|subscriber| &subscriber.mailbox);
        mailboxes.filter(|mailbox| mailbox.has_backpressure()).cloned().collect()
    }

    /// Returns whether the store is synced, but [`Shared::announce_sync`] has not announced it.
    fn is_newly_synced(&self) -> bool {
        self.store.is_synced() && !*self.synced.borrow()
    }

    /// Announces the filled slots, and that the informer is synced. Must be called without the lock of the
    /// subscribers: another thread can hold a guard of this channel and wait for that lock.
    pub(crate) fn announce_sync(&self) {
        if let Some(slots) = &self.slots {
            slots.announce(self.store.shard());
        }
        if self.is_newly_synced() {
            self.synced.send_replace(true);
        }
    }

    /// Adds a subscriber. Its first events are the cached objects as initial adds.
    ///
    /// `task` builds the task of a handler from its mailbox. It returns `None` for a stream.
    pub(crate) fn subscribe(
        this: &Arc<Self>,
        policy: LagPolicy,
        task: impl FnOnce(Arc<Mailbox<T>>) -> Option<BoxFuture<'static, ()>>,
    ) -> Subscription<T> {
        // A concurrent stop waits for this token, and therefore for the task that is spawned here.
        let _spawning = this.tasks.token();
        let mut subscribers = this.lock_subscribers();
        let id = subscribers.next_id();
        let (threshold, panics) = (this.config.settings.coalesce_threshold, Arc::clone(&this.panics));
        let mailbox = Arc::new(Mailbox::new(threshold, policy, &format!("#{id}"), panics));
        if !this.hides_contents() {
            mailbox.push_pages(Arc::new(InitialAdds(this.store.snapshot())), this.store.is_synced());
        }
        let mut task = task(Arc::clone(&mailbox));
        let at_stop = if task.is_some() { Queued::Drop } else { Queued::Deliver };
        let subscriber = Subscriber { id, mailbox: Arc::clone(&mailbox), at_stop };
        let runtime = match &mut subscribers.lifecycle {
            Lifecycle::NotStarted(tasks) => {
                tasks.extend(task.take().map(|task| (id, task)));
                subscribers.list.push(subscriber);
                None
            }
            Lifecycle::Running(runtime) => {
                let runtime = runtime.clone();
                subscribers.list.push(subscriber);
                Some(runtime)
            }
            Lifecycle::Stopped => {
                drop(mailbox.close(Queued::Drop));
                None
            }
        };
        drop(subscribers);
        // Runs without the lock, because a task that is not spawned is dropped here, with its
        // handler.
        if let (Some(runtime), Some(task)) = (runtime, task) {
            this.spawn_on(task, &runtime);
        }
        Subscription { id, shared: Arc::downgrade(this), mailbox, _keep_alive: this.keep_alive.upgrade() }
    }

    /// Removes a subscriber and closes its mailbox, under one lock. Never waits within an index
    /// function, in which a registration can be dropped.
    pub(crate) fn unsubscribe(&self, subscription: &Subscription<T>, removal: Unsubscribe) {
        let Subscription { id, mailbox, .. } = subscription;
        let Some(mut subscribers) = self.lock_to_remove() else {
            // The next holder of the lock removes the subscriber.
            let dropped = mailbox.close(removal.queued());
            self.has_closed.store(true, Ordering::Release);
            return drop(dropped);
        };
        if removal == Unsubscribe::DeleteAll && !self.hides_contents() {
            mailbox.push_pages(Arc::new(FinalDeletes(self.store.snapshot())), self.store.is_synced());
        }
        let at = subscribers.list.iter().position(|subscriber| subscriber.id == *id);
        let removed = at.map(|at| subscribers.list.swap_remove(at));
        let unspawned = match &mut subscribers.lifecycle {
            Lifecycle::NotStarted(tasks) => {
                let at = tasks.iter().position(|(task, _)| task == id);
                at.map(|at| tasks.remove(at))
            }
            Lifecycle::Running(_) | Lifecycle::Stopped => None,
        };
        let dropped = mailbox.close(removal.queued());
        drop(subscribers);
        // Runs without the lock. The task holds the user's handler, and the events may hold the last
        // references to objects.
        drop((removed, unspawned, dropped));
    }

    /// Queues the cached objects from this cursor on as updates, at most one page. Returns the cursor of
    /// the next page, and `None` after the last page. Queues nothing if other events are queued.
    ///
    /// The reader has handled all events before, so each object has the state that the handler knows.
    pub(crate) fn resync(&self, mailbox: &Mailbox<T>, cursor: usize) -> Option<usize> {
        let _no_changes = self.lock_subscribers();
        if self.hides_contents() {
            return None;
        }
        let (entries, next) = self.store.snapshot().page(cursor, RESYNC_PAGE);
        if mailbox.push_resync(entries) { next } else { Some(cursor) }
    }

    pub(crate) fn stop(&self) {
        self.store.refuse_index_function();
        self.stopping.cancel();
        self.tasks.close();
        let mut subscribers = self.lock_subscribers();
        let list = std::mem::take(&mut subscribers.list);
        let before = std::mem::replace(&mut subscribers.lifecycle, Lifecycle::Stopped);
        drop(subscribers);
        for subscriber in &list {
            drop(subscriber.mailbox.close(subscriber.at_stop));
        }
        // The task of a running informer reports the stop when it is dropped.
        if matches!(before, Lifecycle::NotStarted(_)) {
            self.report_stopped();
        }
        drop((list, before));
    }

    /// Closes the store and sets the phase. The task of the informer does not run, so the cache is no
    /// longer written.
    fn report_stopped(&self) {
        self.store.close();
        self.writes.close();
        self.reflector.send_modify(|status| status.phase = Phase::Stopped);
    }
}

/// Stops the informer when its task is dropped. A runtime that shuts down can drop the task at any
/// await, or before the first poll.
struct StopGuard<T: Object>(Arc<Shared<T>>);

impl<T: Object> Drop for StopGuard<T> {
    fn drop(&mut self) {
        self.0.stop();
        self.0.report_stopped();
    }
}
