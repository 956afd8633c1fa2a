//! `MultiNamespaceInformer`: informers of one type in several namespaces. Namespaces can be added
//! and removed at run time.

mod registration;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube_object::{Cached, KeyRef, Object};
use kube_store::{LabelSelector, refuse_all_index_functions};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::{FactoryError, Selection, shared_handler::SharedHandler};
use crate::{CacheSyncError, EventHandler, HandlerRegistration, Informer, handlers::LagPolicy, sync};

/// Runs one informer for each namespace of a set. Each handler receives the events of all these
/// namespaces.
///
/// Use this type if your program may read only some namespaces, or if the set of namespaces changes
/// at run time.
///
/// If you add a namespace, each handler receives the objects of this namespace as initial adds. If
/// you remove a namespace, each handler receives a delete of each object of this namespace, with
/// [`Removal::Left`](kube_object::Removal::Left).
///
/// The informers are reference-counted ([`Selection::ref_counted_informer`]). If an informer has
/// other users, it continues to run after its namespace is removed. Each informer has a separate
/// cache and resourceVersion, so a read of several namespaces is not a consistent snapshot.
///
/// This type is cheap to clone, and all clones share their namespaces and handlers. The clones and
/// the registrations keep the informers alive.
///
/// Within an index function, you can read the namespaces and drop registrations. The methods that
/// add or remove namespaces or handlers panic.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Secret;
/// use kube_informer::{Event, InformerFactory, handler_fn};
///
/// # async fn example(factory: InformerFactory) -> Result<(), Box<dyn std::error::Error>> {
/// let secrets = factory.select::<Secret>().namespaces(["shop", "bank"])?;
/// let registration =
///     secrets.add_handler(handler_fn(|event: &Event<Secret>| println!("{}", event.key())));
/// factory.start();
/// secrets.add_namespace("post").await?;
/// secrets.remove_namespace("bank").await;
/// # Ok(()) }
/// ```
pub struct MultiNamespaceInformer<T: Cached> {
    selection: Selection<T>,
    inner: Arc<MultiNamespaceState<T>>,
}

/// Owns a handler of a [`MultiNamespaceInformer`]. If the registration is dropped, the handler is
/// removed and its queued events are dropped.
#[must_use = "dropping the registration removes the handler; keep it, or call `detach`"]
pub struct MultiNamespaceRegistration<T: Object> {
    id: usize,
    /// True if a drop must not remove the handler.
    released: bool,
    inner: Arc<MultiNamespaceState<T>>,
}

/// No lock is held across an await, or while a handler is called or dropped.
struct MultiNamespaceState<T: Object> {
    /// Locked while namespaces or handlers are added or removed. The holder of this lock calls
    /// methods of informers, which can wait for index functions. An index function therefore never
    /// waits for this lock. A dropped registration is removed without this lock.
    changes: Mutex<()>,
    /// Also locked for reads, even within index functions. The holder of this lock calls no user
    /// code and no methods of informers.
    table: Mutex<NamespaceTable<T>>,
}

struct NamespaceTable<T: Object> {
    namespaces: BTreeMap<String, NamespaceEntry<T>>,
    handlers: BTreeMap<usize, SharedHandler<T>>,
    next_id: usize,
}

enum NamespaceEntry<T: Object> {
    Active {
        informer: Informer<T>,
        registrations: Registrations<T>,
    },
    /// The handlers still receive deletes. The namespace cannot be added again before their tasks
    /// have completed. Otherwise, two tasks would deliver events of the same objects.
    Removing(EndSignals),
}

/// One receiver for each handler task. The task drops the sender when it completes.
type EndSignals = Vec<watch::Receiver<()>>;
/// The registrations by the id of the handler.
type Registrations<T> = BTreeMap<usize, HandlerRegistration<T>>;
type RemovedNamespace<T> = (Informer<T>, Registrations<T>, EndSignals);
type RemovedHandler<T> = (Option<SharedHandler<T>>, Vec<HandlerRegistration<T>>, EndSignals);

impl<T: Cached> Clone for MultiNamespaceInformer<T> {
    fn clone(&self) -> Self {
        Self { selection: self.selection.clone(), inner: Arc::clone(&self.inner) }
    }
}

