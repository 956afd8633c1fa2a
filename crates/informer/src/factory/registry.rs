//! `Registry`: the informers of a factory, by type and selection.

use std::{
    any::{Any, TypeId, type_name},
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use kube_object::Object;
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::watch};
use tokio_util::task::TaskTracker;

use super::{
    AnyInformer, FactoryError,
    erased_informer::{AnyWeakInformer, ErasedInformer},
    selection::SelectedSlots,
};
use crate::{Informer, tasks::InformerTasks};

/// Holds the informers of a factory.
///
/// No lock is held across an await, or while an informer is built or started. The methods clone the
/// entries first.
///
/// Invariant: while no method runs, each slot has an informer that is alive. An informer that is
/// dropped reports its key, and the slot is removed without waiting for a lock (see
/// [`Registry::remove_dropped`]).
#[derive(Default)]
pub(super) struct Registry {
    informers: Mutex<HashMap<InformerKey, InformerSlot>>,
    /// The keys of dropped informers whose slots are not removed yet.
    dropped: Mutex<Vec<InformerKey>>,
    /// The adopted informers. The registry holds them until the shutdown.
    adopted: Mutex<Vec<Arc<dyn ErasedInformer>>>,
    /// The tasks of adopted informers that a shutdown has stopped. `tasks` does not count them.
    stopped: Mutex<Vec<InformerTasks>>,
    /// The number of created slots.
    slots: AtomicU64,
    /// Changes when an informer is created, adopted or removed.
    changes: watch::Sender<u64>,
    /// The runtime on which the factory was started.
    started: OnceLock<Handle>,
    shut_down: AtomicBool,
    /// The tasks of all informers that the factory built, including informers that are no longer in
    /// the registry.
    tasks: TaskTracker,
}

/// Connects an informer with the factory that built it.
pub(crate) struct FactoryLink {
    registry: Weak<Registry>,
    key: InformerKey,
    tasks: TaskTracker,
}

impl FactoryLink {
    /// Returns the tracker of the tasks of all informers of the factory.
    pub(crate) fn tasks(&self) -> TaskTracker {
        self.tasks.clone()
    }

    pub(super) fn informer_name(&self) -> String {
        self.key.informer_name()
    }

    /// Removes the slot of the informer, which is being dropped.
    pub(crate) fn informer_dropped(&self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.dropped.lock().push(self.key.clone());
            registry.remove_dropped();
        }
    }
}

/// Identifies an informer within a factory. All informers of a factory have the same other
/// settings.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct InformerKey {
    pub(super) cached: TypeId,
    pub(super) kind_and_path: String,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    pub(super) slots: SelectedSlots,
}

impl InformerKey {
    /// Returns the name of the informer in errors and logs. The name contains the selectors,
    /// because informers of one type can have different selectors.
    pub(super) fn informer_name(&self) -> String {
        let mut name = self.kind_and_path.clone();
        for (word, selector) in [("labels", &self.labels), ("fields", &self.fields)] {
            if let Some(selector) = selector {
                name.push_str(&format!(" {word} {selector}"));
            }
        }
        name + &self.slots.name()
    }
}

/// The references that keep an informer alive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The registry keeps the informer alive.
    Factory,
    /// Only the users of the informer keep it alive.
    Users,
}

struct InformerSlot {
    /// The position in the order of creation.
    number: u64,
    /// Keeps the informer alive.
    pinned: Option<Arc<dyn ErasedInformer>>,
    /// The state and the handlers of an informer that is not started. After the start, the task of
    /// the informer holds this state.
    unstarted: Option<Arc<dyn Any + Send + Sync>>,
    /// The informer, without keeping it alive.
    weak: Box<dyn AnyWeakInformer>,
}

impl InformerSlot {
    fn new<T: Object>(informer: &Informer<T>, number: u64) -> Self {
        Self {
            number,
            pinned: None,
            unstarted: Some(Arc::clone(&informer.shared) as _),
            weak: Box::new(informer.downgrade()),
        }
    }

    fn informer(&self) -> Option<Arc<dyn ErasedInformer>> {
        self.pinned.clone().or_else(|| self.weak.informer())
    }

    /// Returns whether no reference keeps the informer alive.
    fn is_dropped(&self) -> bool {
        self.pinned.is_none() && self.weak.is_dropped()
    }
}

