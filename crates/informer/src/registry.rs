//! `Registry`: the informers of a factory, each under what makes it the same one.

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

use crate::{FactoryError, Informer, InformerStatus, Unsynced};

/// Never locked across an await, nor while an informer is made or started: entries are cloned out first.
#[derive(Default)]
pub(crate) struct Registry {
    informers: DashMap<Key, Slot>,
    /// Made elsewhere, and kept until the shutdown.
    adopted: Mutex<Vec<Arc<dyn AnyInformer>>>,
    /// How many slots there have been.
    slots: AtomicU64,
    /// Where it was started, once it was.
    started: OnceLock<Handle>,
    shut_down: AtomicBool,
    /// The tasks of each informer that was made here and that is not known to have left nothing behind.
    tasks: Mutex<Vec<TaskTracker>>,
}

/// What makes two requests for an informer the same one: everything else is the factory's.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) cached: TypeId,
    /// Kind and URL.
    pub(crate) name: String,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
}

/// Who keeps an informer of the registry alive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The registry.
    ByFactory,
    /// Nobody but those who have a use for it.
    ByUsers,
}

struct Slot {
    /// The order in which informers are shown.
    number: u64,
    /// Keeps it alive.
    pinned: Option<Arc<dyn AnyInformer>>,
    /// What was set up of it, handlers too, until it starts: from then on its own task holds that.
    unstarted: Option<Arc<dyn Any + Send + Sync>>,
    /// Finds it while it is alive.
    find: Box<dyn Fn() -> Option<Arc<dyn AnyInformer>> + Send + Sync>,
}

impl Slot {
    fn of<T: Object>(informer: &Informer<T>, number: u64) -> Self {
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

    /// Unless somebody has stopped it: its cache will never be fresh again.
    fn usable(&self) -> Option<Arc<dyn AnyInformer>> {
        self.informer().filter(|informer| !informer.is_stopped())
    }
}

impl Registry {
    /// The informer under this key, or the one that is made.
    pub(crate) fn get_or<T: Object>(
        &self,
        key: &Key,
        kept: Kept,
        make: impl FnOnce() -> Informer<T>,
    ) -> Result<Informer<T>, FactoryError> {
        let gone = || FactoryError::ShutDown(key.name.clone());
        if self.shut_down.load(Ordering::Acquire) {
            return Err(gone());
        }
        let found = self.informers.get(key).and_then(|slot| slot.usable());
        // Not under the lock: what describes the resource may be a user's code.
        let informer = match found {
            Some(found) => typed(found.as_ref()),
            None => self.remembered(make()),
        };
        let informer = self.insert(key.clone(), informer, kept);
        // A shutdown that came meanwhile may not have seen it.
        if self.shut_down.load(Ordering::Acquire) {
            self.informers.remove(key);
            informer.shared.stop();
            return Err(gone());
        }
        if let Some(runtime) = self.started.get() {
            informer.start_within(runtime);
            let unstarted = self.informers.get_mut(key).and_then(|mut slot| slot.unstarted.take());
            drop(unstarted); // not under the lock
        }
        Ok(informer)
    }

    /// An informer that was stopped, removed or dropped is no longer found, and may still be ending.
    fn remembered<T: Object>(&self, informer: Informer<T>) -> Informer<T> {
        let mut all = self.tasks.lock();
        all.retain(|tasks| !(tasks.is_closed() && tasks.is_empty()));
        all.push(informer.shared.tasks.clone());
        drop(all);
        informer
    }

    /// Makes this the informer under the key, unless somebody was faster: then that one is.
    fn insert<T: Object>(&self, key: Key, informer: Informer<T>, kept: Kept) -> Informer<T> {
        let number = self.slots.fetch_add(1, Ordering::Relaxed);
        let mut slot = match self.informers.entry(key) {
            Entry::Occupied(slot) => slot.into_ref(),
            Entry::Vacant(vacant) => vacant.insert(Slot::of(&informer, number)),
        };
        let (informer, replaced) = match slot.usable() {
            Some(faster) => (typed(faster.as_ref()), None),
            None => {
                let new = Slot::of(&informer, number);
                (informer, Some(std::mem::replace(slot.value_mut(), new)))
            }
        };
        if kept == Kept::ByFactory && slot.pinned.is_none() {
            slot.pinned = Some(Arc::new(informer.clone()));
        }
        // Not under the lock: an informer that was stopped may hold the last of a user's functions.
        drop(slot);
        drop(replaced);
        informer
    }