impl<T: Cached> Selection<T> {
    /// Returns a [`MultiNamespaceInformer`] with these namespaces. They replace the namespace of
    /// the factory. You can add and remove namespaces later.
    ///
    /// # Errors
    /// Returns the errors of [`MultiNamespaceInformer::add_namespace`].
    pub fn namespaces<N: Into<String>>(
        self,
        namespaces: impl IntoIterator<Item = N>,
    ) -> Result<MultiNamespaceInformer<T>, FactoryError> {
        MultiNamespaceInformer::new(self, namespaces.into_iter().map(Into::into))
    }
}

impl<T: Cached> MultiNamespaceInformer<T> {
    fn new(
        selection: Selection<T>,
        namespaces: impl IntoIterator<Item = String>,
    ) -> Result<Self, FactoryError> {
        let mut table = NamespaceTable { namespaces: BTreeMap::new(), handlers: BTreeMap::new(), next_id: 0 };
        for namespace in namespaces {
            let informer = selection.clone().single_namespace(&namespace)?.ref_counted_informer()?;
            let active = NamespaceEntry::Active { informer, registrations: BTreeMap::new() };
            table.namespaces.insert(namespace, active);
        }
        let inner = MultiNamespaceState { changes: Mutex::new(()), table: Mutex::new(table) };
        Ok(Self { selection, inner: Arc::new(inner) })
    }

    /// Adds a namespace. Returns false if the namespace is already in the set.
    ///
    /// If the factory is started, the new informer starts immediately. If the same namespace is
    /// being removed, the method first waits until all handlers have received their deletes.
    ///
    /// If the namespace has a stopped informer, this informer is replaced. In this case, the
    /// handlers receive no deletes. They receive the objects of the new informer as initial adds.
    ///
    /// # Errors
    /// Returns the errors of [`Selection::informer`]. Also returns
    /// [`FactoryError::InvalidNamespace`] if the name is empty or the type is cluster-scoped.
    ///
    /// # Cancel safety
    /// If you drop the future, the namespace is not added. If the namespace had a stopped informer,
    /// this informer may already be removed. To add the namespace, call the method again.
    pub async fn add_namespace(&self, namespace: impl Into<String>) -> Result<bool, FactoryError> {
        let namespace = namespace.into();
        // Runs without a lock, because it may call user code that describes the resource.
        let informer = self.selection.clone().single_namespace(&namespace)?.ref_counted_informer()?;
        loop {
            let (ending, stopped) = match self.inner.insert(&namespace, &informer) {
                InsertOutcome::Added => return Ok(true),
                InsertOutcome::Exists => return Ok(false),
                InsertOutcome::StillRemoving(ending) => (ending, None),
                InsertOutcome::RemovedStopped((stopped, _, ending)) => (ending, Some(stopped)),
            };
            drop(stopped);
            wait_for_ends(ending).await;
        }
    }

    /// Removes a namespace. Returns false if the namespace is not in the set.
    ///
    /// Waits until each handler has received its queued events, and then a delete of each object of
    /// the namespace. If the informer was stopped before, the handlers receive no deletes.
    ///
    /// Do not wait for this method within a handler call, because the call and the method would
    /// wait for each other indefinitely.
    ///
    /// # Cancel safety
    /// The first poll removes the namespace. If you drop the future after this poll, the handlers
    /// still receive the deletes, but you do not know when.
    pub async fn remove_namespace(&self, namespace: &str) -> bool {
        let removed = self.inner.begin_removal(namespace);
        let Some((informer, registrations, ending)) = removed else { return false };
        for registration in registrations.into_values() {
            registration.remove_with_deletes();
        }
        drop(informer);
        wait_for_ends(ending).await;
        self.inner.table.lock().finish_removal(namespace);
        true
    }

    /// Returns the namespaces, sorted by name.
    pub fn namespaces(&self) -> BTreeSet<String> {
        self.map_active(|namespace, _| namespace.to_owned()).into_iter().collect()
    }

    /// Returns the informer of a namespace. Returns `None` if the namespace is not in the set.
    pub fn informer(&self, namespace: &str) -> Option<Informer<T>> {
        match self.inner.table.lock().namespaces.get(namespace)? {
            NamespaceEntry::Active { informer, .. } => Some(informer.clone()),
            NamespaceEntry::Removing(_) => None,
        }
    }

