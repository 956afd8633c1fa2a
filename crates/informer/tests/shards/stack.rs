//! A sharded informer with an embedded server, and a handler that checks its calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::stream::BoxStream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{
    Entry, EventHandler, Informer, ObjectId, ObjectKey, ReflectorOptions, Removal, Shard, ShardKey, Slot,
    SlotCount, SlotSet,
};
use kube_listwatch::{
    ListPart, ListRequest, ListWatch, ListWatchError, ListerWatcher, WatchEvent, WatchRequest,
};
use kube_object::CacheProbe;
use kube_testserver::{Server, Verb};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

pub(crate) const COUNT: u16 = 8;

/// A namespace in each slot: the namespace at a position is in the slot with the same number.
pub(crate) const NAMESPACES: [&str; COUNT as usize] =
    ["kappa", "orders", "delta", "search", "web", "shop", "auth", "infra"];

pub(crate) fn set(slots: impl IntoIterator<Item = u8>) -> SlotSet {
    slots.into_iter().map(Slot).collect()
}

pub(crate) fn division(key: ShardKey) -> Shard {
    Shard { key, count: SlotCount::new(COUNT).unwrap(), slots: SlotSet::default() }
}

/// The objects that the handler has received and not deleted, and the violations of the contract.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) known: BTreeMap<ObjectKey, ObjectId>,
    pub(crate) log: Vec<String>,
    /// All received versions of all objects.
    pub(crate) versions: BTreeSet<String>,
    pub(crate) violations: Vec<String>,
}

impl Seen {
    fn receive(&mut self, sign: &str, before: Option<&ObjectId>, id: &ObjectId) {
        let known = self.known.insert(id.key.clone(), id.clone());
        if known.as_ref() != before {
            self.violations.push(format!("{sign}{id}: the handler knows {known:?} and not {before:?}"));
        }
        self.versions.insert(version_of(id));
        self.log.push(format!("{sign}{}", id.key.name()));
    }
}

fn version_of(id: &ObjectId) -> String {
    format!("{} {} {}", id.key, id.uid, id.version)
}

#[derive(Clone, Default)]
pub(crate) struct Checked(pub(crate) Arc<Mutex<Seen>>);

impl EventHandler<ConfigMap> for Checked {
    fn on_add(&mut self, object: &Entry<ConfigMap>, is_in_initial_list: bool) {
        self.0.lock().receive(if is_in_initial_list { "++" } else { "+" }, None, &object.id);
    }

    fn on_update(&mut self, old: &Entry<ConfigMap>, new: &Entry<ConfigMap>) {
        self.0.lock().receive("~", Some(&old.id), &new.id);
    }

    fn on_delete(&mut self, last_known: &Entry<ConfigMap>, removal: Removal) {
        let mut seen = self.0.lock();
        if seen.known.remove(last_known.key()).is_none() {
            seen.violations.push(format!("delete of {}, which the handler does not know", last_known.key()));
        }
        let sign = match removal {
            Removal::Left => "<",
            Removal::Deleted => "-",
            Removal::FinalStateUnknown => "?",
        };
        seen.log.push(format!("{sign}{}", last_known.key().name()));
    }
}

/// A source that always returns all objects.
struct PlainSource(ListWatch<ConfigMap>);

impl ListerWatcher<ConfigMap> for PlainSource {
    fn list(
        &self,
        request: ListRequest,
        known: Arc<dyn CacheProbe<ConfigMap>>,
    ) -> BoxStream<'static, Result<ListPart<ConfigMap>, ListWatchError>> {
        self.0.list(request, known)
    }

    fn watch(
        &self,
        request: WatchRequest,
        known: Arc<dyn CacheProbe<ConfigMap>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<ConfigMap>>, ListWatchError>> {
        self.0.watch(request, known)
    }
}

pub(crate) struct Stack {
    pub(crate) server: Server,
    pub(crate) key: ShardKey,
    pub(crate) informer: Informer<ConfigMap>,
    pub(crate) filled: watch::Receiver<SlotSet>,
    pub(crate) seen: Checked,
}

impl Stack {
    pub(crate) fn new(supported: bool, key: ShardKey) -> Self {
        Self::with_options(supported, key, ReflectorOptions { seed: Some(7), ..ReflectorOptions::default() })
    }

    pub(crate) fn with_options(supported: bool, key: ShardKey, options: ReflectorOptions) -> Self {
        Self::build(supported, key, options, false)
    }

