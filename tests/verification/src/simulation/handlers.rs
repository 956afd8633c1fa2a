//! The handlers of a simulation: plain ones, some that panic, some that filter, some that are waited
//! for, streams that are read slowly.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use fastrand::Rng;
use futures_util::StreamExt;
use kube_informer::{
    Entry, EventHandler, EventStream, FilteringEventHandler, HandlerRegistration, Informer, Removal,
    handler_fn,
};
use parking_lot::Mutex;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use super::{cache_observer::CacheObserver, object_forms::ObjectForm};
use crate::properties::{Event, HandlerId, Key, Object, Observation, Violation};

/// A handler or stream that is registered.
pub(super) struct RegisteredHandler<T: ObjectForm> {
    pub(super) id: HandlerId,
    kind: Kind<T>,
}

enum Kind<T: ObjectForm> {
    Handler {
        registration: Arc<HandlerRegistration<T>>,
        /// Reports resyncs to the judge.
        ticker: Option<JoinHandle<()>>,
        /// The delivered objects, if the handler receives only some objects.
        shown: Option<DeliveredObjects>,
    },
    /// Ends with the stream.
    Stream(JoinHandle<()>, Arc<Mutex<ReaderState>>),
}

type DeliveredObjects = Arc<Mutex<BTreeMap<Key, Object>>>;

/// The state of the reader of a stream.
#[derive(Clone, Copy, Default)]
struct ReaderState {
    /// True if the reader waits for the next event.
    idle: bool,
    synced: bool,
}

impl<T: ObjectForm> RegisteredHandler<T> {
    /// Registers a random handler and reports it to the judge.
    pub(super) fn take(
        id: HandlerId,
        informer: &Informer<T>,
        observer: &CacheObserver<T>,
        mark: usize,
        rng: &mut Rng,
    ) -> Self {
        let choice = rng.u8(..8);
        let is_waited_for = choice == 6;
        let mark = if is_waited_for { usize::MAX } else { mark };
        observer.recorder().lock().observe(Observation::HandlerAdded { handler: id, mark });
        if let 2..=4 = choice {
            return Self { id, kind: stream(id, informer.events(), observer.clone(), rng.fork()) };
        }
        let resync = (choice == 1).then(|| Duration::from_secs(rng.u64(5..120)));
        let panics = (choice == 5).then(|| rng.fork());
        let filter = (choice == 0).then(|| Filter::new(observer.clone()));
        let shown = filter.as_ref().map(|filter| Arc::clone(&filter.shown));
        let probe = ReportingHandler { id, observer: observer.clone(), panics, filter };
        let registration = Arc::new(match is_waited_for {
            true => informer.add_backpressured_handler(probe),
            false => informer.add_handler_with_resync(probe, resync),
        });
        let ticker = resync.map(|period| ticker(id, period, observer.clone(), Arc::downgrade(&registration)));
        Self { id, kind: Kind::Handler { registration, ticker, shown } }
    }

    /// Checks the conditions that always hold.
    pub(super) fn check(&self, observer: &CacheObserver<T>) {
        if let Kind::Handler { registration, .. } = &self.kind
            && registration.has_synced()
        {
            observer.recorder().lock().observe(Observation::HandlerSynced { handler: self.id });
        }
    }

    /// Checks the conditions that hold after all events are delivered.
    pub(super) fn drained(&self, observer: &CacheObserver<T>) -> Result<(), Violation> {
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
            return Err(wrong(8, "the handler did not receive all events"));
        }
        if !synced {
            return Err(wrong(11, "is not synced"));
        }
        if let Some(shown) = shown {
            let shown: Vec<Object> = shown.lock().values().copied().collect();
            let passing = observer.even_objects(true);
            if shown != passing {
                return Err(wrong(
                    8,
                    &format!("the handler received {shown:?}, but the filter passes {passing:?}"),
                ));
            }
        }
        observer.recorder().lock().try_observe(Observation::Drained { handler: self.id })
    }

    /// Removes the handler. No call follows.
    pub(super) async fn leave(self, observer: &CacheObserver<T>, after_delivery: bool) {
        match self.kind {
            Kind::Handler { registration, ticker, .. } => {
                end(ticker).await;
                let registration = Arc::into_inner(registration).expect("the ticker has stopped");
                match after_delivery {
                    true => registration.remove_after_delivery().await,
                    false => registration.remove().await,
                }
            }
            Kind::Stream(task, _) => {
                end(Some(task)).await;
                let mut recorder = observer.recorder().lock();
                if recorder.is_running(self.id) {
                    recorder.observe(Observation::Returned { handler: self.id });
                }
            }
        }
        observer.recorder().lock().observe(Observation::HandlerRemoved { handler: self.id });
    }

    /// Waits for tasks that stop with the informer, and aborts other tasks.
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

