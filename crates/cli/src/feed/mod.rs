//! `Feed`: the events of several informers in one bounded queue, with notices about their watches.
//!
//! Each informer has one task, which moves its events to the queue. If the reader is slow, the informer
//! coalesces events, so the memory is bounded. Deletions are never lost: the informer compares its cache
//! after each list.

mod notices;

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use futures_util::Stream as _;
use kube_client::{
    Client,
    core::{ApiResource, DynamicObject},
};
use kube_informer::{
    Compressed, Event, EventStream, FactoryError, Informer, InformerFactory, ReflectorOptions, Removal,
    Scope, Snapshot,
};
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use crate::{error::CliError, resources::ServerResource};
use notices::Narrator;
pub(crate) use notices::Notice;

/// An object in the cache: compressed JSON with managedFields.
pub(crate) type CachedObject = Compressed<DynamicObject>;

/// The fields of an object cannot be read, although the watch continues with the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its fields cannot be compared, because it is nested too deeply or contains a number that is too large"
)]
pub(crate) struct UnreadableObject;

/// Returns the JSON of a cached object.
///
/// # Errors
///
/// Fails if the object is nested more than 128 times, or contains a number that is too large.
pub(crate) fn object_value(object: &CachedObject) -> Result<Value, UnreadableObject> {
    let json = object.json().map_err(|_| UnreadableObject)?;
    serde_json::from_slice(&json).map_err(|_| UnreadableObject)
}

/// The maximum number of events between the informers and the reader.
const QUEUED_EVENTS: usize = 256;
/// The time without an event after which the deletions of a list are counted.
const QUIET: Duration = Duration::from_millis(100);

/// The objects that one informer watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The resource with its API group, for example `deployments.apps`.
    pub(crate) label: String,
    pub(crate) resource: ApiResource,
    pub(crate) scope: Scope,
    /// `None` for all namespaces, and for cluster-scoped resources.
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
}

impl Target {
    /// Selects all objects of a resource in a namespace.
    pub(crate) fn new(resource: &ServerResource, namespace: Option<&str>) -> Self {
        let is_namespaced = resource.scope == Scope::Namespaced;
        Self {
            label: resource.name(),
            resource: resource.resource.clone(),
            scope: resource.scope,
            namespace: namespace.filter(|_| is_namespaced).map(str::to_owned),
            labels: None,
            fields: None,
        }
    }

    /// Creates the informer of these objects.
    pub(crate) fn informer(&self, factory: &InformerFactory) -> Result<Informer<CachedObject>, FactoryError> {
        factory
            .select_dynamic::<CachedObject>(&self.resource, self.scope)
            .namespace(self.namespace.clone().unwrap_or_default())
            .labels(self.labels.clone().unwrap_or_default())
            .fields(self.fields.clone().unwrap_or_default())
            .informer()
    }
}

/// Creates a factory whose informers keep managedFields, and delete the objects of a removed CRD.
pub(crate) fn factory(client: Client) -> InformerFactory {
    let options = ReflectorOptions {
        clear_when_gone: true,
        log_failures: false,
        // A person waits for the next attempt. One program at a terminal does not load the server.
        backoff_initial: Duration::from_millis(250),
        backoff_max: Duration::from_secs(5),
        backoff_reset: Duration::from_secs(30),
        ..ReflectorOptions::default()
    };
    InformerFactory::new(client).keep_managed_fields::<CachedObject>().reflector_options(options)
}

/// An item of the feed.
pub(crate) enum FeedItem {
    /// An object was added, updated or deleted.
    Event(Event<CachedObject>),
    /// All objects of the first list were delivered as added.
    Synced,
    /// Something happened to the watch.
    Notice(Notice),
}

/// The events of several informers.
pub(crate) struct Feed {
    factory: InformerFactory,
    informers: Vec<Informer<CachedObject>>,
    items: mpsc::Receiver<(usize, FeedItem)>,
    tasks: JoinSet<()>,
}

impl Feed {
    /// Starts an informer for each target.
    ///
    /// # Errors
    ///
    /// Fails if a namespace or a selector is invalid.
    pub(crate) fn start(client: Client, targets: &[Target]) -> Result<Self, CliError> {
        let factory = factory(client);
        let (sender, items) = mpsc::channel(QUEUED_EVENTS);
        let mut tasks = JoinSet::new();
        let mut informers = Vec::new();
        for (number, target) in targets.iter().enumerate() {
            let informer = target.informer(&factory).map_err(|error| CliError::Usage(error.to_string()))?;
            tasks.spawn(forward(number, informer.clone(), sender.clone()));
            informers.push(informer);
        }
        factory.start();
        Ok(Self { factory, informers, items, tasks })
    }

    /// Returns the next item, with the number of its target. Returns `None` after [`stop`](Self::stop), when
    /// all events were returned.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no item is lost.
    pub(crate) async fn next(&mut self) -> Option<(usize, FeedItem)> {
        self.items.recv().await
    }