    /// Starts, shows and stops an informer that was made elsewhere with those that were made here.
    pub(crate) fn adopt<T: Object>(&self, informer: &Informer<T>) -> Result<(), FactoryError> {
        let is_known = |known: &Arc<dyn AnyInformer>| {
            let known = known.as_any().downcast_ref::<Informer<T>>();
            known.is_some_and(|known| Arc::ptr_eq(&known.shared, &informer.shared))
        };
        if self.all().iter().any(is_known) {
            return Ok(());
        }
        let mut adopted = self.adopted.lock();
        if self.shut_down.load(Ordering::Acquire) {
            return Err(FactoryError::ShutDown(informer.shared.config.name.clone()));
        }
        if !adopted.iter().any(is_known) {
            adopted.push(Arc::new(self.remembered(informer.clone())));
        }
        drop(adopted);
        if let Some(runtime) = self.started.get() {
            informer.start_within(runtime);
        }
        Ok(())
    }

    /// Takes out an informer, which is the caller's to stop.
    pub(crate) fn remove(&self, key: &Key) -> Option<Arc<dyn AnyInformer>> {
        let (_, slot) = self.informers.remove(key)?;
        slot.informer()
    }

    /// Those that are alive, in the order in which they came; forgets the others.
    pub(crate) fn all(&self) -> Vec<Arc<dyn AnyInformer>> {
        let (mut alive, mut gone) = (Vec::new(), Vec::new());
        for slot in &self.informers {
            match slot.informer() {
                Some(informer) => alive.push((slot.number, informer)),
                None => gone.push(slot.key().clone()),
            }
        }
        for key in gone {
            // Dropped after the lock, with a user's functions.
            let _gone = self.informers.remove_if(&key, |_, slot| slot.informer().is_none());
        }
        alive.sort_unstable_by_key(|(number, _)| *number);
        let adopted = self.adopted.lock().clone();
        alive.into_iter().map(|(_, informer)| informer).chain(adopted).collect()
    }

    pub(crate) fn status(&self) -> Vec<InformerStatus> {
        let adopted = self.adopted.lock().clone();
        let is_adopted = |informer| adopted.iter().any(|adopted| Arc::ptr_eq(adopted, informer));
        let all = self.all();
        all.iter()
            .map(|informer| InformerStatus { adopted: is_adopted(informer), ..informer.status() })
            .collect()
    }

    /// Starts what is there; from now on new informers start by themselves, on this runtime where whoever asks has none.
    pub(crate) fn start(&self, runtime: Handle) {
        self.started.get_or_init(|| runtime);
        for informer in self.all() {
            informer.start();
        }
        let unstarted: Vec<_> =
            self.informers.iter_mut().filter_map(|mut slot| slot.unstarted.take()).collect();
        drop(unstarted); // not under the locks
    }

    /// Those of each informer that there was, for a shutdown to wait for: they have ended, or are about to.
    pub(crate) fn tasks(&self) -> Vec<TaskTracker> {
        self.tasks.lock().clone()
    }

    /// From now on there are no informers; gives those to stop.
    pub(crate) fn shut_down(&self) -> Vec<Arc<dyn AnyInformer>> {
        // Under the lock: what is adopted meanwhile is either stopped here or refused.
        let adopted = self.adopted.lock();
        self.shut_down.store(true, Ordering::Release);
        drop(adopted);
        let informers = self.all();
        self.informers.clear();
        self.adopted.lock().clear();
        informers
    }
}

type Waiting<'a, O> = Pin<Box<dyn Future<Output = O> + Send + 'a>>;

/// An informer whose type is forgotten: what the factory does with all of them.
pub(crate) trait AnyInformer: Send + Sync {
    fn start(&self);
    fn stop(&self) -> Waiting<'_, ()>;
    fn is_stopped(&self) -> bool;
    fn wait_for_sync(&self, within: Duration) -> Waiting<'_, Option<Unsynced>>;
    fn status(&self) -> InformerStatus;
    fn as_any(&self) -> &dyn Any;
}

impl<T: Object> AnyInformer for Informer<T> {
    fn start(&self) {
        Informer::start(self);
    }

    fn stop(&self) -> Waiting<'_, ()> {
        Box::pin(Informer::stop(self))
    }

    fn is_stopped(&self) -> bool {
        Informer::is_stopped(self)
    }

    fn wait_for_sync(&self, within: Duration) -> Waiting<'_, Option<Unsynced>> {
        Box::pin(async move { Informer::wait_for_sync(self, within).await.err().map(|_| self.unsynced()) })
    }

    fn status(&self) -> InformerStatus {
        Informer::status(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The key holds the type, so the informer behind it is of that type.
fn typed<T: Object>(informer: &dyn AnyInformer) -> Informer<T> {
    match informer.as_any().downcast_ref::<Informer<T>>() {
        Some(informer) => informer.clone(),
        None => unreachable!("an informer registered under the type id of {}", type_name::<T>()),
    }
}
