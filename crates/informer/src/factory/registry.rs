//! `Registry`: the informers of a factory, by type and selection.

use std::{
    any::{Any, TypeId, type_name},
    future::Future,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use dashmap::{DashMap, Entry};
use kube_object::Object;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::FactoryError;
use crate::{Informer, InformerStatus, UnsyncedInformer};

/// Holds the informers of a factory.
///
/// No lock is held across an await, or while an informer is built or started. The methods clone the
/// entries first.
#[derive(Default)]
pub(super) struct Registry {
    informers: DashMap<InformerKey, InformerSlot>,
    /// The adopted informers. The registry holds them until the shutdown.
    adopted: Mutex<Vec<Arc<dyn AnyInformer>>>,
    /// The number of created slots.
    slots: AtomicU64,
    /// The runtime on which the factory was started.
    started: OnceLock<Handle>,
    shut_down: AtomicBool,
    /// The tasks of all informers, including informers that are no longer in the registry.
    /// Completed trackers are removed.
    tasks: Mutex<Vec<TaskTracker>>,
}

/// Identifies an informer within a factory. All informers of a factory have the same other
/// settings.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct InformerKey {
    pub(super) cached: TypeId,
    pub(super) kind_and_path: String,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
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
        name
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
    pinned: Option<Arc<dyn AnyInformer>>,
    /// The state and the handlers of an informer that is not started. After the start, the task of
    /// the informer holds this state.
    unstarted: Option<Arc<dyn Any + Send + Sync>>,
    /// Returns the informer while it is alive.
    find: Box<dyn Fn() -> Option<Arc<dyn AnyInformer>> + Send + Sync>,
}

impl InformerSlot {
    fn new<T: Object>(informer: &Informer<T>, number: u64) -> Self {
        let weak = informer.downgrade();
        Self {
            number,
            pinned: None,
            unstarted: Some(Arc::clone(&informer.shared) as _),
            find: Box::new(move || Some(Arc::new(weak.upgrade()?))),
        }
    }

    fn informer(&self) -> Option<Arc<dyn AnyInformer>> {
        self.pinned.clone().or_else(|| (self.find)())
    }

    /// Returns the informer if it was not stopped. A stopped informer never updates its cache
    /// again.
    fn usable(&self) -> Option<Arc<dyn AnyInformer>> {
        self.informer().filter(|informer| !informer.is_stopped())
    }
}

impl Registry {
    /// Returns the informer of this key, or builds one.
    pub(super) fn get_or_insert<T: Object>(
        &self,
        key: &InformerKey,
        ownership: Ownership,
        build: impl FnOnce() -> Informer<T>,
    ) -> Result<Informer<T>, FactoryError> {
        let is_shut_down = || FactoryError::ShutDown(key.kind_and_path.clone());
        if self.shut_down.load(Ordering::Acquire) {
            return Err(is_shut_down());
        }
        let found = self.informers.get(key).and_then(|slot| slot.usable());
        // Runs without a lock, because `build` may call user code that describes the resource.
        let informer = match found {
            Some(found) => downcast(found.as_ref()),
            None => self.track_tasks(build()),
        };
        let informer = self.insert(key.clone(), informer, ownership);
        // A concurrent shutdown may have missed this informer.
        if self.shut_down.load(Ordering::Acquire) {
            self.informers.remove(key);
            informer.shared.stop();
            return Err(is_shut_down());
        }
        if let Some(runtime) = self.started.get() {
            informer.start_on(runtime);
            let unstarted = self.informers.get_mut(key).and_then(|mut slot| slot.unstarted.take());
            drop(unstarted); // The lock is released before this drop.
        }
        Ok(informer)
    }

    /// Stores the task tracker of an informer. After a stop, a removal or a drop, the registry no
    /// longer contains the informer, but its tasks may still run.
    fn track_tasks<T: Object>(&self, informer: Informer<T>) -> Informer<T> {
        let mut all = self.tasks.lock();
        all.retain(|tasks| !(tasks.is_closed() && tasks.is_empty()));
        all.push(informer.shared.tasks.clone());
        drop(all);
        informer
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
        let mut slot = match self.informers.entry(key) {
            Entry::Occupied(slot) => slot.into_ref(),
            Entry::Vacant(vacant) => vacant.insert(InformerSlot::new(&informer, number)),
        };
        let (informer, replaced) = match slot.usable() {
            Some(first) => (downcast(first.as_ref()), None),
            None => {
                let new = InformerSlot::new(&informer, number);
                (informer, Some(std::mem::replace(slot.value_mut(), new)))
            }
        };
        if ownership == Ownership::Factory && slot.pinned.is_none() {
            slot.pinned = Some(Arc::new(informer.clone()));
        }
        // The lock is released first, because a stopped informer may hold the last reference to
        // user functions.
        drop(slot);
        drop(replaced);
        informer
    }

