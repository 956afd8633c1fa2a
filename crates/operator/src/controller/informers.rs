//! `Informers`: one or several informers of a type, as one source of a controller.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all, select_all},
};
use kube_informer::{
    Cached, CachedReadError, EventHandler, HandlerRegistration, Informer, InformerFactory, InformerId,
    MultiNamespaceInformer, MultiNamespaceRegistration, ObjectKey, Phase,
};

use crate::shards::gate::SourceInformers;

/// The delay before the next wait, while the server rejects the list.
const REJECTED_RETRY: Duration = Duration::from_secs(5);

/// A timeout that never expires in practice.
const NO_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Contains one or several informers of a type. The methods of a
/// [`Controller`](crate::Controller) accept each of these values:
///
/// - an `&Informer`
/// - a `&CachedApi`. The controller uses the informer of the `CachedApi`.
/// - an `&MultiNamespaceInformer`: namespaces can be added and removed while the controller runs
/// - a `Vec<Informer>`, for example of several label selectors. If several informers contain an
///   object, the controller reads it from the first informer.
pub struct Informers<T: Cached>(Kind<T>);

enum Kind<T: Cached> {
    Several(Vec<Informer<T>>),
    Namespaces(Box<MultiNamespaceInformer<T>>),
}

impl<T: Cached> Clone for Informers<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Cached> Clone for Kind<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Several(informers) => Self::Several(informers.clone()),
            Self::Namespaces(informers) => Self::Namespaces(informers.clone()),
        }
    }
}

impl<T: Cached> From<&Informer<T>> for Informers<T> {
    fn from(informer: &Informer<T>) -> Self {
        vec![informer.clone()].into()
    }
}

impl<T: Cached> From<&kube_informer::CachedApi<T>> for Informers<T> {
    fn from(api: &kube_informer::CachedApi<T>) -> Self {
        api.informer().into()
    }
}

impl<T: Cached> From<&MultiNamespaceInformer<T>> for Informers<T> {
    fn from(informers: &MultiNamespaceInformer<T>) -> Self {
        Self(Kind::Namespaces(Box::new(informers.clone())))
    }
}

impl<T: Cached> From<Vec<Informer<T>>> for Informers<T> {
    fn from(informers: Vec<Informer<T>>) -> Self {
        Self(Kind::Several(informers))
    }
}

impl<T: Cached> Informers<T> {
    /// Returns the current informers.
    pub(crate) fn current(&self) -> Vec<Informer<T>> {
        match &self.0 {
            Kind::Several(informers) => informers.clone(),
            Kind::Namespaces(informers) => informers.informers(),
        }
    }

    /// Returns the id of the informer, if there is exactly one.
    pub(crate) fn single_id(&self) -> Option<InformerId> {
        match &self.0 {
            Kind::Several(informers) if informers.len() == 1 => Some(informers[0].id()),
            _ => None,
        }
    }

    /// Returns the name of the first informer that caches only the objects of some slots.
    pub(crate) fn sharded_name(&self) -> Option<String> {
        let informers = self.current();
        let sharded = informers.iter().find(|informer| informer.shard().is_some())?;
        Some(sharded.name().to_owned())
    }

    /// Returns the ids of the informers, for a manager with shards.
    pub(crate) fn source_informers(&self) -> SourceInformers {
        match self.0.clone() {
            Kind::Several(informers) => SourceInformers::Fixed(informers.iter().map(Informer::id).collect()),
            Kind::Namespaces(informers) => SourceInformers::Namespaces(Box::new(move || {
                informers.informers().iter().map(Informer::id).collect()
            })),
        }
    }