    /// Returns the next item, if one is ready.
    pub(crate) fn try_next(&mut self) -> Option<(usize, FeedItem)> {
        self.items.try_recv().ok()
    }

    /// Returns the cached objects of a target. After [`stop`](Self::stop), they equal the returned events.
    pub(crate) fn objects(&self, target: usize) -> Snapshot<CachedObject> {
        self.informers[target].lister().snapshot()
    }

    /// Stops the informers. [`next`](Self::next) still returns the events that they have received.
    pub(crate) async fn stop(&self) {
        self.factory.shutdown().await;
    }

    /// Waits for all tasks. Drops the remaining events.
    pub(crate) async fn close(mut self) {
        self.factory.shutdown().await;
        self.items.close();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// The next step of an event stream.
enum StreamStep {
    Event(Event<CachedObject>),
    Synced,
    End,
}

/// Returns the next event, or `Synced` once when all initial events were returned. `held` stores the event
/// that follows `Synced`.
///
/// # Cancel safety
///
/// If the future is dropped, no event is lost.
async fn next_step(
    events: &mut EventStream<CachedObject>,
    held: &mut Option<Event<CachedObject>>,
    is_synced: bool,
) -> StreamStep {
    poll_fn(|context| {
        if let Some(event) = held.take() {
            return Poll::Ready(StreamStep::Event(event));
        }
        let next = Pin::new(&mut *events).poll_next(context);
        // The poll has acknowledged the events before. On a busy server, another event is always ready.
        if !is_synced && events.has_synced() && !matches!(next, Poll::Ready(None)) {
            if let Poll::Ready(event) = next {
                *held = event;
            }
            return Poll::Ready(StreamStep::Synced);
        }
        next.map(|event| event.map_or(StreamStep::End, StreamStep::Event))
    })
    .await
}

/// Moves the events of an informer to the queue, until the informer stops or the reader is dropped.
async fn forward(number: usize, informer: Informer<CachedObject>, sender: mpsc::Sender<(usize, FeedItem)>) {
    let mut events = informer.events();
    let mut status = informer.reflector_status();
    let mut narrator = Narrator::default();
    let (mut is_synced, mut is_announced) = (false, false);
    let (mut found, mut held) = (0, None);
    loop {
        let item = tokio::select! {
            biased;
            step = next_step(&mut events, &mut held, is_synced) => match step {
                StreamStep::Event(event) => {
                    found += usize::from(is_found(&event));
                    FeedItem::Event(event)
                }
                StreamStep::Synced => {
                    is_synced = true;
                    FeedItem::Synced
                }
                StreamStep::End => return,
            },
            Ok(()) = status.changed() => {
                match narrator.observe(&status.borrow_and_update()) {
                    Some(notice) => FeedItem::Notice(notice),
                    None => continue,
                }
            }
            // Wakes the task if the first list is empty. An error is also in the status.
            _ = informer.wait_for_sync(Duration::MAX), if !is_announced => {
                is_announced = true;
                continue;
            }
            () = sleep(QUIET), if narrator.is_relisted() => match narrator.finish_relist(std::mem::take(&mut found)) {
                Some(notice) => FeedItem::Notice(notice),
                None => continue,
            },
        };
        if sender.send((number, item)).await.is_err() {
            return;
        }
    }
}

/// Returns whether only a list could find this deletion.
fn is_found(event: &Event<CachedObject>) -> bool {
    matches!(event, Event::Deleted { removal: Removal::FinalStateUnknown, .. })
}

#[cfg(test)]
mod tests {
    use kube_client::core::GroupVersionKind;
    use serde_json::json;

    use super::*;

    /// A busy server changes objects faster than the reader reads them.
    #[tokio::test]
    async fn sync_is_reported_although_further_events_are_ready() {
        let server = kube_testserver::Server::new();
        let create = |name: &str| {
            let metadata = json!({"name": name, "namespace": "default"});
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            server.create(&map).unwrap();
        };
        create("first");
        let target = Target {
            label: "configmaps".to_owned(),
            resource: ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap")),
            scope: Scope::Namespaced,
            namespace: None,
            labels: None,
            fields: None,
        };
        let factory = factory(Client::new(server.service(), "default"));
        let informer = target.informer(&factory).unwrap();
        let (mut events, mut held) = (informer.events(), None);
        factory.start();
        let first = next_step(&mut events, &mut held, false).await;
        assert!(matches!(first, StreamStep::Event(Event::Added { initial: true, .. })));
        let names = ["a", "b", "c"];
        names.into_iter().for_each(create);
        while events.pending() < names.len() {
            tokio::task::yield_now().await;
        }
        let second = next_step(&mut events, &mut held, false).await;
        assert!(matches!(second, StreamStep::Synced), "the initial list is complete");
        for name in names {
            let StreamStep::Event(event) = next_step(&mut events, &mut held, true).await else { panic!() };
            assert_eq!(event.key().name(), name);
        }
        factory.shutdown().await;
    }
}
