//! The state of a server, and the only lock around the stored objects.

pub(crate) mod cache;
#[cfg(feature = "openapi")]
pub(crate) mod documents;
pub(crate) mod graph;
mod registry;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use parking_lot::{Mutex, RwLock};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::time::{Duration, timeout};

use crate::access::control::Access;
use crate::access::rbac;
use crate::access::users::Users;
use crate::clock::RunningClock;
use crate::faults::open_watches::OpenWatches;
use crate::faults::{ActiveFault, Faults, Gate, PlanState, StreamingLists};
use crate::journal::{Journal, Request};
use crate::schemas::kinds::kind::Kind;

use crate::status::Status;
use crate::storage::log::{Retention, Store};
use crate::storage::recent::Recent;
use crate::storage::signal::{Signal, SignalReceiver};
use crate::webhook::Webhooks;

pub(crate) use registry::{Registry, Served};

use cache::Cache;
use graph::Collector;

#[derive(Debug)]
pub(crate) struct State {
    pub store: Store,
    pub registry: Registry,
    pub namespaces: Served,
    /// The garbage collector. `None` if it is disabled.
    pub collector: Option<Collector>,
}

impl State {
    /// Returns the current definition of a resource that a request found before. The CRD of a custom
    /// resource can change while the request is executed.
    ///
    /// # Errors
    /// Returns 404 if the resource is no longer served, or if its CRD was deleted and created again.
    pub(crate) fn current(&self, served: &Served) -> Result<Served, Status> {
        let Kind { group, version, plural, rules, .. } = &*served.kind;
        if !rules.custom {
            return Ok(served.clone());
        }
        let found = self.registry.find(group, version, plural);
        let found = found.filter(|found| self.store.table(found.table).serves(served.incarnation));
        found.cloned().ok_or_else(Status::no_such_resource)
    }
}

/// The configuration of a server. The methods of `ServerBuilder` describe the fields.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub clock: RunningClock,
    pub hold_paused_clock: bool,
    pub seed: u64,
    pub retention: Retention,
    pub bookmark_period: Duration,
    pub streaming_lists: StreamingLists,
    pub gzip_watches: bool,
    pub field_ownership: bool,
    /// True if the contents of built-in kinds are validated.
    pub validation: bool,
    pub sharded_lists: bool,
    pub watch_cache: bool,
    pub garbage_collector: bool,
    pub max_body_bytes: usize,
    pub users: Users,
    pub requires_token: bool,
    pub strict: bool,
    pub rbac: bool,
    pub host_names: Vec<String>,
}

/// The internals of a server, shared by its handles, requests and open watches.
#[derive(Debug)]
pub(crate) struct Shared {
    state: RwLock<State>,
    /// Publishes the revision.
    revision: watch::Sender<u64>,
    /// Wakes reads that wait for a revision, in the order of their requests. A watch channel would wake
    /// them in a random order.
    advanced: Notify,
    /// Wakes watches if the revision or a watch cache advances.
    stirred: Signal,
    rng: Mutex<fastrand::Rng>,
    pub config: Config,
    pub journal: Arc<Journal>,
    pub faults: Faults,
    pub access: Access,
    pub open: OpenWatches,
    /// The watch cache of the server itself.
    pub cache: Arc<Cache>,
    streaming_lists: Mutex<StreamingLists>,
    pub gate: Gate,
    pub plan: Mutex<Option<Arc<PlanState>>>,
    pub recent: Recent,
    /// The number of addresses that Services have received.
    pub service_addresses: AtomicU32,
    /// The features that a log line has reported, as bits.
    pub reported_features: AtomicU64,
    pub webhooks: Webhooks,
    /// Completes each change within the same write, as controllers do later in a cluster.
    settle: fn(&mut State, &Self),
    #[cfg(feature = "openapi")]
    pub openapi: documents::Documents,
}

/// The maximum time that a read waits until the server reaches a revision. Then the server rejects the
/// revision as too large.
const FRESHNESS: Duration = Duration::from_secs(3);

