//! What an informer can be built with.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use kube_client::{Api, Resource};
use kube_listwatch::{Error, ListWatch, ListerWatcher};
use kube_object::{Cached, Object};
use kube_reflector::Options;

use crate::Informer;

pub(crate) type OnError = Arc<dyn Fn(&Error) + Send + Sync>;

/// Builds an [`Informer`]; nothing is asked of a server before [`Informer::start`].
///
/// `S` is what it lists and watches: of a [`ListWatch`] more can be set than of a source that it knows nothing of.
pub struct InformerBuilder<T, S = Arc<dyn ListerWatcher<T>>> {
    pub(crate) source: S,
    pub(crate) name: String,
    pub(crate) reflector: Options,
    pub(crate) on_error: Option<OnError>,
    pub(crate) resync: Option<Duration>,
    pub(crate) backlog_mark: usize,
    pub(crate) queue_bound: usize,
    of: PhantomData<fn() -> T>,
}

impl<T: Cached> Informer<T> {
    /// An informer of everything that this `Api` covers. For selectors, or a type known only at
    /// run time, see [`Informer::from_source`] with a [`ListWatch`].
    pub fn builder(api: Api<T::Resource>) -> InformerBuilder<T, ListWatch<T>>
    where
        <T::Resource as Resource>::DynamicType: Default,
    {
        let name = format!("{} {}", T::Resource::kind(&Default::default()), api.resource_url());
        InformerBuilder::of(ListWatch::new(api)).name(name)
    }
}

impl<T: Object> Informer<T> {
    /// An informer of whatever this lists and watches.
    pub fn from_source(source: impl ListerWatcher<T>) -> InformerBuilder<T> {
        InformerBuilder::of(Arc::new(source) as Arc<dyn ListerWatcher<T>>)
    }
}

impl<T: Object> InformerBuilder<T, ListWatch<T>> {
    /// Changes each object right after it was decoded, before the cache or a handler has it: see
    /// [`ListWatch::transform`].
    #[must_use]
    pub fn transform(
        self,
        transform: impl Fn(&mut T) -> Result<(), &'static str> + Send + Sync + 'static,
    ) -> Self {
        Self { source: self.source.transform(transform), ..self }
    }

    /// Keeps `metadata.managedFields`, which are left out otherwise: see [`ListWatch::keep_managed_fields`].
    #[must_use]
    pub fn keep_managed_fields(self) -> Self {
        Self { source: self.source.keep_managed_fields(), ..self }
    }

    /// The informer. Add indexes and handlers, then [`Informer::start`] it.
    pub fn build(self) -> Informer<T> {
        let Self { source, name, reflector, on_error, resync, backlog_mark, queue_bound, of } = self;
        let source: Arc<dyn ListerWatcher<T>> = Arc::new(source);
        InformerBuilder { source, name, reflector, on_error, resync, backlog_mark, queue_bound, of }.build()
    }
}

impl<T: Object> InformerBuilder<T> {
    /// The informer. Add indexes and handlers, then [`Informer::start`] it.
    pub fn build(self) -> Informer<T> {
        Informer::new(self)
    }
}

impl<T: Object, S> InformerBuilder<T, S> {
    fn of(source: S) -> Self {
        Self {
            source,
            name: std::any::type_name::<T>().to_owned(),
            reflector: Options::default(),
            on_error: None,
            resync: None,
            backlog_mark: kube_delta_fifo::DEFAULT_MARK,
            queue_bound: kube_delta_fifo::DEFAULT_BOUND,
            of: PhantomData,
        }
    }

    /// What errors and logs call this informer.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Time-outs, delays, page size and seed of the reflector.
    #[must_use]
    pub fn reflector(mut self, options: Options) -> Self {
        self.reflector = options;
        self
    }

    /// Called with each failure of a LIST or WATCH, on the informer's task: it must not block.
    #[must_use]
    pub fn on_error(mut self, on_error: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(on_error));
        self
    }

    /// The resync period of handlers that don't say their own: how often a handler is shown each
    /// cached object again, as an update from the object to itself. Never, unless set; zero is never
    /// too, and less than a second is taken for a second.
    #[must_use]
    pub fn default_resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// From how many waiting events on the changes of a handler are merged; 1024 unless set. Of a handler of
    /// [`Informer::on_every`] nothing is merged: there the cache waits from so many on, and zero counts as one.
    #[must_use]
    pub fn backlog_mark(mut self, events: usize) -> Self {
        self.backlog_mark = events;
        self
    }

    /// How many objects may wait between the reflector and the store; 1024 unless set.
    #[must_use]
    pub fn queue_bound(mut self, objects: usize) -> Self {
        self.queue_bound = objects;
        self
    }
}
