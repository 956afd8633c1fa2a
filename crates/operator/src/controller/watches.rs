//! The sources of a `Controller`: owned and watched objects, and streams.

use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use kube_informer::{Cached, Event, ObjectKey, OwnerReferences};
use kube_workqueue::Priority;

use super::{
    Controller,
    handle::Source,
    informers::Informers,
    predicate::Predicate,
    source::{EventSource, OwnerMatch, RequestQueue, StreamSource, owners},
};

impl<T: Cached> Controller<T> {
    /// Reconciles the controlling owner of each object of `informers` when the object changes.
    ///
    /// The controlling owner is the owner in the reference with `controller: true`. The controller
    /// ignores owners of types that it does not reconcile.
    pub fn owns<O: Cached + OwnerReferences>(self, informers: impl Into<Informers<O>>) -> Self {
        self.owns_filtered(informers, Predicate::always())
    }

    /// Does the same as [`owns`](Self::owns), but only for the events that the predicate accepts.
    pub fn owns_filtered<O: Cached + OwnerReferences>(
        self,
        informers: impl Into<Informers<O>>,
        filter: Predicate<O>,
    ) -> Self {
        self.owned(OwnerMatch::Controller, informers, filter)
    }

    /// Does the same as [`owns_filtered`](Self::owns_filtered), but reconciles all owners of this
    /// controller's type. The owner reference need not have `controller: true`. This method
    /// corresponds to `MatchEveryOwner` in controller-runtime.
    pub fn owns_any_reference<O: Cached + OwnerReferences>(
        self,
        informers: impl Into<Informers<O>>,
        filter: Predicate<O>,
    ) -> Self {
        self.owned(OwnerMatch::AnyReference, informers, filter)
    }

    fn owned<O: Cached + OwnerReferences>(
        mut self,
        owned: OwnerMatch,
        informers: impl Into<Informers<O>>,
        filter: Predicate<O>,
    ) -> Self {
        let owner = self.owner.clone();
        let keys = move |event: &Event<O>, queue: &RequestQueue<'_>| {
            owners(event, &owner, owned, |key| queue.add(key));
        };
        let source = EventSource::new(informers.into(), filter, keys);
        let name = format!("owned {}", source.name).into();
        self.core.sources.push(Box::new(EventSource { name, ..source }));
        self
    }

    /// Reconciles the keys that `keys` returns for each event of `informers`.
    ///
    /// For example, `keys` can use an index, or read a name from the object. `event.entry()` is only the new
    /// state. If an update can move the object to another key, return the keys of both states.
    ///
    /// `keys` must not block, because the cache of the informer waits for it. If it panics, the controller
    /// fails with [`ControllerError::SourcePanicked`](crate::ControllerError::SourcePanicked).
    pub fn watches<O, I>(
        self,
        informers: impl Into<Informers<O>>,
        keys: impl Fn(&Event<O>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        O: Cached,
        I: IntoIterator<Item = ObjectKey>,
    {
        self.watches_filtered(informers, Predicate::always(), keys)
    }

    /// Does the same as [`watches`](Self::watches), but only for the events that the predicate
    /// accepts.
    pub fn watches_filtered<O, I>(
        self,
        informers: impl Into<Informers<O>>,
        filter: Predicate<O>,
        keys: impl Fn(&Event<O>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        O: Cached,
        I: IntoIterator<Item = ObjectKey>,
    {
        self.watches_handler(informers, filter, move |event, queue| {
            keys(event).into_iter().for_each(|key| queue.add(key));
        })
    }

    /// Calls `handler` for each event of `informers` that the predicate accepts. The handler queues
    /// keys of the reconciled type, and selects their delay and priority. It must not block, because
    /// the cache of the informer waits for it.
    ///
    /// The handler receives events only while this process is the leader. If it panics, the controller
    /// fails with [`ControllerError::SourcePanicked`](crate::ControllerError::SourcePanicked).
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
    /// # use kube_informer::{Informer, ObjectKey};
    /// # use kube_operator::{Controller, Predicate};
    /// # fn example(deployments: Informer<Deployment>, secrets: Informer<Secret>) -> Controller<Deployment> {
    /// Controller::new(&deployments).watches_handler(&secrets, Predicate::always(), |event, queue| {
    ///     let key = ObjectKey::new(event.key().namespace(), "web");
    ///     queue.add_after(key, Duration::from_secs(10));
    /// })
    /// # }
    /// ```
    pub fn watches_handler<O: Cached>(
        mut self,
        informers: impl Into<Informers<O>>,
        filter: Predicate<O>,
        handler: impl Fn(&Event<O>, &RequestQueue<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.core.sources.push(Box::new(EventSource::new(informers.into(), filter, handler)));
        self
    }

    /// Reconciles the keys that the stream yields. `name` is the source in the
    /// [`Reason`](crate::Reason) of these reconciles.
    ///
    /// The controller polls the stream only while this process is the leader. If the stream ends,
    /// the controller continues to run.
    pub fn watches_stream(
        mut self,
        name: impl Into<Arc<str>>,
        keys: impl Stream<Item = ObjectKey> + Send + 'static,
    ) -> Self {
        self.core.sources.push(Box::new(StreamSource {
            name: name.into(),
            keys,
            priority: Priority::NORMAL,
        }));
        self
    }

    /// Adds a source, for example of the objects of several clusters.
    pub fn watches_source(mut self, source: Source) -> Self {
        self.core.sources.push(source.0);
        self
    }

    /// Reconciles all objects in the cache of the reconciled type each time that the stream yields. For
    /// example, the stream yields when the configuration of the program changes. The keys have the
    /// priority [`Priority::LOW`], and the [filter](Self::filter) does not apply.
    ///
    /// The controller polls the stream only while this process is the leader. If the stream ends, the
    /// controller continues to run.
    pub fn reconcile_all_on(mut self, trigger: impl Stream<Item = ()> + Send + 'static) -> Self {
        let informers = self.informers.clone();
        let keys = trigger.map(move |()| stream::iter(informers.keys())).flatten();
        let source = StreamSource { name: "reconcile_all_on".into(), keys, priority: Priority::LOW };
        self.core.sources.push(Box::new(source));
        self
    }
}
