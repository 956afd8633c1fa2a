//! `NamespacedInformers`: one type in several namespaces, which come and go while it runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use kube_object::{Cached, Entry, KeyRef, Object};
use kube_store::LabelSelector;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::{EventHandler, FactoryError, HandlerRegistration, Informer, NotSynced, Selected, sync};

/// An informer for each of some namespaces, and handlers that are told of all of them: for whoever may read some
/// namespaces only, or is to look at those that have a label.
///
/// A handler is told of a namespace that is added as of one it finds when it begins to look: its objects are initial
/// adds. When a namespace is removed each of its objects is told as a delete whose final state is unknown. So to a
/// handler the objects of these namespaces are all that there are, at any time.
///
/// The informers are counted ([`Selected::counted`]): one that others also use is shared with them, and goes on for
/// them when its namespace is removed here. Each has a cache and a version of its own, so what is read of several
/// namespaces is not of one moment.
///
/// Cheap to clone; all clones are one. A registered handler keeps the informers of its namespaces alive, as a handler of
/// one informer does.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Secret;
/// # use kube_informer::{Event, InformerFactory, handler_fn};
/// # async fn example(factory: InformerFactory) -> Result<(), Box<dyn std::error::Error>> {
/// let secrets = factory.select::<Secret>().namespaces(["shop", "bank"])?;
/// let told = secrets.add_handler(handler_fn(|event: &Event<Secret>| println!("{}", event.key())));
/// factory.start();
/// secrets.add("post").await?;
/// secrets.remove("bank").await;
/// # Ok(()) }
/// ```
pub struct NamespacedInformers<T: Cached> {
    selected: Selected<T>,
    of: Arc<Of<T>>,
}

/// A handler of several informers. Dropping it only detaches, as with a [`HandlerRegistration`].
pub struct NamespacedRegistration<T> {
    id: usize,
    of: Arc<Of<T>>,
}

/// Neither is locked across an await, nor while a handler is called or dropped.
struct Of<T> {
    /// Held by whoever changes which handlers are told of which namespaces. Informers are called under it, and wait for
    /// index functions to return.
    changes: Mutex<()>,
    /// What there is: also locked to read it, within index functions too, so that under it nothing else is called.
    state: Mutex<State<T>>,
}

struct State<T> {
    namespaces: BTreeMap<String, Namespace<T>>,
    handlers: BTreeMap<usize, Shared<T>>,
    next_id: usize,
}

enum Namespace<T> {
    Here {
        informer: Informer<T>,
        /// By the number of the handler.
        registrations: BTreeMap<usize, HandlerRegistration<T>>,
    },
    /// Its handlers are told that all is gone. Until these end it can't come back: they would be told of its objects by
    /// two tasks at once.
    Leaving(Ends),
}

/// Tasks of handlers, each of which drops its sender at its end.
type Ends = Vec<watch::Receiver<()>>;
type Leaving<T> = (Informer<T>, BTreeMap<usize, HandlerRegistration<T>>, Ends);
type Forgotten<T> = (Option<Shared<T>>, Vec<HandlerRegistration<T>>, Ends);

/// A handler that the tasks of several informers call in turn.
struct Shared<T>(Arc<Mutex<Box<dyn EventHandler<T>>>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: 'static> EventHandler<T> for Shared<T> {
    fn on_add(&mut self, object: &Entry<T>, is_in_initial_list: bool) {
        self.0.lock().on_add(object, is_in_initial_list);
    }

    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        self.0.lock().on_update(old, new);
    }

    fn on_delete(&mut self, last_known: &Entry<T>, final_state_unknown: bool) {
        self.0.lock().on_delete(last_known, final_state_unknown);
    }
}

impl<T: Cached> Clone for NamespacedInformers<T> {
    fn clone(&self) -> Self {
        Self { selected: self.selected.clone(), of: Arc::clone(&self.of) }
    }
}

