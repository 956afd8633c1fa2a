//! `ControllerState`: the present and past work of a controller, for the manager, metrics and debug
//! pages.

use std::{collections::BTreeSet, fmt::Display, sync::Arc, time::Duration};

use kube_workqueue::{RateLimiter, WorkQueue};
use parking_lot::{Mutex, RwLock};
use tokio::{sync::watch, time::Instant};
use tokio_util::task::TaskTracker;

use super::{
    ControllerError, ControllerOptions,
    history::RunChanges,
    keys::{ClusterOf, KeyFilter, KeyQueue, KeyView, RequestKey},
    reason::{Reason, Reasons},
};
use crate::observe::{
    changes::ChangeLog,
    metrics::{ControllerMetrics, Metrics},
};

/// The state of a controller. The type of its keys is erased.
pub(crate) struct ControllerState {
    pub(crate) options: ControllerOptions,
    pub(crate) keys: Box<dyn KeyView>,
    pub(crate) metrics: ControllerMetrics,
    changes: Option<ChangeLog>,
    /// The running reconciles.
    pub(crate) reconciles: TaskTracker,
    /// The error that stopped the controller. Set before the running reconciles end, which may take
    /// long.
    failure: watch::Sender<Option<ControllerError>>,
    /// When a reconcile was last dropped or panicked. The last request of that reconcile may still
    /// be in flight.
    cut_short_at: Mutex<Option<Instant>>,
}

impl ControllerState {
    /// Creates the state and the empty queue of a controller.
    pub(crate) fn new<Q: RequestKey>(
        options: ControllerOptions,
        limiter: impl RateLimiter<Q>,
        filter: Option<KeyFilter<Q>>,
        cluster_of: Option<ClusterOf<Q>>,
        metrics: &Metrics,
    ) -> (Arc<Self>, KeyQueue<Q>) {
        let (metrics, changes) = (metrics.for_controller(&options.name), metrics.changes.clone());
        let queue = WorkQueue::with_observer(limiter, metrics.clone());
        let keys = KeyQueue::new(queue, options.debounce, filter, cluster_of);
        let state = Self {
            options,
            keys: Box::new(keys.clone()),
            metrics,
            changes,
            reconciles: TaskTracker::new(),
            failure: watch::Sender::default(),
            cut_short_at: Mutex::default(),
        };
        (Arc::new(state), keys)
    }

    /// Returns the changes of the objects of the reasons since a position in the log. If the manager logs no
    /// changes, the result is empty.
    pub(crate) fn changes_of(&self, key: &impl Display, reasons: &Reasons, position: u64) -> RunChanges {
        let Some(log) = &self.changes else { return RunChanges::default() };
        let now = log.position();
        let mut seen = BTreeSet::new();
        let changes = |reason: &Reason| {
            let group = reason.group.as_deref()?;
            let kind = reason.source.strip_prefix("owned ").unwrap_or(&reason.source);
            let key = reason.object.as_ref().map_or_else(|| key.to_string(), ToString::to_string);
            let changes = log.since(position, group, kind, &key);
            changes.filter(|_| seen.insert((group.to_owned(), kind.to_owned(), key)))
        };
        RunChanges { by_reason: reasons.first.iter().map(changes).collect(), position: now }
    }

    /// Records that a reconcile is dropped now, or panicked.
    pub(crate) fn record_cut_short(&self) {
        *self.cut_short_at.lock() = Some(Instant::now());
    }

    /// Returns whether a reconcile was dropped or panicked within the given time.
    pub(crate) fn was_cut_short_within(&self, time: Duration) -> bool {
        self.cut_short_at.lock().is_some_and(|at| at.elapsed() < time)
    }

    /// Records the error that stops the controller.
    pub(crate) fn fail(&self, error: ControllerError) {
        self.failure.send_replace(Some(error));
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Returns the failure of the controller, if there is one.
    pub(crate) fn result(&self) -> Result<(), ControllerError> {
        self.failure.borrow().clone().map_or(Ok(()), Err)
    }

    /// Waits until the controller fails. Never returns if it does not fail.
    pub(crate) async fn wait_for_failure(&self) -> ControllerError {
        let mut failure = self.failure.subscribe();
        match failure.wait_for(Option::is_some).await.ok().and_then(|failure| failure.clone()) {
            Some(failure) => failure,
            None => std::future::pending().await, // unreachable: `self` holds the sender
        }
    }
}

/// The states of all controllers of a manager. Clones share the list.
#[derive(Clone, Default)]
pub(crate) struct ControllerStates(Arc<RwLock<Vec<ListedState>>>);

struct ListedState {
    state: Arc<ControllerState>,
    /// The controller was removed. A request of its last reconciles may still be in flight.
    is_removed: bool,
}

impl ControllerStates {
    /// Adds a controller.
    pub(crate) fn add(&self, state: Arc<ControllerState>) {
        self.0.write().push(ListedState { state, is_removed: false });
    }

    /// Adds a controller. Returns false if a controller has the same name. Forgets removed controllers
    /// whose requests are no longer in flight.
    pub(crate) fn add_unique(&self, state: Arc<ControllerState>, in_flight_time: Duration) -> bool {
        let mut states = self.0.write();
        states.retain(|listed| {
            let may_be_in_flight =
                !listed.state.reconciles.is_empty() || listed.state.was_cut_short_within(in_flight_time);
            !listed.is_removed || may_be_in_flight
        });
        let has_name = |listed: &ListedState| listed.state.options.name == state.options.name;
        if states.iter().any(|listed| !listed.is_removed && has_name(listed)) {
            return false;
        }
        states.push(ListedState { state, is_removed: false });
        true
    }

    /// Marks a controller as removed.
    pub(crate) fn remove(&self, name: &str) {
        let mut states = self.0.write();
        let removed =
            states.iter_mut().find(|listed| !listed.is_removed && *listed.state.options.name == *name);
        if let Some(removed) = removed {
            removed.is_removed = true;
        }
    }

    /// Returns the controllers that were not removed, in the order in which they were added.
    pub(crate) fn current(&self) -> Vec<Arc<ControllerState>> {
        let states = self.0.read();
        states.iter().filter(|listed| !listed.is_removed).map(|listed| Arc::clone(&listed.state)).collect()
    }

    /// Returns all controllers whose requests may be in flight, also removed controllers.
    pub(crate) fn all(&self) -> Vec<Arc<ControllerState>> {
        self.0.read().iter().map(|listed| Arc::clone(&listed.state)).collect()
    }
}
