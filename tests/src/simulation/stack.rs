//! One informer with its handlers and its eyes, whatever the form of its objects.

use std::sync::Arc;

use fastrand::Rng;
use futures_util::future::LocalBoxFuture;
use kube_client::{Client, ResourceExt, api::DynamicObject, api::PartialObjectMeta};
use kube_informer::{Informer, InformerFactory, ListWatch, Scope as Lives};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    careless::{Canary, Careless},
    eye::{Eye, Witness, follow},
    handlers::Seat,
    history::{Desk, Lines, Uids},
    setup::{InformerSetup, Representation},
    spy::Spy,
    things::{BAD, Form, Thing},
};
use crate::properties::{Observation, Violation};

/// The marks of informers that a factory makes.
const FACTORY_MARK: usize = 1024;

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
        let (informer, factory) = match setup.by_factory && ground.canary.is_none() {
            true => of_factory::<T>(client, setup),
            false => (alone::<T>(client, setup, ground.canary), None),
        };
        let lines = Lines::new(ground.trace);
        let status = informer.reflector_status();
        let options = setup.options.clone();
        let desk = Desk::new(setup.scope, ground.uids.clone(), lines, ground.began, options, status);
        let eye = Eye::new(&informer, Arc::new(Mutex::new(desk)));
        let witness = Witness::new(&informer, eye.clone());
        let phases = follow(&informer, Arc::clone(eye.desk()));
        let mark = if factory.is_some() { FACTORY_MARK } else { setup.backlog_mark };
        Self { informer, _factory: factory, eye, witness, phases, mark, seats: Vec::new(), next_seat: 0 }
    }
}

/// What no cache can decode: typed forms fail by themselves.
fn fails_if_bad<T: Form>(object: &mut T) -> Result<(), &'static str> {
    if object.annotations().contains_key(BAD) { Err("it is bad") } else { Ok(()) }
}

fn alone<T: Form>(client: Client, setup: &InformerSetup, canary: Option<Canary>) -> Informer<T> {
    let source = ListWatch::<T>::from_client(client, &T::resource(), setup.scope.namespace, "")
        .labels(setup.scope.selector())
        .transform(fails_if_bad);
    let builder = match canary {
        Some(canary) => Informer::from_source(Careless { inner: source, canary }),
        None => Informer::from_source(source),
    };
    builder
        .reflector(setup.options.clone())
        .backlog_mark(setup.backlog_mark)
        .queue_bound(setup.queue_bound)
        .build()
}

fn of_factory<T: Form>(client: Client, setup: &InformerSetup) -> (Informer<T>, Option<InformerFactory>) {
    let factory = InformerFactory::new(client).reflector(setup.options.clone()).transform(fails_if_bad::<T>);
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
            self.witness.end();
            self.phases.end();
            for seat in self.seats {
                seat.end().await;
            }
        })
    }
}