impl Shared {
    pub(crate) fn new(config: Config, settle: fn(&mut State, &Self)) -> Self {
        let mut store = Store::new(config.retention);
        let mut registry = Registry::default();
        for kind in crate::schemas::kinds::builtin::KINDS.iter() {
            // Both groups of events serve the same objects.
            let shared = if kind.is_event() { registry.find("", "v1", "events") } else { None };
            let table = shared.map_or_else(|| store.add_table(), |events| events.table);
            registry.add(Served { kind: kind.clone(), table, incarnation: 0 });
        }
        let namespaces = registry
            .find("", "v1", "namespaces")
            .cloned()
            .expect("namespaces are in the table of built-in kinds");
        let revision = watch::Sender::new(store.revision());
        if config.garbage_collector {
            store.keep_changes();
        }
        let collector = config.garbage_collector.then(Collector::default);
        Self {
            state: RwLock::new(State { store, registry, namespaces, collector }),
            revision,
            advanced: Notify::new(),
            stirred: Signal::default(),
            rng: Mutex::new(fastrand::Rng::with_seed(config.seed)),
            access: Access::new(config.users.clone(), config.rbac, config.requires_token),
            streaming_lists: Mutex::new(config.streaming_lists),
            journal: Arc::new(Journal::new(config.max_body_bytes)),
            config,
            faults: Faults::default(),
            open: OpenWatches::default(),
            cache: Arc::new(Cache::main()),
            gate: Gate::default(),
            plan: Mutex::default(),
            recent: Recent::default(),
            service_addresses: AtomicU32::default(),
            reported_features: AtomicU64::default(),
            webhooks: Webhooks::default(),
            settle,
            #[cfg(feature = "openapi")]
            openapi: documents::Documents::default(),
        }
    }

    pub(crate) fn fault_for(&self, request: &Request) -> Option<ActiveFault> {
        self.faults.take(request).or_else(|| {
            let plan = self.plan.lock().clone();
            plan.and_then(|plan| plan.draw_fault(request))
        })
    }

    pub(crate) fn streaming_lists(&self) -> StreamingLists {
        *self.streaming_lists.lock()
    }

    pub(crate) fn set_streaming_lists(&self, how: StreamingLists) {
        *self.streaming_lists.lock() = how;
    }

    /// Reads the state. `look` must not block.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.read())
    }

    /// Changes the state, then publishes the new revision.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.write();
        let result = change(&mut state);
        (self.settle)(&mut state, self);
        let now = state.store.revision();
        if self.revision.send_if_modified(|known| std::mem::replace(known, now) != now) {
            self.advanced.notify_waiters();
            self.stirred.send();
        }
        result
    }

    /// Drops expired history. Call this method before a read that depends on expiry.
    pub(crate) fn age(&self) {
        if self.read(|state| state.store.ages()) {
            self.write(|state| state.store.age());
        }
    }

    /// Derives the rules of RBAC again if roles or bindings have changed.
    pub(crate) fn follow_rbac(&self) {
        let stored = |state: &State| {
            let plurals = ["clusterrolebindings", "rolebindings", "clusterroles", "roles"];
            let served = plurals.iter().filter_map(|plural| state.registry.find(rbac::GROUP, "v1", plural));
            served.flat_map(|served| state.store.table(served.table).objects().values().cloned()).collect()
        };
        self.access.follow(|| self.read(stored));
    }

    pub(crate) fn revision(&self) -> u64 {
        self.read(|state| state.store.revision())
    }

    /// Waits up to `FRESHNESS` until etcd has reached `revision`, then rejects it as too large.
    pub(crate) async fn reach(&self, revision: u64) -> Result<(), Status> {
        let mut known = self.revisions();
        let reached = known.wait_for(|now| *now >= revision);
        let waited = timeout(FRESHNESS, reached).await.is_ok();
        if waited { Ok(()) } else { Err(self.too_large(revision, self.revision())) }
    }

    /// Returns a future that is ready when the revision or a watch cache advances after this call.
    pub(crate) fn advanced(&self) -> Notified<'_> {
        self.advanced.notified()
    }

    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    pub(crate) fn stirs(&self) -> SignalReceiver {
        self.stirred.subscribe()
    }

    /// Wakes the tasks that wait for a revision, because a watch cache has advanced without a new
    /// revision.
    pub(crate) fn stir(&self) {
        self.revision.send_modify(|_| {});
        self.advanced.notify_waiters();
        self.stirred.send();
    }

    pub(crate) fn too_large(&self, revision: u64, current: u64) -> Status {
        // Only a lagging watch cache suggests when to retry; etcd does not.
        let status = Status::too_large(revision, current);
        if self.config.watch_cache { status.retry_after(1) } else { status }
    }

    pub(crate) fn random<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.rng.lock())
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Served> {
        self.read(|state| state.registry.find(group, version, plural).cloned())
    }
}
