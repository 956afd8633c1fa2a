//! One informer with its handlers and its eyes, whatever the form of its objects.

use std::sync::Arc;

use fastrand::Rng;
use futures_util::future::LocalBoxFuture;
use kube_client::{Client, api::DynamicObject, api::PartialObjectMeta};
use kube_informer::{Compressed, Informer, InformerFactory, Lazy, ListWatch, Projection, Scope as Lives};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    careless::{Canary, Careless},
    eye::{Eye, Witness, follow},
    forms::{Form, Part},
    handlers::Seat,
    history::{Desk, Lines, Uids},
    setup::{InformerSetup, Representation},
    spy::Spy,
    things::Thing,
    told::Told,
};
use crate::properties::{Observation, Violation};

/// An informer whose type nobody needs to know.
pub(super) trait Stack {
    fn desk(&self) -> &Arc<Mutex<Desk>>;
    fn start(&self);
    fn relist(&self);
    /// A handler more.
    fn join(&mut self, rng: &mut Rng);
    /// A handler less.
    fn leave<'a>(&'a mut self, rng: &'a mut Rng) -> LocalBoxFuture<'a, ()>;
    /// What can be asked at any time.
    fn check(&self, rng: &mut Rng);
    /// What holds once nothing happens any more.
    fn quiet(&self) -> Result<(), Violation>;
    /// Ends the informer and all that was made for it.
    fn stop(self: Box<Self>) -> LocalBoxFuture<'static, ()>;
}

/// What all informers of a seed have in common.
pub(super) struct Ground {
    pub(super) uids: Uids,
    pub(super) began: Instant,
    pub(super) trace: bool,
    pub(super) canary: Option<Canary>,
}

pub(super) fn build(client: Client, setup: &InformerSetup, ground: &Ground) -> Box<dyn Stack> {
    match setup.form {
        Representation::Typed => Box::new(Built::<Thing>::new(client, setup, ground)),
        Representation::Dynamic => Box::new(Built::<DynamicObject>::new(client, setup, ground)),
        Representation::MetadataOnly => {
            Box::new(Built::<PartialObjectMeta<Thing>>::new(client, setup, ground))
        }
        Representation::Projected => Box::new(Built::<Projection<Thing, Part>>::new(client, setup, ground)),
        Representation::Lazy => Box::new(Built::<Lazy<Thing>>::new(client, setup, ground)),
        Representation::Compressed => Box::new(Built::<Compressed<Thing>>::new(client, setup, ground)),
    }
}

struct Built<T: Form> {
    informer: Informer<T>,
    /// What it comes from, if it does.
    _factory: Option<InformerFactory>,
    eye: Eye<T>,
    witness: Arc<Witness<T>>,
    phases: Arc<Spy>,
    mark: usize,
    seats: Vec<Seat<T>>,
    next_seat: u32,
}

impl<T: Form> Built<T> {
    fn new(client: Client, setup: &InformerSetup, ground: &Ground) -> Self {
        let (lines, options) = (Lines::new(ground.trace), setup.options.clone());
        let mut desk = Desk::new(setup.scope, ground.uids.clone(), lines, ground.began, options);
        desk.panics = setup.panics.clone();
        let desk = Arc::new(Mutex::new(desk));
        let (informer, factory) = match setup.by_factory && ground.canary.is_none() {
            true => of_factory::<T>(client, setup, &desk),
            false => (alone::<T>(client, setup, ground.canary, &desk), None),
        };
        desk.lock().follows(informer.reflector_status());
        let eye = Eye::new(&informer, desk);
        let witness = Witness::new(&informer, eye.clone());
        let phases = follow(&informer, Arc::clone(eye.desk()));
        let mark = setup.coalesce_threshold;
        Self { informer, _factory: factory, eye, witness, phases, mark, seats: Vec::new(), next_seat: 0 }
    }
}

/// Marks each object, for who looks at it later, and refuses what no cache can decode: typed forms fail by themselves.
fn transform<T: Form>(
    desk: &Arc<Mutex<Desk>>,
    panics: bool,
) -> impl Fn(&mut T) -> Result<(), &'static str> + Send + Sync + 'static {
    let desk = Arc::clone(desk);
    move |object| {
        if object.is_bad() {
            if panics {
                // Without the words on standard error that a panic has.
                std::panic::resume_unwind(Box::new(()));
            }
            return Err("it is bad");
        }
        let mut desk = desk.lock();
        let uids = desk.uids.clone();
        let before = object.is_marked() == Some(true);
        desk.transformed(object.plain(&uids), before);
        object.mark();
        Ok(())
    }
}

fn alone<T: Form>(
    client: Client,
    setup: &InformerSetup,
    canary: Option<Canary>,
    desk: &Arc<Mutex<Desk>>,
) -> Informer<T> {
    let inner = ListWatch::<T>::from_client(client, &T::resource(), setup.scope.namespace, "")
        .labels(setup.scope.selector())
        .transform(transform(desk, setup.panics.is_some()));
    let told = Arc::clone(desk);
    let builder = match canary {
        Some(canary) => Informer::from_source(Told { inner: Careless { inner, canary }, desk: told }),
        None => Informer::from_source(Told { inner, desk: told }),
    };
    let desk = Arc::clone(desk);
    builder
        .on_error(move |_| Desk::may_panic(&desk))
        .reflector_options(setup.options.clone())
        .coalesce_threshold(setup.coalesce_threshold)
        .queue_capacity(setup.queue_capacity)
        .build()
}

fn of_factory<T: Form>(
    client: Client,
    setup: &InformerSetup,
    desk: &Arc<Mutex<Desk>>,
) -> (Informer<T>, Option<InformerFactory>) {
    let transform = transform::<T>(desk, setup.panics.is_some());
    let desk = Arc::clone(desk);
    let factory = InformerFactory::new(client)
        .on_error(move |_| Desk::may_panic(&desk))
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

impl<T: Form> Stack for Built<T> {
    fn desk(&self) -> &Arc<Mutex<Desk>> {
        self.eye.desk()
    }

    fn start(&self) {
        self.informer.start();
    }

    fn relist(&self) {
        self.eye.desk().lock().asked();
        self.informer.relist();
    }

    fn join(&mut self, rng: &mut Rng) {
        // Bookmarks may have moved the cache since.
        self.eye.look();
        self.seats.push(Seat::take(self.next_seat, &self.informer, &self.eye, self.mark, rng));
        self.next_seat += 1;
    }

    fn leave<'a>(&'a mut self, rng: &'a mut Rng) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            if !self.seats.is_empty() {
                let seat = self.seats.swap_remove(rng.usize(..self.seats.len()));
                seat.leave(&self.eye, rng.bool()).await;
            }
        })
    }

    fn check(&self, rng: &mut Rng) {
        self.eye.look();
        self.eye.query(rng.bool());
        self.seats.iter().for_each(|seat| seat.check(&self.eye));
    }

    fn quiet(&self) -> Result<(), Violation> {
        self.eye.look();
        if !self.informer.has_synced() {
            return Err(Violation { property: 2, how: "the informer is not synced".to_owned() });
        }
        self.eye.desk().lock().try_observe(Observation::Quiet)?;
        self.seats.iter().try_for_each(|seat| seat.drained(&self.eye))
    }

    fn stop(self: Box<Self>) -> LocalBoxFuture<'static, ()> {
        Box::pin(async move {
            self.informer.stop().await;
            self.seats.iter().for_each(|seat| seat.check(&self.eye));
            self.witness.end();
            self.phases.end();
            for seat in self.seats {
                seat.end().await;
            }
        })
    }
}
