//! `Shared`: what an informer's tasks and its users share, and the task that keeps the cache fresh.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Weak, atomic::AtomicU64},
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use kube_delta_fifo as fifo;
use kube_object::{Delta, Entry, Event, Object};
use kube_reflector::{FirstList, Phase, Reflector, Sink, SinkClosed, Status};
use kube_store::Store;
use parking_lot::{Mutex, MutexGuard};
use tokio::{runtime::Handle, sync::watch, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    HandlerStatus, InformerBuilder,
    mailbox::{Behind, Mailbox, Queued},
    written::Written,
};

/// A panicking ListFunc or WatchFunc is given this much time before it is called again.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(30);

/// Held by everybody for whom the informer must go on; the last one stops it.
#[derive(Default)]
pub(crate) struct Alive {
    stopping: CancellationToken,
    tasks: TaskTracker,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.stopping.cancel();
        self.tasks.close();
    }
}

/// What the informer's tasks share.
pub(crate) struct Shared<T> {
    pub(crate) config: InformerBuilder<T>,
    pub(crate) store: Store<T>,
    /// What this program has written, and the store may not show yet.
    pub(crate) written: Mutex<Written>,
    /// Also held over each write of the store and what follows from it, so that a handler that
    /// joins gets a snapshot and exactly the changes after it. Never across an await.
    audience: Mutex<Audience<T>>,
    /// Those of all handlers that there were.
    pub(crate) panics: Arc<AtomicU64>,
    pub(crate) synced: watch::Sender<bool>,
    pub(crate) reflector: watch::Sender<Status>,
    pub(crate) relist: watch::Sender<u64>,
    pub(crate) stopping: CancellationToken,
    pub(crate) tasks: TaskTracker,
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

/// Tasks of handlers by the number of the member.
type HandlerTasks = Vec<(u64, BoxFuture<'static, ()>)>;

enum Running {
    /// Handlers' tasks that begin with the informer.
    NotYet(HandlerTasks),
    On(Handle),
    Stopped,
}

impl<T: Object> Shared<T> {
    pub(crate) fn new(config: InformerBuilder<T>, alive: &Arc<Alive>) -> Self {
        let audience = Audience { members: Vec::new(), next_id: 0, running: Running::NotYet(Vec::new()) };
        Self {
            config,
            store: Store::new(),
            written: Mutex::default(),
            audience: Mutex::new(audience),
            panics: Arc::default(),
            synced: watch::Sender::new(false),
            reflector: watch::Sender::new(Status::default()),
            relist: watch::Sender::new(0),
            stopping: alive.stopping.clone(),
            tasks: alive.tasks.clone(),
            alive: Arc::downgrade(alive),
        }
    }

    /// Each handler and stream.
    pub(crate) fn members(&self) -> Vec<HandlerStatus> {
        let mut members: Vec<_> = self
            .audience
            .lock()
            .members
            .iter()
            .map(|member| (member.id, Arc::clone(&member.mailbox)))
            .collect();
        // A removal puts the last in the place of the removed.
        members.sort_unstable_by_key(|(id, _)| *id);
        members.iter().map(|(_, mailbox)| mailbox.status()).collect()
    }

    /// Spawns everything, once, on this runtime. Where that panics nothing is done.
    pub(crate) fn start(this: &Arc<Self>, runtime: impl FnOnce() -> Handle) {
        // A stop that comes meanwhile waits for this, too.
        let _spawning = this.tasks.token();
        let Some((runtime, handlers)) = this.begin(runtime) else { return };
        // Not under the lock: a runtime that is gone drops tasks here, and users' handlers with them.
        for (_, handler) in handlers {
            this.tasks.spawn_on(handler, &runtime);
        }
        let ending = Ending(Arc::clone(this));
        this.tasks.spawn_on(async move { ending.0.run().await }, &runtime);
    }

    /// What is to be spawned, the first time; nothing later or after a stop.
    fn begin(&self, runtime: impl FnOnce() -> Handle) -> Option<(Handle, HandlerTasks)> {
        let mut audience = self.audience.lock();
        let Running::NotYet(handlers) = &mut audience.running else { return None };
        let runtime = runtime();
        let handlers = std::mem::take(handlers);
        audience.running = Running::On(runtime.clone());
        Some((runtime, handlers))
    }

    /// Until stopped. A panic (of a ListFunc, a modifier or an `on_error`) must not end the
    /// watch silently: it is logged, and the reflector begins anew.
    async fn run(&self) {
        let running = async {
            loop {
                if AssertUnwindSafe(self.reflect()).catch_unwind().await.is_err() {
                    self.panicked();
                }
                tokio::time::sleep(PAUSE_AFTER_PANIC).await;
            }
        };
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => {}
            () = running => {}
        }
    }

    fn panicked(&self) {
        tracing::error!(informer = self.config.name, "a function given to the informer panicked");
        self.reflector.send_modify(|status| {
            status.errors += 1;
            status.last_error = Some("a function given to the informer panicked".to_owned());
            status.last_error_at = Some(Instant::now());
            status.phase = Phase::Waiting;
        });
    }

    /// Reflector, queue and store, on one task: the bytes of a batch are decoded, stored and
    /// handed to the mailboxes without leaving it.
    async fn reflect(&self) {
        let (sender, mut deltas) = fifo::channel(self.config.queue_bound);
        let on_error = self.config.on_error.clone();
        let mut options = self.config.reflector.clone();
        // After a panic: any state could be one older than what is cached, and where that was is not known.
        if self.store.is_synced() {
            options.first_list = FirstList::Fresh;
        }
        let reflector = Reflector::from_shared(Arc::clone(&self.config.source), FifoSink(sender))
            .known(Arc::new(self.store.clone()))
            .options(options)
            .status_in(self.reflector.clone())
            .relist_on(self.relist.subscribe())
            .on_error(move |error| {
                if let Some(on_error) = &on_error {
                    on_error(error);
                }
            });
        let applying = async {
            while let Some(batch) = deltas.recv().await {
                for mailbox in self.apply(batch) {
                    mailbox.has_room().await;
                }
            }
        };
        futures_util::future::join(reflector.run(), applying).await;
    }

    /// One write of the store, and its changes to everyone. Gives those who are to be waited for before the next one.
    fn apply(&self, batch: Vec<Delta<T>>) -> Vec<Arc<Mailbox<T>>> {
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
        let members = audience.members.iter().map(|member| &member.mailbox);
        members.filter(|mailbox| mailbox.is_waited_for()).cloned().collect()
    }

    /// A new member of the audience, with the state it finds as its first events.
    pub(crate) fn join(
        &self,
        behind: Behind,
        task: impl FnOnce(Arc<Mailbox<T>>) -> Option<BoxFuture<'static, ()>>,
    ) -> (u64, Arc<Mailbox<T>>) {
        // A stop that comes meanwhile waits for this, too.
        let _spawning = self.tasks.token();
        let mut audience = self.audience.lock();
        let id = audience.next_id;
        audience.next_id += 1;
        let (mark, panics) = (self.config.backlog_mark, Arc::clone(&self.panics));
        let mailbox = Arc::new(Mailbox::new(mark, behind, &format!("#{id}"), panics));
        let initial = |object| Event::Added { object, initial: true };
        let snapshot = self.store.snapshot();
        mailbox.push(snapshot.iter().cloned().map(initial).collect(), self.store.is_synced());
        let mut task = task(Arc::clone(&mailbox));
        let at_stop = if task.is_some() { Queued::Drop } else { Queued::Deliver };
        let member = Member { id, mailbox: Arc::clone(&mailbox), at_stop, _alive: self.alive.upgrade() };
        let runtime = match &mut audience.running {
            Running::NotYet(tasks) => {
                tasks.extend(task.take().map(|task| (id, task)));
                audience.members.push(member);
                None
            }
            Running::On(runtime) => {
                let runtime = runtime.clone();
                audience.members.push(member);
                Some(runtime)
            }
            Running::Stopped => {
                mailbox.close(Queued::Drop);
                None
            }
        };
        drop(audience);
        // Not under the lock: what is not spawned is dropped here, and the user's handler with it.
        if let (Some(runtime), Some(task)) = (runtime, task) {
            self.tasks.spawn_on(task, &runtime);
        }
        (id, mailbox)
    }

    /// Forgets a member; its mailbox is closed by the caller.
    pub(crate) fn remove(&self, id: u64) {
        Self::forget(self.audience.lock(), id);
    }

    /// The same, with a delete of each object that it has been or will be told of as its last events.
    pub(crate) fn remove_telling(&self, id: u64, mailbox: &Mailbox<T>) {
        let audience = self.audience.lock();
        let gone = |last: &Entry<T>| Event::Deleted { last: last.clone(), final_state_unknown: true };
        mailbox.push(self.store.snapshot().iter().map(gone).collect(), self.store.is_synced());
        Self::forget(audience, id);
    }

    fn forget(mut audience: MutexGuard<'_, Audience<T>>, id: u64) {
        let at = audience.members.iter().position(|member| member.id == id);
        let gone = at.map(|at| audience.members.swap_remove(at));
        let unspawned = match &mut audience.running {
            Running::NotYet(tasks) => {
                let at = tasks.iter().position(|(task, _)| *task == id);
                at.map(|at| tasks.remove(at))
            }
            Running::On(_) | Running::Stopped => None,
        };
        drop(audience);
        // Not under the lock: the last member may be what kept the informer alive, and the task
        // holds the user's handler.
        drop((gone, unspawned));
    }

    /// Shows a member everything again, unless newer events of an object wait for it.
    pub(crate) fn resync(&self, mailbox: &Mailbox<T>) {
        let _unchanging = self.audience.lock();
        mailbox.push_resync(self.store.snapshot().iter().cloned());
    }

    pub(crate) fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        let mut audience = self.audience.lock();
        let members = std::mem::take(&mut audience.members);
        let before = std::mem::replace(&mut audience.running, Running::Stopped);
        drop(audience);
        for member in &members {
            member.mailbox.close(member.at_stop);
        }
        // One that runs is stopped when its task has ended.
        if matches!(before, Running::NotYet(_)) {
            self.show_stopped();
        }
        drop((members, before));
    }

    /// Nobody writes the cache any more.
    fn show_stopped(&self) {
        self.store.close();
        self.reflector.send_modify(|status| status.phase = Phase::Stopped);
    }
}

/// The informer's task holds this: it ends the informer, also where a runtime that shuts down
/// drops the task in the middle or has never polled it.
struct Ending<T: Object>(Arc<Shared<T>>);

impl<T: Object> Drop for Ending<T> {
    fn drop(&mut self) {
        self.0.stop();
        self.0.show_stopped();
    }
}

/// The queue in front of the store as a reflector's sink.
struct FifoSink<T>(fifo::Sender<T>);

impl<T: Send + Sync + 'static> Sink<T> for FifoSink<T> {
    async fn push(&mut self, deltas: Vec<Delta<T>>) -> Result<(), SinkClosed> {
        self.0.send(&mut deltas.into()).await.map_err(|_| SinkClosed)
    }
}
