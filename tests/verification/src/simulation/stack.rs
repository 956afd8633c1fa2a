//! One informer with its handlers and observers, for any representation of its objects.

use std::sync::Arc;

use fastrand::Rng;
use futures_util::future::LocalBoxFuture;
use kube_client::{Client, api::DynamicObject, api::PartialObjectMeta};
use kube_informer::{Compressed, Informer, InformerFactory, Lazy, Projection, Scope as Lives};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    cache_observer::{CacheObserver, WriteObserver, follow},
    canary::{Canary, CorruptingSource},
    eager_task::EagerTask,
    handlers::RegisteredHandler,
    history::{HistoryLines, Recorder, Uids},
    object_forms::{ObjectForm, Part},
    reporting_source::ReportingSource,
    setup::{InformerSetup, Representation},
    source::SimulatedSource,
    swapping_source::SwappingSource,
    workload::Thing,
};
use crate::properties::{Observation, Violation};

/// An informer with an erased type.
pub(super) trait Stack {
    fn recorder(&self) -> &Arc<Mutex<Recorder>>;
    fn start(&self);
    fn has_synced(&self) -> bool;
    fn relist(&self);
    /// A handler more.
    fn join(&mut self, rng: &mut Rng);
    /// A handler less.
    fn leave<'a>(&'a mut self, rng: &'a mut Rng) -> LocalBoxFuture<'a, ()>;
    /// Runs the checks that are valid at any time.
    fn check(&self, rng: &mut Rng);
    /// Runs the checks that are valid after all events are delivered.
    fn quiet(&self) -> Result<(), Violation>;
    /// Stops the informer and all its tasks.
    fn stop(self: Box<Self>) -> LocalBoxFuture<'static, ()>;
}

/// The common environment of all informers of a seed.
pub(super) struct Environment {
    pub(super) uids: Uids,
    pub(super) began: Instant,
    pub(super) trace: bool,
    pub(super) canary: Option<Canary>,
}

pub(super) fn build(client: Client, setup: &InformerSetup, environment: &Environment) -> Box<dyn Stack> {
    match setup.form {
        Representation::Typed => Box::new(InformerStack::<Thing>::new(client, setup, environment)),
        Representation::Dynamic => Box::new(InformerStack::<DynamicObject>::new(client, setup, environment)),
        Representation::MetadataOnly => {
            Box::new(InformerStack::<PartialObjectMeta<Thing>>::new(client, setup, environment))
        }
        Representation::Projected => {
            Box::new(InformerStack::<Projection<Thing, Part>>::new(client, setup, environment))
        }
        Representation::Lazy => Box::new(InformerStack::<Lazy<Thing>>::new(client, setup, environment)),
        Representation::Compressed => {
            Box::new(InformerStack::<Compressed<Thing>>::new(client, setup, environment))
        }
    }
}

struct InformerStack<T: ObjectForm> {
    informer: Informer<T>,
    /// The factory of the informer, if a factory created it.
    _factory: Option<InformerFactory>,
    observer: CacheObserver<T>,
    write_observer: Arc<WriteObserver<T>>,
    phases: Arc<EagerTask>,
    mark: usize,
    handlers: Vec<RegisteredHandler<T>>,
    next_handler: u32,
}

impl<T: ObjectForm> InformerStack<T> {
    fn new(client: Client, setup: &InformerSetup, environment: &Environment) -> Self {
        let (lines, options) = (HistoryLines::new(environment.trace), setup.options.clone());
        let mut recorder =
            Recorder::new(setup.scope, environment.uids.clone(), lines, environment.began, options);
        recorder.panics = setup.panics.clone();
        recorder.removes_names = setup.removes_names.clone();
        recorder.has_versions = setup.has_list_versions();
        if setup.has_opaque_versions() {
            recorder.translates_versions();
        }
        let recorder = Arc::new(Mutex::new(recorder));
        let (informer, factory) = match setup.by_factory && environment.canary.is_none() {
            true => of_factory::<T>(client, setup, &recorder),
            false => (alone::<T>(client, setup, environment.canary, &recorder), None),
        };
        recorder.lock().follows(informer.reflector_status());
        let observer = CacheObserver::new(&informer, recorder);
        let write_observer = WriteObserver::new(&informer, observer.clone());
        let phases = follow(&informer, Arc::clone(observer.recorder()));
        let mark = setup.coalesce_threshold;
        Self {
            informer,
            _factory: factory,
            observer,
            write_observer,
            phases,
            mark,
            handlers: Vec::new(),
            next_handler: 0,
        }
    }
}

