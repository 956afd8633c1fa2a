//! An informer of any type, and the objects that its handler has received.

use std::sync::Arc;

use anyhow::Result;
use futures_util::future::BoxFuture;
use kube_informer::{Entry, Event, Informer, InformerStatus, Object};
use parking_lot::Mutex;

use crate::load::truth::{Scope, State, States, difference};

/// An informer with one handler.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) scope: Scope,
    received: Arc<Mutex<States>>,
    informer: Box<dyn AnyInformer>,
}

trait AnyInformer: Send {
    fn cached(&self) -> States;
    fn status(&self) -> InformerStatus;
    fn stop(&self) -> BoxFuture<'_, ()>;
}

impl<T: Object> AnyInformer for Informer<T> {
    fn cached(&self) -> States {
        self.lister().snapshot().iter().map(|entry| (entry.key().clone(), state(entry))).collect()
    }

    fn status(&self) -> InformerStatus {
        Informer::status(self)
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(Informer::stop(self))
    }
}

impl Subject {
    /// Starts an informer.
    pub(super) fn start<T: Object>(name: &'static str, scope: Scope, informer: Informer<T>) -> Self {
        let received = Arc::new(Mutex::new(States::new()));
        let states = Arc::clone(&received);
        informer.on_event(move |event| record(&mut states.lock(), event)).detach();
        informer.start();
        Self { name, scope, received, informer: Box::new(informer) }
    }

    /// Returns a difference to the state of the server. Returns `None` if the cache and the handler contain
    /// this state.
    pub(super) fn difference(&self, truth: &States) -> Option<String> {
        let of_cache = difference(&self.informer.cached(), truth).map(|text| format!("cache: {text}"));
        of_cache.or_else(|| difference(&self.received.lock(), truth).map(|text| format!("handler: {text}")))
    }

    pub(super) fn status(&self) -> InformerStatus {
        self.informer.status()
    }

    pub(super) async fn stop(self) -> Result<()> {
        self.informer.stop().await;
        Ok(())
    }
}

fn record<T: Object>(states: &mut States, event: &Event<T>) {
    match event {
        Event::Added { object, .. } | Event::Updated { new: object, .. } => {
            states.insert(object.key().clone(), state(object));
        }
        Event::Deleted { last, .. } => {
            states.remove(last.key());
        }
    }
}

fn state<T: Object>(entry: &Entry<T>) -> State {
    State::of(entry.id.uid.clone(), entry.id.version.clone(), &*entry.object)
}