impl<T: Cached> NamespacedInformers<T> {
    pub(crate) fn new(
        selected: Selected<T>,
        namespaces: impl IntoIterator<Item = String>,
    ) -> Result<Self, FactoryError> {
        let mut state = State { namespaces: BTreeMap::new(), handlers: BTreeMap::new(), next_id: 0 };
        for namespace in namespaces {
            let informer = selected.clone().in_one(&namespace)?.counted()?;
            state.namespaces.insert(namespace, Namespace::Here { informer, registrations: BTreeMap::new() });
        }
        Ok(Self { selected, of: Arc::new(Of { changes: Mutex::new(()), state: Mutex::new(state) }) })
    }

    /// Adds a namespace; `false` if it is there. On a factory that was started its informer starts at once. Waits until
    /// handlers that are still told of its removal have been.
    ///
    /// A namespace whose informer somebody has stopped is removed and added: handlers are not told that its objects are
    /// gone, as with [`NamespacedInformers::remove`], and are told of those that the new informer finds as initial adds.
    ///
    /// # Errors
    /// The factory is shut down, the name is empty, or objects of the type live in no namespace.
    ///
    /// # Cancel safety
    /// Safe: before it returns nothing is added; an informer that was stopped may be gone.
    pub async fn add(&self, namespace: impl Into<String>) -> Result<bool, FactoryError> {
        let namespace = namespace.into();
        // Not under the lock: what describes the resource may be a user's code.
        let informer = self.selected.clone().in_one(&namespace)?.counted()?;
        loop {
            let (leaving, stopped) = match self.of.insert(&namespace, &informer) {
                Inserted::Now => return Ok(true),
                Inserted::Before => return Ok(false),
                Inserted::NotYet(leaving) => (leaving, None),
                Inserted::InPlaceOf((stopped, _, leaving)) => (leaving, Some(stopped)),
            };
            drop(stopped);
            all_ended(leaving).await;
        }
    }

    /// Removes a namespace; `false` if it is not there. When this returns each handler has been told that the
    /// namespace's objects are gone, after all that was queued for it; unless the informer was stopped, whose handlers are
    /// told nothing more. Must not be awaited from within a handler's call.
    ///
    /// # Cancel safety
    /// The namespace is removed at the first poll; only the wait is lost.
    pub async fn remove(&self, namespace: &str) -> bool {
        let leaving = self.of.leave(namespace);
        let Some((informer, registrations, ended)) = leaving else { return false };
        for registration in registrations.into_values() {
            registration.forget_all();
        }
        drop(informer);
        all_ended(ended).await;
        self.of.state.lock().tidy(namespace);
        true
    }

    /// The namespaces, in the order of their names.
    pub fn namespaces(&self) -> BTreeSet<String> {
        self.here(|namespace, _| namespace.to_owned()).into_iter().collect()
    }

    /// The informer of a namespace: its lister, its indexes, its status. It lives for as long as somebody has it.
    pub fn informer(&self, namespace: &str) -> Option<Informer<T>> {
        match self.of.state.lock().namespaces.get(namespace)? {
            Namespace::Here { informer, .. } => Some(informer.clone()),
            Namespace::Leaving(_) => None,
        }
    }

    /// Each informer, in the order of the namespaces' names.
    pub fn informers(&self) -> Vec<Informer<T>> {
        self.here(|_, informer| informer.clone())
    }

    fn here<R>(&self, of: impl Fn(&str, &Informer<T>) -> R) -> Vec<R> {
        let state = self.of.state.lock();
        let here = |(name, namespace): (&String, &Namespace<T>)| match namespace {
            Namespace::Here { informer, .. } => Some(of(name, informer)),
            Namespace::Leaving(_) => None,
        };
        state.namespaces.iter().filter_map(here).collect()
    }