/// Marks each object for later checks, and rejects undecodable objects. Typed representations fail
/// without it.
pub(super) fn transform<T: ObjectForm>(
    recorder: &Arc<Mutex<Recorder>>,
    panics: bool,
) -> impl Fn(&mut T) -> Result<(), &'static str> + Send + Sync + 'static {
    let recorder = Arc::clone(recorder);
    move |object| {
        if object.is_bad() {
            if panics {
                // `resume_unwind` prints no message on standard error.
                std::panic::resume_unwind(Box::new(()));
            }
            return Err("the object is marked as bad");
        }
        let mut recorder = recorder.lock();
        let uids = recorder.uids.clone();
        let before = object.is_marked() == Some(true);
        recorder.transformed(object.plain(&uids), before);
        object.mark();
        Ok(())
    }
}

fn alone<T: ObjectForm>(
    client: Client,
    setup: &InformerSetup,
    canary: Option<Canary>,
    recorder: &Arc<Mutex<Recorder>>,
) -> Informer<T> {
    let inner = SimulatedSource::<T>::new(client, setup, recorder);
    let inner = SwappingSource { inner, recorder: Arc::clone(recorder) };
    let (of_source, has_versions) = (Arc::clone(recorder), setup.has_list_versions());
    let builder = match canary {
        Some(canary) => {
            let inner = CorruptingSource { inner, canary };
            Informer::from_source(ReportingSource { inner, recorder: of_source, has_versions })
        }
        None => Informer::from_source(ReportingSource { inner, recorder: of_source, has_versions }),
    };
    let recorder = Arc::clone(recorder);
    builder
        .on_error(move |_| Recorder::may_panic(&recorder))
        .reflector_options(setup.options.clone())
        .coalesce_threshold(setup.coalesce_threshold)
        .queue_capacity(setup.queue_capacity)
        .build()
}

fn of_factory<T: ObjectForm>(
    client: Client,
    setup: &InformerSetup,
    recorder: &Arc<Mutex<Recorder>>,
) -> (Informer<T>, Option<InformerFactory>) {
    let transform = transform::<T>(recorder, setup.panics.is_some());
    let recorder = Arc::clone(recorder);
    let factory = InformerFactory::new(client)
        .on_error(move |_| Recorder::may_panic(&recorder))
        .reflector_options(setup.options.clone())
        .coalesce_threshold(setup.coalesce_threshold)
        .queue_capacity(setup.queue_capacity)
        .transform(transform);
    let selected = factory
        .select_dynamic::<T>(&T::resource(), Lives::Namespaced)
        .namespace(setup.scope.namespace.unwrap_or_default())
        .labels(setup.scope.selector());
    (selected.informer().expect("the factory was not shut down"), Some(factory))
}

impl<T: ObjectForm> Stack for InformerStack<T> {
    fn recorder(&self) -> &Arc<Mutex<Recorder>> {
        self.observer.recorder()
    }

    fn start(&self) {
        self.informer.start();
    }

    fn has_synced(&self) -> bool {
        self.informer.has_synced()
    }

    fn relist(&self) {
        self.observer.recorder().lock().asked();
        self.informer.relist();
    }

    fn join(&mut self, rng: &mut Rng) {
        // Bookmarks may have moved the cache since.
        self.observer.look();
        self.handlers.push(RegisteredHandler::take(
            self.next_handler,
            &self.informer,
            &self.observer,
            self.mark,
            rng,
        ));
        self.next_handler += 1;
    }

    fn leave<'a>(&'a mut self, rng: &'a mut Rng) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            if !self.handlers.is_empty() {
                let handler = self.handlers.swap_remove(rng.usize(..self.handlers.len()));
                handler.leave(&self.observer, rng.bool()).await;
            }
        })
    }

    fn check(&self, rng: &mut Rng) {
        self.observer.look();
        self.observer.query(rng.bool());
        self.handlers.iter().for_each(|handler| handler.check(&self.observer));
    }

    fn quiet(&self) -> Result<(), Violation> {
        self.observer.look();
        if !self.informer.has_synced() {
            return Err(Violation { property: 2, how: "the informer is not synced".to_owned() });
        }
        self.observer.recorder().lock().try_observe(Observation::Quiet)?;
        self.handlers.iter().try_for_each(|handler| handler.drained(&self.observer))
    }

    fn stop(self: Box<Self>) -> LocalBoxFuture<'static, ()> {
        Box::pin(async move {
            self.informer.stop().await;
            self.handlers.iter().for_each(|handler| handler.check(&self.observer));
            self.write_observer.end();
            self.phases.end();
            for handler in self.handlers {
                handler.end().await;
            }
        })
    }
}