    /// Returns the cached object with this key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        match &self.0 {
            Kind::Several(informers) => {
                informers.iter().find_map(|informer| informer.lister().get_by_key(key))
            }
            Kind::Namespaces(informers) => informers.get(key),
        }
    }

    /// Returns the keys of all cached objects.
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.current().iter().flat_map(|informer| informer.lister().keys()).collect()
    }

    /// Waits until the caches contain this process's own writes of the object.
    pub(crate) async fn wait_for_writes(
        &self,
        key: &ObjectKey,
        timeout: Duration,
    ) -> Result<(), CachedReadError> {
        match &self.0 {
            Kind::Several(informers) => {
                for informer in informers {
                    informer.wait_for_writes(Some(key), timeout).await?;
                }
                Ok(())
            }
            Kind::Namespaces(informers) => {
                match key.namespace().and_then(|namespace| informers.informer(namespace)) {
                    Some(informer) => informer.wait_for_writes(Some(key), timeout).await,
                    None => Ok(()), // the namespace was removed
                }
            }
        }
    }

    /// Returns the kind and the API group of the objects, or the name that the user assigned to the informer.
    pub(crate) fn kind_and_group(&self) -> (String, Option<String>) {
        let name = self.current().first().map_or_else(String::new, |informer| informer.name().to_owned());
        // The default name is the kind and the URL path: `/apis/GROUP/VERSION/...` or `/api/VERSION/...`.
        let Some((kind, path)) = name.split_once(" /") else { return (name, None) };
        let group = match path.strip_prefix("apis/") {
            Some(path) => path.split('/').next(),
            None => path.starts_with("api/").then_some(""),
        };
        (kind.to_owned(), group.map(str::to_owned))
    }

    /// Adds the informers to the factory.
    pub(crate) fn join(&self, factory: &InformerFactory) {
        // The factory of a `MultiNamespaceInformer` starts and stops its informers.
        let Kind::Several(informers) = &self.0 else { return };
        for informer in informers {
            if let Err(error) = factory.adopt(informer) {
                tracing::warn!(%error, "cannot add an informer of a controller to the manager; the manager will not stop the informer");
            }
        }
    }

    /// Starts the informers, and waits until their caches are synced.
    pub(crate) fn wait_for_caches(&self) -> BoxFuture<'static, ()> {
        match self.0.clone() {
            Kind::Several(informers) => async move {
                join_all(informers.iter().map(wait_for_cache)).await;
            }
            .boxed(),
            Kind::Namespaces(informers) => async move { wait_for_namespaces(&informers).await }.boxed(),
        }
    }

    /// Waits until an informer is stopped, and returns its name. A stopped informer does not deliver
    /// events. If a namespace is removed, its informer may stop, so this does not return.
    pub(crate) fn stopped(&self) -> BoxFuture<'static, String> {
        let Kind::Several(informers) = &self.0 else { return std::future::pending().boxed() };
        if informers.is_empty() {
            return std::future::pending().boxed();
        }
        let stopped = informers.iter().map(|informer| {
            let mut status = informer.reflector_status();
            let name = informer.name().to_owned();
            async move {
                let _closed = status.wait_for(|status| status.phase == Phase::Stopped).await;
                name
            }
            .boxed()
        });
        select_all(stopped).map(|(name, ..)| name).boxed()
    }

    /// Registers a handler that receives every event.
    pub(crate) fn register(&self, handler: impl EventHandler<T> + Clone) -> Registrations<T> {
        match &self.0 {
            Kind::Several(informers) => {
                let register = |informer: &Informer<T>| informer.add_backpressured_handler(handler.clone());
                Registrations::Several(informers.iter().map(register).collect())
            }
            Kind::Namespaces(informers) => {
                Registrations::Namespaces(informers.add_backpressured_handler(handler))
            }
        }
    }
}

/// Waits for the caches of the current namespaces. A namespace can be added or removed during the wait.
async fn wait_for_namespaces<T: Cached>(namespaces: &MultiNamespaceInformer<T>) {
    loop {
        let informers = namespaces.informers();
        informers.iter().for_each(Informer::start);
        if informers.iter().all(|informer| informer.has_synced() || informer.is_stopped()) {
            return;
        }
        // The informers of removed namespaces stop when `informers` is dropped.
        drop(informers);
        if namespaces.wait_for_sync(REJECTED_RETRY).await.is_err() {
            tokio::time::sleep(REJECTED_RETRY).await;
        }
    }
}

async fn wait_for_cache<T: Cached>(informer: &Informer<T>) {
    informer.start();
    while let Err(error) = informer.wait_for_sync(NO_TIMEOUT).await {
        if error.informers.iter().any(|informer| informer.phase == Phase::Stopped) {
            std::future::pending::<()>().await;
        }
        // The server rejects the list. The informer continues to retry.
        tokio::time::sleep(REJECTED_RETRY).await;
    }
}

/// The registrations of a handler. Dropping them removes the handler.
pub(crate) enum Registrations<T: Cached> {
    Several(Vec<HandlerRegistration<T>>),
    Namespaces(MultiNamespaceRegistration<T>),
}

impl<T: Cached> Registrations<T> {
    /// Waits until the handler has received the cached objects. Never returns if an informer is
    /// stopped.
    pub(crate) async fn wait_for_sync(&self) {
        match self {
            Self::Several(registrations) => {
                for registration in registrations {
                    if !registration.wait_for_sync(NO_TIMEOUT).await {
                        std::future::pending::<()>().await;
                    }
                }
            }
            // A namespace can be removed during the wait. The handler then does not lack events.
            Self::Namespaces(registration) => {
                registration.wait_for_sync(NO_TIMEOUT).await;
            }
        }
    }

    /// Removes the handler, and waits for a running call.
    pub(crate) async fn remove(self) {
        match self {
            Self::Several(registrations) => {
                join_all(registrations.into_iter().map(HandlerRegistration::remove)).await;
            }
            Self::Namespaces(registration) => registration.remove().await,
        }
    }
}