    /// Adds an informer that was created by a builder or by another factory.
    pub(super) fn adopt<T: Object>(&self, informer: &Informer<T>) -> Result<(), FactoryError> {
        let is_same = |other: &Arc<dyn AnyInformer>| {
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
        if !adopted.iter().any(is_same) {
            adopted.push(Arc::new(self.track_tasks(informer.clone())));
        }
        drop(adopted);
        if let Some(runtime) = self.started.get() {
            informer.start_on(runtime);
        }
        Ok(())
    }

    /// Removes an informer. The caller must stop it.
    pub(super) fn remove(&self, key: &InformerKey) -> Option<Arc<dyn AnyInformer>> {
        let (_, slot) = self.informers.remove(key)?;
        slot.informer()
    }

    /// Returns the informers that still exist, in the order of their creation, and then the adopted
    /// informers. Removes the slots of dropped informers.
    pub(super) fn all(&self) -> Vec<Arc<dyn AnyInformer>> {
        let (mut alive, mut dropped) = (Vec::new(), Vec::new());
        for slot in &self.informers {
            match slot.informer() {
                Some(informer) => alive.push((slot.number, informer)),
                None => dropped.push(slot.key().clone()),
            }
        }
        for key in dropped {
            // The slot is dropped after the lock is released, because it may hold user functions.
            let _slot = self.informers.remove_if(&key, |_, slot| slot.informer().is_none());
        }
        alive.sort_unstable_by_key(|(number, _)| *number);
        let adopted = self.adopted.lock().clone();
        alive.into_iter().map(|(_, informer)| informer).chain(adopted).collect()
    }

    pub(super) fn status(&self) -> Vec<InformerStatus> {
        let adopted = self.adopted.lock().clone();
        let is_adopted = |informer| adopted.iter().any(|adopted| Arc::ptr_eq(adopted, informer));
        let all = self.all();
        all.iter()
            .map(|informer| InformerStatus { adopted: is_adopted(informer), ..informer.status() })
            .collect()
    }

    /// Starts all informers. Later informers start immediately. If they are created outside of a
    /// runtime, they start on this runtime.
    pub(super) fn start(&self, runtime: Handle) {
        self.started.get_or_init(|| runtime);
        for informer in self.all() {
            informer.start();
        }
        let unstarted: Vec<_> =
            self.informers.iter_mut().filter_map(|mut slot| slot.unstarted.take()).collect();
        drop(unstarted); // The locks are released before this drop.
    }

    /// Returns the task trackers of all informers, including informers that were removed.
    pub(super) fn tasks(&self) -> Vec<TaskTracker> {
        self.tasks.lock().clone()
    }

    /// Rejects all later requests for informers. Returns the informers that the caller must stop.
    pub(super) fn shut_down(&self) -> Vec<Arc<dyn AnyInformer>> {
        // Under this lock, a concurrent adoption is either returned here or rejected.
        let adopted = self.adopted.lock();
        self.shut_down.store(true, Ordering::Release);
        drop(adopted);
        let informers = self.all();
        self.informers.clear();
        self.adopted.lock().clear();
        informers
    }
}

type BoxFuture<'a, O> = Pin<Box<dyn Future<Output = O> + Send + 'a>>;

/// The operations of a factory on an informer of any object type.
pub(super) trait AnyInformer: Send + Sync {
    fn start(&self);
    fn stop(&self) -> BoxFuture<'_, ()>;
    fn is_stopped(&self) -> bool;
    fn wait_for_sync(&self, timeout: Duration) -> BoxFuture<'_, Option<UnsyncedInformer>>;
    fn status(&self) -> InformerStatus;
    fn as_any(&self) -> &dyn Any;
}

impl<T: Object> AnyInformer for Informer<T> {
    fn start(&self) {
        Informer::start(self);
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(Informer::stop(self))
    }

    fn is_stopped(&self) -> bool {
        Informer::is_stopped(self)
    }

    fn wait_for_sync(&self, timeout: Duration) -> BoxFuture<'_, Option<UnsyncedInformer>> {
        Box::pin(async move { Informer::wait_for_sync(self, timeout).await.err().map(|_| self.unsynced()) })
    }

    fn status(&self) -> InformerStatus {
        Informer::status(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Converts the informer to its type. The key of the informer contains the type id, so the
/// conversion succeeds.
fn downcast<T: Object>(informer: &dyn AnyInformer) -> Informer<T> {
    match informer.as_any().downcast_ref::<Informer<T>>() {
        Some(informer) => informer.clone(),
        None => unreachable!("an informer registered under the type id of {}", type_name::<T>()),
    }
}