    /// Registers a handler for all namespaces, those that are added later too, with the factory's resync period. Its
    /// calls are sequential also over several namespaces, whose tasks wait for each other: it must not block.
    pub fn add_handler(&self, handler: impl EventHandler<T>) -> NamespacedRegistration<T> {
        let handler = Shared(Arc::new(Mutex::new(Box::new(handler) as Box<dyn EventHandler<T>>)));
        let _change = self.of.changes.lock();
        let here = self.here(|namespace, informer| (namespace.to_owned(), informer.clone()));
        let told: Vec<_> = here
            .into_iter()
            .map(|(namespace, informer)| (namespace, informer.add_handler(handler.clone())))
            .collect();
        let id = self.of.state.lock().register(handler, told);
        NamespacedRegistration { id, of: Arc::clone(&self.of) }
    }

    /// The object under this key, a [`KeyRef`] or an `&ObjectKey`.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let key = key.into();
        self.informer(key.namespace()?)?.lister().get_by_key(key)
    }

    /// The objects of all namespaces that this selector matches, in no order.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        self.informers().iter().flat_map(|informer| informer.lister().list(selector)).collect()
    }

    /// Whether the first list of each namespace is in its cache.
    pub fn has_synced(&self) -> bool {
        self.informers().iter().all(Informer::has_synced)
    }

    /// Waits until the first list of each namespace that is there now is in its cache.
    ///
    /// # Errors
    /// As [`InformerFactory::wait_for_sync`](crate::InformerFactory::wait_for_sync).
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn wait_for_sync(&self, within: Duration) -> Result<(), NotSynced> {
        let within = sync::patience(within);
        let informers = self.informers();
        let waits = informers.iter().map(|informer| informer.wait_for_sync(within));
        let late = join_all(waits).await.into_iter().filter_map(Result::err);
        let informers: Vec<_> = late.flat_map(|late| late.informers).collect();
        if informers.is_empty() { Ok(()) } else { Err(NotSynced { within, informers }) }
    }
}

enum Inserted<T> {
    Now,
    Before,
    NotYet(Ends),
    /// What was there was stopped and leaves.
    InPlaceOf(Leaving<T>),
}

impl<T: Object> Of<T> {
    fn insert(&self, namespace: &str, informer: &Informer<T>) -> Inserted<T> {
        let _change = self.changes.lock();
        let mut state = self.state.lock();
        state.tidy(namespace);
        match state.namespaces.get(namespace) {
            Some(Namespace::Here { informer, .. }) if informer.is_stopped() => {
                return state.leave(namespace).map_or(Inserted::Before, Inserted::InPlaceOf);
            }
            Some(Namespace::Here { .. }) => return Inserted::Before,
            Some(Namespace::Leaving(ended)) => return Inserted::NotYet(ended.clone()),
            None => {}
        }
        let handlers = state.handlers.clone();
        drop(state);
        let register = |(id, handler): (usize, Shared<T>)| (id, informer.add_handler(handler));
        let registrations = handlers.into_iter().map(register).collect();
        let here = Namespace::Here { informer: informer.clone(), registrations };
        self.state.lock().namespaces.insert(namespace.to_owned(), here);
        Inserted::Now
    }

    fn leave(&self, namespace: &str) -> Option<Leaving<T>> {
        let _change = self.changes.lock();
        self.state.lock().leave(namespace)
    }

    fn forget(&self, id: usize) -> Forgotten<T> {
        let _change = self.changes.lock();
        self.state.lock().forget(id)
    }
}

impl<T: Object> State<T> {
    /// A handler with its registrations by namespace; gives its number.
    fn register(&mut self, handler: Shared<T>, told: Vec<(String, HandlerRegistration<T>)>) -> usize {
        let id = self.next_id;
        self.next_id += 1;
        self.handlers.insert(id, handler);
        for (namespace, registration) in told {
            if let Some(Namespace::Here { registrations, .. }) = self.namespaces.get_mut(&namespace) {
                registrations.insert(id, registration);
            }
        }
        id
    }

