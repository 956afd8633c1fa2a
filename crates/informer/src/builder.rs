//! `InformerBuilder`: the settings of an informer, and the source that it lists and watches.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use kube_client::{Api, Resource};
use kube_listwatch::{ListWatch, ListWatchError, ListerWatcher};
use kube_object::{Cached, Object};
use kube_reflector::ReflectorOptions;

use crate::{
    Informer,
    config::{InformerConfig, InformerSettings},
    factory::FactoryLink,
};

/// Builds an [`Informer`]. The informer sends no request before [`Informer::start`].
///
/// `S` is the type of the source that the informer lists and watches. Some settings are available
/// only if the source is a [`ListWatch`].
pub struct InformerBuilder<T, S = Arc<dyn ListerWatcher<T>>> {
    source: S,
    name: String,
    pub(crate) settings: InformerSettings,
    pub(crate) factory: Option<FactoryLink>,
    object: PhantomData<fn() -> T>,
}

impl<T: Cached> Informer<T> {
    /// Creates a builder for an informer that caches all objects of this `Api`.
    ///
    /// For selectors, or for a type that is known only at run time, pass a [`ListWatch`] to
    /// [`Informer::from_source`].
    pub fn builder(api: Api<T::Resource>) -> InformerBuilder<T, ListWatch<T>>
    where
        <T::Resource as Resource>::DynamicType: Default,
    {
        let name = format!("{} {}", T::Resource::kind(&Default::default()), api.resource_url());
        InformerBuilder::new(ListWatch::new(api)).name(name)
    }
}

impl<T: Object> Informer<T> {
    /// Creates a builder for an informer that lists and watches this source.
    pub fn from_source(source: impl ListerWatcher<T>) -> InformerBuilder<T> {
        InformerBuilder::new(Arc::new(source) as Arc<dyn ListerWatcher<T>>)
    }
}

impl<T: Object> InformerBuilder<T, ListWatch<T>> {
    /// Sets a function that changes each decoded object before the cache and the handlers receive
    /// the object. See [`ListWatch::transform`].
    #[must_use]
    pub fn transform(
        self,
        transform: impl Fn(&mut T) -> Result<(), &'static str> + Send + Sync + 'static,
    ) -> Self {
        Self { source: self.source.transform(transform), ..self }
    }

    /// Keeps `metadata.managedFields`. By default, the informer removes this field. See
    /// [`ListWatch::keep_managed_fields`].
    #[must_use]
    pub fn keep_managed_fields(self) -> Self {
        Self { source: self.source.keep_managed_fields(), ..self }
    }

    /// Requests lists with gzip, for a slow network to the server. By default, lists are not
    /// compressed. See [`ListWatch::gzip_lists`].
    #[must_use]
    pub fn gzip_lists(self) -> Self {
        Self { source: self.source.gzip_lists(), ..self }
    }

    /// Builds the informer. Add indexes and handlers, then [start](Informer::start) it.
    pub fn build(self) -> Informer<T> {
        let Self { source, name, settings, factory, object } = self;
        let source: Arc<dyn ListerWatcher<T>> = Arc::new(source);
        InformerBuilder { source, name, settings, factory, object }.build()
    }
}

impl<T: Object> InformerBuilder<T> {
    /// Builds the informer. Add indexes and handlers, then [start](Informer::start) it.
    pub fn build(self) -> Informer<T> {
        let Self { source, name, settings, factory, .. } = self;
        Informer::new(InformerConfig { source, name, settings }, factory)
    }
}

impl<T: Object, S> InformerBuilder<T, S> {
    fn new(source: S) -> Self {
        Self {
            source,
            name: std::any::type_name::<T>().to_owned(),
            settings: InformerSettings::default(),
            factory: None,
            object: PhantomData,
        }
    }

    /// Sets the name of this informer in errors and logs.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the options of the reflector, for example the page size, the timeouts and the delays
    /// before retries.
    #[must_use]
    pub fn reflector_options(mut self, options: ReflectorOptions) -> Self {
        self.settings.reflector = options;
        self
    }

    /// Sets a function that the informer calls after each failed LIST or WATCH.
    ///
    /// The function runs on the informer's task and must not block.
    #[must_use]
    pub fn on_error(mut self, on_error: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Some(Arc::new(on_error));
        self
    }

    /// Sets the resync period of all handlers that are registered without a period.
    ///
    /// A resync delivers each cached object again, as an update with equal old and new state. A
    /// handler receives its resync when it has no other pending events.
    ///
    /// Without a period, or with a period of zero, there is no resync. A period below one second is
    /// treated as one second.
    #[must_use]
    pub fn default_resync(mut self, period: Duration) -> Self {
        self.settings.resync = Some(period);
        self
    }

    /// Sets the coalesce threshold. If a handler has at least this number of pending events,
    /// further events are coalesced. The default is 1024.
    ///
    /// For a handler of [`Informer::add_backpressured_handler`], events are never coalesced.
    /// Instead, the cache waits while the handler has at least this number of pending events. For
    /// such a handler, a threshold of zero is treated as one.
    #[must_use]
    pub fn coalesce_threshold(mut self, events: usize) -> Self {
        self.settings.coalesce_threshold = events;
        self
    }

    /// Sets the maximum number of objects in the queue between the reflector and the store. The
    /// default is 1024.
    #[must_use]
    pub fn queue_capacity(mut self, objects: usize) -> Self {
        self.settings.queue_capacity = objects;
        self
    }
}