impl Registry {
    /// Returns the informer of this key, or builds one.
    pub(super) fn get_or_insert<T: Object>(
        this: &Arc<Self>,
        key: &InformerKey,
        ownership: Ownership,
        build: impl FnOnce(FactoryLink) -> Informer<T>,
    ) -> Result<Informer<T>, FactoryError> {
        let is_shut_down = || FactoryError::ShutDown(key.kind_and_path.clone());
        if this.shut_down.load(Ordering::Acquire) {
            return Err(is_shut_down());
        }
        let found = this.with_informers(|informers| informers.get(key).and_then(InformerSlot::informer));
        // A stopped informer never updates its cache again.
        let found = found.filter(|informer| !informer.is_stopped());
        // Runs without a lock, because `build` may call user code that describes the resource.
        let informer = match found {
            Some(found) => downcast(found.as_ref()),
            None => build(FactoryLink {
                registry: Arc::downgrade(this),
                key: key.clone(),
                tasks: this.tasks.clone(),
            }),
        };
        let informer = this.insert(key.clone(), informer, ownership);
        // A concurrent shutdown may have missed this informer.
        if this.shut_down.load(Ordering::Acquire) {
            drop(this.with_informers(|informers| informers.remove(key)));
            informer.shared.stop();
            return Err(is_shut_down());
        }
        if let Some(runtime) = this.started.get() {
            informer.start_on(runtime);
            drop(this.with_informers(|informers| informers.get_mut(key)?.unstarted.take()));
        }
        Ok(informer)
    }

    /// Locks the informers. The caller drops removed slots and informers after this call, because
    /// they may hold user functions.
    fn with_informers<R>(&self, access: impl FnOnce(&mut HashMap<InformerKey, InformerSlot>) -> R) -> R {
        let mut informers = self.informers.lock();
        let result = access(&mut informers);
        drop(informers);
        self.remove_dropped();
        result
    }

    /// Removes the slots of dropped informers, if the lock is free.
    ///
    /// An informer can be dropped while this thread holds the lock, so this method must not wait for
    /// the lock. No slot remains: a key is queued before the lock is tried, and the holder of the lock
    /// checks the queue after it has released the lock.
    fn remove_dropped(&self) {
        while !self.dropped.lock().is_empty() {
            let Some(mut informers) = self.informers.try_lock() else { return };
            let keys = std::mem::take(&mut *self.dropped.lock());
            let mut removed = Vec::new();
            for key in keys {
                // A new informer may have the same key.
                if informers.get(&key).is_some_and(InformerSlot::is_dropped) {
                    removed.push(informers.remove(&key));
                }
            }
            if informers.is_empty() {
                informers.shrink_to_fit();
            }
            drop(informers);
            drop(removed);
        }
    }

    /// Stores this informer under the key and returns it. If a concurrent call has already stored
    /// an informer, returns the stored informer.
    fn insert<T: Object>(
        &self,
        key: InformerKey,
        informer: Informer<T>,
        ownership: Ownership,
    ) -> Informer<T> {
        let number = self.slots.fetch_add(1, Ordering::Relaxed);
        let mut is_new = false;
        let (informer, replaced) = self.with_informers(|informers| {
            let slot = match informers.entry(key) {
                Entry::Occupied(slot) => slot.into_mut(),
                Entry::Vacant(vacant) => vacant.insert(InformerSlot::new(&informer, number)),
            };
            let (informer, replaced) = match slot.informer() {
                Some(first) if !first.is_stopped() => (downcast(first.as_ref()), None),
                stopped => {
                    let new = InformerSlot::new(&informer, number);
                    (informer, Some((std::mem::replace(slot, new), stopped)))
                }
            };
            is_new |= slot.number == number;
            if ownership == Ownership::Factory && slot.pinned.is_none() {
                slot.pinned = Some(Arc::new(informer.clone()));
            }
            (informer, replaced)
        });
        drop(replaced);
        is_new.then(|| self.notify());
        informer
    }