    /// Returns all informers, sorted by namespace.
    pub fn informers(&self) -> Vec<Informer<T>> {
        self.map_active(|_, informer| informer.clone())
    }

    fn map_active<R>(&self, map: impl Fn(&str, &Informer<T>) -> R) -> Vec<R> {
        let table = self.inner.table.lock();
        let active = |(name, entry): (&String, &NamespaceEntry<T>)| match entry {
            NamespaceEntry::Active { informer, .. } => Some(map(name, informer)),
            NamespaceEntry::Removing(_) => None,
        };
        table.namespaces.iter().filter_map(active).collect()
    }

    /// Registers a handler for all current and later namespaces, with the default resync period of
    /// the factory.
    ///
    /// The handler receives one event at a time, even if several namespaces have events. The
    /// handler must not block, because the handler tasks of the other namespaces wait for the
    /// running call.
    pub fn add_handler(&self, handler: impl EventHandler<T>) -> MultiNamespaceRegistration<T> {
        self.register(SharedHandler::new(handler, LagPolicy::Coalesce))
    }

    /// Registers a handler that receives every event of all current and later namespaces. The
    /// informers wait for the handler, as described at [`Informer::add_backpressured_handler`].
    pub fn add_backpressured_handler(&self, handler: impl EventHandler<T>) -> MultiNamespaceRegistration<T> {
        self.register(SharedHandler::new(handler, LagPolicy::Backpressure))
    }

    fn register(&self, handler: SharedHandler<T>) -> MultiNamespaceRegistration<T> {
        let _change = self.inner.lock_changes();
        let active = self.map_active(|namespace, informer| (namespace.to_owned(), informer.clone()));
        let registrations: Vec<_> = active
            .into_iter()
            .map(|(namespace, informer)| (namespace, handler.clone().register(&informer)))
            .collect();
        let id = self.inner.table.lock().register(handler, registrations);
        MultiNamespaceRegistration { id, released: false, inner: Arc::clone(&self.inner) }
    }

    /// Returns the object with this key. The key is a [`KeyRef`] or an `&ObjectKey`. Returns `None`
    /// if the key has no namespace.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let key = key.into();
        self.informer(key.namespace()?)?.lister().get_by_key(key)
    }

    /// Returns the objects of all namespaces that match this selector, in no particular order.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        self.informers().iter().flat_map(|informer| informer.lister().list(selector)).collect()
    }

    /// Returns whether the initial list of each namespace is cached.
    pub fn has_synced(&self) -> bool {
        self.informers().iter().all(Informer::has_synced)
    }

    /// Waits until the initial list of each current namespace is cached.
    ///
    /// # Errors
    /// Returns a [`CacheSyncError`] if an informer is not synced within the timeout, or if an
    /// informer is stopped. If the server rejects the list of an informer as invalid (400, 414, 422
    /// or 431), the method returns without waiting for the timeout.
    ///
    /// The error contains all informers that are not synced, sorted by name, each with its last
    /// failure. Informers that were not stopped continue to retry.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), CacheSyncError> {
        let timeout = sync::effective_timeout(timeout);
        let informers = self.informers();
        let wait = async |informer: &Informer<T>| {
            let error = informer.wait_for_sync(timeout).await.err()?;
            error.informers.into_iter().next()
        };
        let unsynced = || {
            let unsynced = informers.iter().filter(|informer| !informer.has_synced());
            unsynced.map(Informer::unsynced).collect()
        };
        sync::wait_for_all(timeout, informers.iter().map(wait), unsynced).await
    }
}

enum InsertOutcome<T: Object> {
    Added,
    Exists,
    StillRemoving(EndSignals),
    /// The previous informer was stopped. It is now being removed.
    RemovedStopped(RemovedNamespace<T>),
}

