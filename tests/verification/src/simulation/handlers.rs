//! The handlers of a simulation: plain ones, some that panic, some that filter, some that are waited for, streams that are read
//! slowly.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use fastrand::Rng;
use futures_util::StreamExt;
use kube_informer::{
    Entry, EventHandler, EventStream, FilteringEventHandler, HandlerRegistration, Informer, handler_fn,
};
use parking_lot::Mutex;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use super::{eye::Eye, forms::Form};
use crate::properties::{Event, HandlerId, Key, Object, Observation, Violation};

/// A handler or stream that is registered.
pub(super) struct Seat<T: Form> {
    pub(super) id: HandlerId,
    kind: Kind<T>,
}

enum Kind<T: Form> {
    Handler {
        registration: Arc<HandlerRegistration<T>>,
        /// Tells the judge of resyncs.
        ticker: Option<JoinHandle<()>>,
        /// What it was shown, where it is told of some objects only.
        shown: Option<CacheState>,
    },
    /// Ends with the stream.
    Stream(JoinHandle<()>, Arc<Mutex<Reading>>),
}

type CacheState = Arc<Mutex<BTreeMap<Key, Object>>>;

/// What whoever reads a stream says of it.
#[derive(Clone, Copy, Default)]
struct Reading {
    /// Nothing is left to read.
    idle: bool,
    synced: bool,
}

impl<T: Form> Seat<T> {
    /// Registers some handler and tells the judge.
    pub(super) fn take(
        id: HandlerId,
        informer: &Informer<T>,
        eye: &Eye<T>,
        mark: usize,
        rng: &mut Rng,
    ) -> Self {
        let choice = rng.u8(..8);
        let is_waited_for = choice == 6;
        let mark = if is_waited_for { usize::MAX } else { mark };
        eye.desk().lock().observe(Observation::HandlerAdded { handler: id, mark });
        if let 2..=4 = choice {
            return Self { id, kind: stream(id, informer.events(), eye.clone(), rng.fork()) };
        }
        let resync = (choice == 1).then(|| Duration::from_secs(rng.u64(5..120)));
        let panics = (choice == 5).then(|| rng.fork());
        let filter = (choice == 0).then(|| Filter::new(eye.clone()));
        let shown = filter.as_ref().map(|filter| Arc::clone(&filter.shown));
        let probe = Probe { id, eye: eye.clone(), panics, filter };
        let registration = Arc::new(match is_waited_for {
            true => informer.add_backpressured_handler(probe),
            false => informer.add_handler_with_resync(probe, resync),
        });
        let ticker = resync.map(|period| ticker(id, period, eye.clone(), Arc::downgrade(&registration)));
        Self { id, kind: Kind::Handler { registration, ticker, shown } }
    }

    /// What holds of it at any time.
    pub(super) fn check(&self, eye: &Eye<T>) {
        if let Kind::Handler { registration, .. } = &self.kind
            && registration.has_synced()
        {
            eye.desk().lock().observe(Observation::HandlerSynced { handler: self.id });
        }
    }

    /// What holds of it once nothing happens any more.
    pub(super) fn drained(&self, eye: &Eye<T>) -> Result<(), Violation> {
        let wrong = |property, what: &str| Violation { property, how: format!("handler {} {what}", self.id) };
        let (idle, synced, shown) = match &self.kind {
            Kind::Handler { registration, shown, .. } => {
                (registration.pending() == 0, registration.has_synced(), shown.as_ref())
            }
            Kind::Stream(_, reading) => {
                let reading = *reading.lock();
                (reading.idle, reading.synced, None)
            }
        };
        if !idle {
            return Err(wrong(8, "is not told all"));
        }
        if !synced {
            return Err(wrong(11, "is not synced"));
        }
        if let Some(shown) = shown {
            let shown: Vec<Object> = shown.lock().values().copied().collect();
            let passing = eye.even_objects(true);
            if shown != passing {
                return Err(wrong(8, &format!("was shown {shown:?}, the filter passes {passing:?}")));
            }
        }
        eye.desk().lock().try_observe(Observation::Drained { handler: self.id })
    }

    /// Removes it; no call follows.
    pub(super) async fn leave(self, eye: &Eye<T>, after_delivery: bool) {
        match self.kind {
            Kind::Handler { registration, ticker, .. } => {
                end(ticker).await;
                let registration = Arc::into_inner(registration).expect("the ticker has ended");
                match after_delivery {
                    true => registration.remove_after_delivery().await,
                    false => registration.remove().await,
                }
            }
            Kind::Stream(task, _) => {
                end(Some(task)).await;
                let mut desk = eye.desk().lock();
                if desk.is_running(self.id) {
                    desk.observe(Observation::Returned { handler: self.id });
                }
            }
        }
        eye.desk().lock().observe(Observation::HandlerRemoved { handler: self.id });
    }

    /// Waits for what ends by itself when the informer has stopped, and ends the rest.
    pub(super) async fn end(self) {
        match self.kind {
            Kind::Stream(task, _) => _ = task.await,
            Kind::Handler { ticker, .. } => end(ticker).await,
        }
    }
}

async fn end(task: Option<JoinHandle<()>>) {
    if let Some(task) = task {
        task.abort();
        _ = task.await;
    }
}