    fn notify(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Adds an informer that was created by a builder or by another factory.
    pub(super) fn adopt<T: Object>(&self, informer: &Informer<T>) -> Result<(), FactoryError> {
        let is_same = |other: &Arc<dyn ErasedInformer>| {
            let other = other.as_any().downcast_ref::<Informer<T>>();
            other.is_some_and(|other| Arc::ptr_eq(&other.shared, &informer.shared))
        };
        if self.all().iter().any(is_same) {
            return Ok(());
        }
        let mut adopted = self.adopted.lock();
        if self.shut_down.load(Ordering::Acquire) {
            return Err(FactoryError::ShutDown(informer.name().to_owned()));
        }
        // A stopped informer is no longer used, for example after its controller was removed.
        adopted.retain(|informer| !informer.is_stopped());
        if !adopted.iter().any(is_same) {
            adopted.push(Arc::new(informer.clone()));
        }
        drop(adopted);
        self.notify();
        if let Some(runtime) = self.started.get() {
            informer.start_on(runtime);
        }
        Ok(())
    }

    /// Removes an informer and stops it. Returns its tasks.
    ///
    /// # Panics
    /// Panics within an index function of this informer, before it is removed.
    pub(super) fn remove(&self, key: &InformerKey) -> Option<InformerTasks> {
        let found = self.with_informers(|informers| informers.get(key).and_then(InformerSlot::informer));
        if let Some(found) = found {
            found.refuse_index_function();
        }
        let informer = self.with_informers(|informers| informers.remove(key))?.informer()?;
        informer.begin_stop();
        self.notify();
        Some(informer.tasks())
    }

    /// Returns the informers that still exist, in the order of their creation, and then the adopted
    /// informers.
    pub(super) fn all(&self) -> Vec<Arc<dyn ErasedInformer>> {
        self.informers().into_iter().map(|informer| informer.informer).collect()
    }

    /// Returns the informers of [`Registry::all`], and whether they are adopted.
    pub(super) fn informers(&self) -> Vec<AnyInformer> {
        let mut alive: Vec<_> = self.with_informers(|informers| {
            informers.values().filter_map(|slot| Some((slot.number, slot.informer()?))).collect()
        });
        alive.sort_unstable_by_key(|(number, _)| *number);
        let adopted = self.adopted.lock().clone();
        let alive = alive.into_iter().map(|(_, informer)| AnyInformer { informer, is_adopted: false });
        alive.chain(adopted.into_iter().map(|informer| AnyInformer { informer, is_adopted: true })).collect()
    }

    /// Starts all informers. Later informers start immediately. If they are created outside of a
    /// runtime, they start on this runtime.
    ///
    /// # Panics
    /// Panics within an index function of an informer of the factory, before an informer is started.
    pub(super) fn start(&self, runtime: Handle) {
        self.refuse_index_functions();
        self.started.get_or_init(|| runtime);
        for informer in self.all() {
            informer.start();
        }
        let unstarted: Vec<_> = self.with_informers(|informers| {
            informers.values_mut().filter_map(|slot| slot.unstarted.take()).collect()
        });
        drop(unstarted);
    }

    /// Waits for the tasks of all informers that the factory built, including informers that were
    /// removed, and for the tasks of adopted informers that a shutdown has stopped.
    pub(super) async fn wait_for_tasks(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        let stopped = self.stopped.lock().clone();
        for tasks in stopped {
            tasks.wait().await;
        }
    }

    /// Rejects all later requests for informers, and stops all informers.
    ///
    /// # Panics
    /// Panics within an index function of an informer of the factory, before the registry is changed.
    pub(super) fn shut_down(&self) {
        self.refuse_index_functions();
        // Under this lock, a concurrent adoption is either stopped here or rejected.
        let adopted = self.adopted.lock();
        self.shut_down.store(true, Ordering::Release);
        drop(adopted);
        for informer in self.all() {
            informer.begin_stop();
        }
        drop(self.with_informers(std::mem::take));
        // Under this lock, a concurrent shutdown finds each adopted informer, or its tasks.
        let mut stopped = self.stopped.lock();
        let adopted = std::mem::take(&mut *self.adopted.lock());
        stopped.extend(adopted.iter().map(|informer| informer.tasks()));
        drop(stopped);
        drop(adopted);
    }

    /// Panics if this thread runs an index function of an informer of the factory.
    fn refuse_index_functions(&self) {
        for informer in self.all() {
            informer.refuse_index_function();
        }
    }
}

/// Converts the informer to its type. The key of the informer contains the type id, so the
/// conversion succeeds.
fn downcast<T: Object>(informer: &dyn ErasedInformer) -> Informer<T> {
    match informer.as_any().downcast_ref::<Informer<T>>() {
        Some(informer) => informer.clone(),
        None => unreachable!("an informer registered under the type id of {}", type_name::<T>()),
    }
}

#[cfg(test)]
mod tests;