    /// Makes a namespace leave, and gives what was there: the informer, the registrations, and when these end.
    fn leave(&mut self, namespace: &str) -> Option<Leaving<T>> {
        let found = self.namespaces.get_mut(namespace)?;
        let Namespace::Here { registrations, .. } = found else { return None };
        let ended: Vec<_> = registrations.values().map(|registration| registration.ended.clone()).collect();
        match std::mem::replace(found, Namespace::Leaving(ended.clone())) {
            Namespace::Here { informer, registrations } => Some((informer, registrations, ended)),
            Namespace::Leaving(_) => None,
        }
    }

    /// Forgets a handler, and gives its registrations and what is still told of namespaces that leave.
    fn forget(&mut self, id: usize) -> Forgotten<T> {
        let handler = self.handlers.remove(&id);
        let (mut registrations, mut leaving) = (Vec::new(), Vec::new());
        for namespace in self.namespaces.values_mut() {
            match namespace {
                Namespace::Here { registrations: of_all, .. } => registrations.extend(of_all.remove(&id)),
                Namespace::Leaving(ended) => leaving.extend(ended.iter().cloned()),
            }
        }
        (handler, registrations, leaving)
    }

    /// Forgets a namespace that has left.
    fn tidy(&mut self, namespace: &str) {
        if let Some(Namespace::Leaving(ended)) = self.namespaces.get(namespace)
            && ended.iter().all(|ended| ended.has_changed().is_err())
        {
            self.namespaces.remove(namespace);
        }
    }
}

async fn all_ended(tasks: Ends) {
    for mut ended in tasks {
        while ended.changed().await.is_ok() {}
    }
}

impl<T: Object> NamespacedRegistration<T> {
    /// Whether the handler has returned from each initial add of the namespaces that are there now.
    pub fn has_synced(&self) -> bool {
        self.each(HandlerRegistration::has_synced).into_iter().all(|synced| synced)
    }

    /// Waits until the handler has returned from each initial add of the namespaces that are there when this is called,
    /// or are added meanwhile; `false` if that did not happen within the time, or never can.
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn wait_for_sync(&self, within: Duration) -> bool {
        let within = sync::patience(within);
        // Beyond the clock is never.
        let deadline = Instant::now().checked_add(within);
        let left = || deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        let late = |registration: &HandlerRegistration<T>| {
            (!registration.has_synced()).then(|| (registration.mailbox.synced(), registration.ended.clone()))
        };
        while let Some((synced, ended)) = self.each(late).into_iter().flatten().next() {
            // It is there and has ended: its informer was stopped.
            if ended.has_changed().is_err() || left().is_zero() {
                return false;
            }
            tokio::select! {
                biased;
                _ = sync::wait_true(synced, left()) => {}
                () = all_ended(vec![ended]) => {}
            }
        }
        true
    }

    /// Events that wait for the handler, of all namespaces.
    pub fn pending(&self) -> usize {
        self.each(HandlerRegistration::pending).into_iter().sum()
    }

    /// How often the handler has panicked over what is in the namespaces that are there now.
    pub fn panics(&self) -> u64 {
        self.each(HandlerRegistration::panics).into_iter().sum()
    }

    fn each<R>(&self, of: impl Fn(&HandlerRegistration<T>) -> R) -> Vec<R> {
        let state = self.of.state.lock();
        let mine = |namespace: &Namespace<T>| match namespace {
            Namespace::Here { registrations, .. } => registrations.get(&self.id).map(&of),
            Namespace::Leaving(_) => None,
        };
        state.namespaces.values().filter_map(mine).collect()
    }

    /// Removes the handler; what is queued for it is dropped. When this returns no call is running, and none will
    /// follow; if it is still told of namespaces that were removed before, that is waited for. Must not be awaited from
    /// within the handler's own calls.
    ///
    /// # Cancel safety
    /// The handler is removed at the first poll; only the wait for a running call is lost.
    pub async fn remove(self) {
        let (handler, registrations, leaving) = self.of.forget(self.id);
        drop(handler);
        join_all(registrations.into_iter().map(HandlerRegistration::remove)).await;
        all_ended(leaving).await;
    }
}
