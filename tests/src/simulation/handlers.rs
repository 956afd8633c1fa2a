//! The handlers of a simulation: plain ones, some that panic, some that filter, streams that are read slowly.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fastrand::Rng;
use futures_util::StreamExt;
use kube_informer::{Entry, EventHandler, EventStream, Filtered, HandlerRegistration, Informer, handler_fn};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::{eye::Eye, things::Form};
use crate::properties::{Event, HandlerId, Key, Object, Observation, Violation};

/// A handler or stream that is registered.
pub(super) struct Seat<T: Form> {
    pub(super) id: HandlerId,
    kind: Kind<T>,
}

enum Kind<T: Form> {
    Handler(HandlerRegistration<T>),
    /// It is told of some objects only, so that it has a check of its own.
    Filtered(HandlerRegistration<T>, Arc<Mutex<BTreeMap<Key, Object>>>),
    /// Ends with the stream.
    Stream(JoinHandle<()>, Arc<Mutex<Reading>>),
}

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
        if choice == 0 {
            return Self { id, kind: filtered(informer, eye) };
        }
        // A resync counts in the backlog, where the judge does not see it: anything may be merged then.
        let resync = (choice == 1).then(|| Duration::from_secs(rng.u64(5..120)));
        let mark = if resync.is_some() { 0 } else { mark };
        eye.desk().lock().observe(Observation::Joined { handler: id, mark });
        let kind = match choice {
            2..=4 => stream(id, informer.events(), eye.clone(), rng.fork()),
            _ => {
                let panics = (choice == 5).then(|| rng.fork());
                let probe = Probe { id, eye: eye.clone(), panics };
                Kind::Handler(informer.add_handler_with_resync(probe, resync))
            }
        };
        Self { id, kind }
    }

    /// What holds of it at any time.
    pub(super) fn check(&self, eye: &Eye<T>) {
        if let Kind::Handler(registration) = &self.kind
            && registration.has_synced()
        {
            eye.desk().lock().observe(Observation::HandlerSynced { handler: self.id });
        }
    }

    /// What holds of it once nothing happens any more.
    pub(super) fn drained(&self, eye: &Eye<T>) -> Result<(), Violation> {
        let waiting = |what: &str| Violation { property: 8, how: format!("handler {} {what}", self.id) };
        match &self.kind {
            Kind::Handler(registration) | Kind::Filtered(registration, _) if registration.pending() > 0 => {
                Err(waiting("is not told all"))
            }
            Kind::Handler(registration) | Kind::Filtered(registration, _) if !registration.has_synced() => {
                Err(waiting("is not synced"))
            }
            Kind::Stream(_, state) if !state.lock().idle => Err(waiting("has not read all")),
            Kind::Stream(_, state) if !state.lock().synced => Err(waiting("is not synced")),
            Kind::Handler(_) | Kind::Stream(..) => {
                eye.desk().lock().try_observe(Observation::Drained { handler: self.id })
            }
            Kind::Filtered(_, shown) => {
                let shown: Vec<Object> = shown.lock().values().copied().collect();
                let passing = eye.even_objects(true);
                match shown == passing {
                    true => Ok(()),
                    false => Err(waiting(&format!("was shown {shown:?}, the filter passes {passing:?}"))),
                }
            }
        }
    }

    /// Removes it; no call follows.
    pub(super) async fn leave(self, eye: &Eye<T>, after_delivery: bool) {
        match self.kind {
            Kind::Handler(registration) | Kind::Filtered(registration, _) => match after_delivery {
                true => registration.remove_after_delivery().await,
                false => registration.remove().await,
            },
            Kind::Stream(task, _) => {
                task.abort();
                _ = task.await;
                let mut desk = eye.desk().lock();
                if desk.is_running(self.id) {
                    desk.observe(Observation::Returned { handler: self.id });
                }
            }
        }
        eye.desk().lock().observe(Observation::Left { handler: self.id });
    }

    /// Waits for what ends by itself when the informer has stopped.
    pub(super) async fn end(self) {
        if let Kind::Stream(task, _) = self.kind {
            _ = task.await;
        }
    }
}

/// Shows the judge each call.
struct Probe<T> {
    id: HandlerId,
    eye: Eye<T>,
    /// Panics now and then.
    panics: Option<Rng>,
}

impl<T: Form> Probe<T> {
    fn call(&mut self, event: &kube_informer::Event<T>) {
        told(self.id, &self.eye, event);
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
    eye.desk().lock().observe(Observation::Told { handler: id, event, view });
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

fn filtered<T: Form>(informer: &Informer<T>, eye: &Eye<T>) -> Kind<T> {
    let shown: Arc<Mutex<BTreeMap<Key, Object>>> = Arc::default();
    let (knows, eye) = (Arc::clone(&shown), eye.clone());
    let handler = handler_fn(move |event: &kube_informer::Event<T>| {
        let event = eye.event(event);
        let mut knows = knows.lock();
        let before = match event.after() {
            Some(object) => knows.insert(event.key(), object),
            None => knows.remove(&event.key()),
        };
        let follows = matches!(event, Event::Added { .. }) == before.is_none();
        if !follows {
            let how = format!("{event:?} is told to a filtered handler that knows {before:?}");
            eye.desk().lock().broken(Violation { property: 5, how });
        }
    });
    let even = |entry: &Entry<T>| entry.is_even();
    Kind::Filtered(informer.add_handler(Filtered::new(even, handler)), shown)
}