impl<T: Object> MultiNamespaceState<T> {
    /// Locks the changes.
    ///
    /// # Panics
    /// Panics within an index function. The holder of the lock can wait for the index functions of any
    /// informer, because the informer of an added namespace can have other users.
    fn lock_changes(&self) -> MutexGuard<'_, ()> {
        refuse_all_index_functions();
        self.changes.lock()
    }

    fn insert(&self, namespace: &str, informer: &Informer<T>) -> InsertOutcome<T> {
        let change = self.lock_changes();
        let mut table = self.table.lock();
        table.finish_removal(namespace);
        match table.namespaces.get(namespace) {
            Some(NamespaceEntry::Active { informer, .. }) if informer.is_stopped() => {
                return table
                    .begin_removal(namespace)
                    .map_or(InsertOutcome::Exists, InsertOutcome::RemovedStopped);
            }
            Some(NamespaceEntry::Active { .. }) => return InsertOutcome::Exists,
            Some(NamespaceEntry::Removing(ending)) => return InsertOutcome::StillRemoving(ending.clone()),
            None => {}
        }
        let handlers = table.handlers.clone();
        drop(table);
        let register = |(id, handler): (usize, SharedHandler<T>)| (id, handler.register(informer));
        let registrations = handlers.into_iter().map(register).collect();
        let removed = self.table.lock().activate(namespace, informer, registrations);
        drop(change);
        drop(removed);
        InsertOutcome::Added
    }

    fn begin_removal(&self, namespace: &str) -> Option<RemovedNamespace<T>> {
        let _change = self.lock_changes();
        self.table.lock().begin_removal(namespace)
    }

    fn remove_handler(&self, id: usize) -> RemovedHandler<T> {
        let _change = self.lock_changes();
        self.table.lock().remove_handler(id)
    }
}

impl<T: Object> NamespaceTable<T> {
    /// Adds a handler with its registrations by namespace, and returns its id.
    fn register(
        &mut self,
        handler: SharedHandler<T>,
        by_namespace: Vec<(String, HandlerRegistration<T>)>,
    ) -> usize {
        let id = self.next_id;
        self.next_id += 1;
        self.handlers.insert(id, handler);
        for (namespace, registration) in by_namespace {
            if let Some(NamespaceEntry::Active { registrations, .. }) = self.namespaces.get_mut(&namespace) {
                registrations.insert(id, registration);
            }
        }
        id
    }

    /// Adds a namespace with its registrations. Returns the registrations of handlers that were
    /// dropped in the meantime.
    fn activate(
        &mut self,
        namespace: &str,
        informer: &Informer<T>,
        registrations: Registrations<T>,
    ) -> Registrations<T> {
        let (registrations, removed) =
            registrations.into_iter().partition(|(id, _)| self.handlers.contains_key(id));
        let active = NamespaceEntry::Active { informer: informer.clone(), registrations };
        self.namespaces.insert(namespace.to_owned(), active);
        removed
    }

    /// Starts the removal of a namespace. Returns its informer, its registrations, and the end
    /// signals of the handler tasks.
    fn begin_removal(&mut self, namespace: &str) -> Option<RemovedNamespace<T>> {
        let found = self.namespaces.get_mut(namespace)?;
        let NamespaceEntry::Active { registrations, .. } = found else { return None };
        let ending: Vec<_> = registrations.values().map(|registration| registration.signals().1).collect();
        match std::mem::replace(found, NamespaceEntry::Removing(ending.clone())) {
            NamespaceEntry::Active { informer, registrations } => Some((informer, registrations, ending)),
            NamespaceEntry::Removing(_) => None,
        }
    }

    /// Completes the removal of a namespace, if all its handler tasks have completed.
    fn finish_removal(&mut self, namespace: &str) {
        if let Some(NamespaceEntry::Removing(ending)) = self.namespaces.get(namespace)
            && ending.iter().all(|ended| ended.has_changed().is_err())
        {
            self.namespaces.remove(namespace);
        }
    }

    /// Removes a handler. Returns the handler, its registrations, and the end signals of namespaces
    /// that are being removed.
    fn remove_handler(&mut self, id: usize) -> RemovedHandler<T> {
        let handler = self.handlers.remove(&id);
        let (mut removed, mut ending) = (Vec::new(), Vec::new());
        for entry in self.namespaces.values_mut() {
            match entry {
                NamespaceEntry::Active { registrations, .. } => removed.extend(registrations.remove(&id)),
                NamespaceEntry::Removing(ended) => ending.extend(ended.iter().cloned()),
            }
        }
        (handler, removed, ending)
    }
}

async fn wait_for_ends(signals: EndSignals) {
    for mut ended in signals {
        while ended.changed().await.is_ok() {}
    }
}