/// Resyncs come at the end of each period. A resync counts in the backlog, where the judge does not see it: so it is told
/// of it just before, and of a backlog that is empty just after.
fn ticker<T: Form>(
    id: HandlerId,
    period: Duration,
    eye: Eye<T>,
    registration: Weak<HandlerRegistration<T>>,
) -> JoinHandle<()> {
    let moment = Duration::from_millis(2);
    tokio::spawn(async move {
        let mut tick = Instant::now() + period;
        loop {
            sleep_until(tick - moment).await;
            eye.desk().lock().observe(Observation::Resynced { handler: id });
            sleep_until(tick + moment).await;
            let Some(registration) = registration.upgrade() else { return };
            if registration.pending() == 0 {
                eye.look();
                eye.desk().lock().observe(Observation::Drained { handler: id });
            }
            tick += period;
        }
    })
}

/// Shows the judge each call.
struct Probe<T: Form> {
    id: HandlerId,
    eye: Eye<T>,
    /// Panics now and then.
    panics: Option<Rng>,
    /// Passes some of what it is told to another handler.
    filter: Option<Filter<T>>,
}

impl<T: Form> Probe<T> {
    fn call(&mut self, event: &kube_informer::Event<T>) {
        told(self.id, &self.eye, event);
        if let Some(filter) = &mut self.filter {
            filter.call(event);
        }
        self.eye.desk().lock().observe(Observation::Returned { handler: self.id });
        if self.panics.as_mut().is_some_and(|rng| rng.u8(..8) == 0) {
            // Without the words on standard error that a panic has.
            std::panic::resume_unwind(Box::new(()));
        }
    }
}

impl<T: Form> EventHandler<T> for Probe<T> {
    fn on_add(&mut self, object: &Entry<T>, initial: bool) {
        self.call(&kube_informer::Event::Added { object: object.clone(), initial });
    }

    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        self.call(&kube_informer::Event::Updated { old: old.clone(), new: new.clone() });
    }

    fn on_delete(&mut self, last: &Entry<T>, final_state_unknown: bool) {
        self.call(&kube_informer::Event::Deleted { last: last.clone(), final_state_unknown });
    }
}

fn told<T: Form>(id: HandlerId, eye: &Eye<T>, event: &kube_informer::Event<T>) {
    let event = eye.event(event);
    let view = Some(eye.view(event.key()));
    eye.desk().lock().observe(Observation::Called { handler: id, event, view });
}

/// A stream on a task of its own; whoever reads it is busy with each event for a while.
fn stream<T: Form>(id: HandlerId, mut events: EventStream<T>, eye: Eye<T>, mut rng: Rng) -> Kind<T> {
    let state = Arc::new(Mutex::new(Reading::default()));
    let shows = Arc::clone(&state);
    let slowest = if rng.bool() { 0 } else { rng.u64(1..6000) };
    let task = tokio::spawn(async move {
        loop {
            let synced = events.has_synced();
            if synced && !shows.lock().synced {
                eye.desk().lock().observe(Observation::HandlerSynced { handler: id });
            }
            *shows.lock() = Reading { idle: events.pending() == 0, synced };
            // An empty list syncs it without an event.
            let patience = if synced { Duration::MAX } else { Duration::from_secs(5) };
            let Ok(next) = tokio::time::timeout(patience, events.next()).await else { continue };
            let Some(event) = next else { return };
            shows.lock().idle = false;
            told(id, &eye, &event);
            if slowest > 0 {
                tokio::time::sleep(Duration::from_millis(rng.u64(..slowest))).await;
            }
            eye.desk().lock().observe(Observation::Returned { handler: id });
        }
    });
    Kind::Stream(task, state)
}

/// A filtering handler, and what it must tell the one behind it.
struct Filter<T: Form> {
    eye: Eye<T>,
    filtered: Box<dyn EventHandler<T>>,
    /// What the one behind it was told by the last call.
    told: Arc<Mutex<Vec<Event>>>,
    shown: CacheState,
}

impl<T: Form> Filter<T> {
    fn new(eye: Eye<T>) -> Self {
        let told: Arc<Mutex<Vec<Event>>> = Arc::default();
        let (tells, sees) = (Arc::clone(&told), eye.clone());
        let behind = handler_fn(move |event: &kube_informer::Event<T>| tells.lock().push(sees.event(event)));
        let filtered = Box::new(FilteringEventHandler::new(|entry: &Entry<T>| entry.is_even(), behind));
        Self { eye, filtered, told, shown: Arc::default() }
    }

    fn call(&mut self, event: &kube_informer::Event<T>) {
        let passes = match event {
            kube_informer::Event::Added { object, .. } => {
                self.filtered
                    .on_add(object, matches!(event, kube_informer::Event::Added { initial: true, .. }));
                object.is_even()
            }
            kube_informer::Event::Updated { old, new } => {
                self.filtered.on_update(old, new);
                new.is_even()
            }
            kube_informer::Event::Deleted { last, final_state_unknown } => {
                self.filtered.on_delete(last, *final_state_unknown);
                false
            }
        };
        let event = self.eye.event(event);
        let mut shown = self.shown.lock();
        let knew = match event.after().filter(|_| passes) {
            Some(object) => shown.insert(event.key(), object).is_some(),
            None => shown.remove(&event.key()).is_some(),
        };
        let expected = match event {
            Event::Updated { new, .. } if !knew && passes => {
                Some(Event::Added { object: new, initial: false })
            }
            Event::Updated { old, .. } if knew && !passes => {
                Some(Event::Deleted { last: old, unknown: false })
            }
            event => (knew || passes).then_some(event),
        };
        let told = std::mem::take(&mut *self.told.lock());
        if told != Vec::from_iter(expected) {
            let how = format!("a filter makes {told:?} of {event:?}, not {expected:?}");
            self.eye.desk().lock().broken(Violation { property: 5, how });
        }
    }
}