/// Reports resyncs at each period. A resync adds to the backlog, which the judge cannot observe.
/// Therefore the resync is reported just before, and an empty backlog just after.
fn ticker<T: ObjectForm>(
    id: HandlerId,
    period: Duration,
    observer: CacheObserver<T>,
    registration: Weak<HandlerRegistration<T>>,
) -> JoinHandle<()> {
    let moment = Duration::from_millis(2);
    tokio::spawn(async move {
        let mut tick = Instant::now() + period;
        loop {
            sleep_until(tick - moment).await;
            observer.recorder().lock().observe(Observation::Resynced { handler: id });
            sleep_until(tick + moment).await;
            let Some(registration) = registration.upgrade() else { return };
            if registration.pending() == 0 {
                observer.look();
                observer.recorder().lock().observe(Observation::Drained { handler: id });
            }
            tick += period;
        }
    })
}

/// Reports each call to the judge.
struct ReportingHandler<T: ObjectForm> {
    id: HandlerId,
    observer: CacheObserver<T>,
    /// Panics now and then.
    panics: Option<Rng>,
    /// Passes some events to a second handler.
    filter: Option<Filter<T>>,
}

impl<T: ObjectForm> ReportingHandler<T> {
    fn call(&mut self, event: &kube_informer::Event<T>) {
        report_call(self.id, &self.observer, event);
        if let Some(filter) = &mut self.filter {
            filter.call(event);
        }
        self.observer.recorder().lock().observe(Observation::Returned { handler: self.id });
        if self.panics.as_mut().is_some_and(|rng| rng.u8(..8) == 0) {
            // `resume_unwind` prints no message on standard error.
            std::panic::resume_unwind(Box::new(()));
        }
    }
}

impl<T: ObjectForm> EventHandler<T> for ReportingHandler<T> {
    fn on_add(&mut self, object: &Entry<T>, initial: bool) {
        self.call(&kube_informer::Event::Added { object: object.clone(), initial });
    }

    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        self.call(&kube_informer::Event::Updated { old: old.clone(), new: new.clone() });
    }

    fn on_delete(&mut self, last: &Entry<T>, removal: Removal) {
        self.call(&kube_informer::Event::Deleted { last: last.clone(), removal });
    }
}

fn report_call<T: ObjectForm>(id: HandlerId, observer: &CacheObserver<T>, event: &kube_informer::Event<T>) {
    let event = observer.event(event);
    let view = Some(observer.view(event.key()));
    observer.recorder().lock().observe(Observation::Called { handler: id, event, view });
}

/// A stream with a separate task, which handles each event slowly.
fn stream<T: ObjectForm>(
    id: HandlerId,
    mut events: EventStream<T>,
    observer: CacheObserver<T>,
    mut rng: Rng,
) -> Kind<T> {
    let state = Arc::new(Mutex::new(ReaderState::default()));
    let shows = Arc::clone(&state);
    let slowest = if rng.bool() { 0 } else { rng.u64(1..6000) };
    let task = tokio::spawn(async move {
        loop {
            let synced = events.has_synced();
            if synced && !shows.lock().synced {
                observer.recorder().lock().observe(Observation::HandlerSynced { handler: id });
            }
            *shows.lock() = ReaderState { idle: events.pending() == 0, synced };
            // An empty list syncs it without an event.
            let patience = if synced { Duration::MAX } else { Duration::from_secs(5) };
            let Ok(next) = tokio::time::timeout(patience, events.next()).await else { continue };
            let Some(event) = next else { return };
            shows.lock().idle = false;
            report_call(id, &observer, &event);
            if slowest > 0 {
                tokio::time::sleep(Duration::from_millis(rng.u64(..slowest))).await;
            }
            observer.recorder().lock().observe(Observation::Returned { handler: id });
        }
    });
    Kind::Stream(task, state)
}

/// A filtering handler, and the events that its inner handler must receive.
struct Filter<T: ObjectForm> {
    observer: CacheObserver<T>,
    filtered: Box<dyn EventHandler<T>>,
    /// The events that the inner handler received in the last call.
    delivered: Arc<Mutex<Vec<Event>>>,
    shown: DeliveredObjects,
}

impl<T: ObjectForm> Filter<T> {
    fn new(observer: CacheObserver<T>) -> Self {
        let delivered: Arc<Mutex<Vec<Event>>> = Arc::default();
        let (events, observer_of_events) = (Arc::clone(&delivered), observer.clone());
        let behind = handler_fn(move |event: &kube_informer::Event<T>| {
            events.lock().push(observer_of_events.event(event));
        });
        let filtered = Box::new(FilteringEventHandler::new(|entry: &Entry<T>| entry.is_even(), behind));
        Self { observer, filtered, delivered, shown: Arc::default() }
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
            kube_informer::Event::Deleted { last, removal } => {
                self.filtered.on_delete(last, *removal);
                false
            }
        };
        let event = self.observer.event(event);
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
                Some(Event::Deleted { last: old, removal: Removal::Left })
            }
            event => (knew || passes).then_some(event),
        };
        let delivered = std::mem::take(&mut *self.delivered.lock());
        if delivered != Vec::from_iter(expected) {
            let how = format!("a filter makes {delivered:?} of {event:?}, not {expected:?}");
            self.observer.recorder().lock().broken(Violation { property: 5, how });
        }
    }
}