    /// `plain_source` selects a source that cannot request a shard.
    pub(crate) fn build(
        supported: bool,
        key: ShardKey,
        options: ReflectorOptions,
        plain_source: bool,
    ) -> Self {
        let server = Server::builder().sharded_lists(supported).build();
        for name in NAMESPACES {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            server.create(&namespace).unwrap();
        }
        let api = Api::<ConfigMap>::all(Client::new(server.service(), "default"));
        let count = SlotCount::new(COUNT).unwrap();
        let informer = if plain_source {
            Informer::from_source(PlainSource(ListWatch::new(api)))
                .reflector_options(options)
                .sharded(key, count)
                .build()
        } else {
            Informer::builder(api).reflector_options(options).sharded(key, count).build()
        };
        let seen = Checked::default();
        informer.add_handler(seen.clone()).detach();
        let filled = informer.filled_slots().unwrap();
        Self { server, key, informer, filled, seen }
    }

    /// Creates an object in the namespace with this number. The uid determines its slot with
    /// [`ShardKey::Uid`].
    pub(crate) fn create(&self, namespace: usize, name: &str) {
        let metadata = json!({"name": name, "namespace": NAMESPACES[namespace]});
        self.server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
    }

    pub(crate) fn patch(&self, namespace: usize, name: &str, value: &str) {
        let patch = json!({"data": {"key": value}});
        self.server.patch_untyped("v1", "ConfigMap", Some(NAMESPACES[namespace]), name, &patch).unwrap();
    }

    pub(crate) fn delete(&self, namespace: usize, name: &str) {
        self.server.delete_untyped("v1", "ConfigMap", Some(NAMESPACES[namespace]), name).unwrap();
    }

    pub(crate) fn set(&self, slots: impl IntoIterator<Item = u8>) {
        self.informer.set_slots(set(slots)).unwrap();
    }

    /// Returns the objects of these slots on the server.
    pub(crate) fn on_server(&self, slots: SlotSet) -> BTreeSet<String> {
        let shard = Shard { slots, ..division(self.key) };
        let ids =
            self.server.list_untyped("v1", "ConfigMap", None).unwrap().into_iter().map(|object| id(&object));
        ids.filter(|id| shard.contains(&id.as_id())).map(|id| version_of(&id)).collect()
    }

    pub(crate) fn cached(&self) -> BTreeSet<String> {
        self.informer.lister().snapshot().iter().map(|entry| version_of(&entry.id)).collect()
    }

    pub(crate) fn handled(&self) -> BTreeSet<String> {
        self.seen.0.lock().known.values().map(version_of).collect()
    }

    /// Waits for a condition. The clock is paused, so minutes of backoff are immediate.
    pub(crate) async fn until(&self, what: &str, reached: impl Fn(&Self) -> bool) {
        let reaching = async {
            while !reached(self) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(600), reaching).await.is_err() {
            let (seen, status) = (self.seen.0.lock(), self.informer.status());
            let filled = *self.filled.borrow();
            panic!("{what}: filled {filled}, {status}\n{:?}\n{:?}", seen.log, self.cached());
        }
    }

    pub(crate) async fn filled(&self, slots: SlotSet) {
        self.until("filled", |stack| *stack.filled.borrow() == slots).await;
    }

    /// Waits until cache and handler contain the server's objects of these slots, and checks the calls.
    pub(crate) async fn agrees(&self, slots: SlotSet) {
        self.filled(slots).await;
        let agree = |stack: &Self| {
            let expected = stack.on_server(slots);
            stack.cached() == expected && stack.handled() == expected
        };
        self.until("cache, handler and server agree", agree).await;
        let seen = self.seen.0.lock();
        assert_eq!(seen.violations, [""; 0], "{:?}", seen.log);
        let missed: Vec<String> = self.on_server(slots).difference(&seen.versions).cloned().collect();
        assert_eq!(missed, [""; 0], "last versions that the handler has not received");
    }

    /// Waits until the requests are idle.
    pub(crate) async fn idle(&self) {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    pub(crate) fn take_log(&self) -> Vec<String> {
        let mut log = std::mem::take(&mut self.seen.0.lock().log);
        log.sort();
        log
    }

    /// Returns the shard selectors of all requests with this verb, without version checks. Each page is one
    /// request.
    pub(crate) fn selectors(&self, verb: Verb) -> Vec<String> {
        let requests = self.server.journal().requests().into_iter();
        requests
            .filter(|request| request.info.verb == verb && request.parameter("limit").as_deref() != Some("1"))
            .map(|request| request.parameter("shardSelector").unwrap_or_default())
            .collect()
    }

    pub(crate) fn selector(&self, slots: impl IntoIterator<Item = u8>) -> String {
        Shard { slots: set(slots), ..division(self.key) }.selector().unwrap_or_default()
    }
}

fn id(object: &Value) -> ObjectId {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectId {
        key: ObjectKey::new(Some(text("namespace")), text("name")),
        uid: text("uid").into(),
        version: text("resourceVersion").into(),
    }
}
