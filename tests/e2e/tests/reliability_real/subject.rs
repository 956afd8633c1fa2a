//! An informer under test. Its content must be equal to the state of the server, and a judge checks the
//! events of its handlers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube_informer::{Informer, InformerStatus, Object, RelistCause};
use kube_informer_properties::{
    CacheState, Cause, Content, HandlerId, Judge, Key, Object as Seen, Observation,
};
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

use crate::requests::Requests;
use crate::watched::{Joined, Log, Tell, Watched};
use kube_informer_e2e::load::truth::{Scope, States, difference};

/// The number of queued events from which the events of a handler are coalesced. It is smaller than the
/// number of objects.
pub(crate) const MARK: usize = 64;

/// The number of the first handler. Later handlers have higher numbers.
const FIRST: HandlerId = 0;
/// A late handler is added only to informers with at most this number of objects, because the judge is
/// slow for more objects.
const FEW: usize = 1500;
/// The deadline for the sync of a late handler.
const SYNCED: Duration = Duration::from_secs(30);

/// An informer, its handlers, and their recorded state.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) scope: Scope,
    pub(crate) requests: Requests,
    pub(crate) informer: Box<dyn Watched>,
    log: Arc<Mutex<Log>>,
    judge: Judge,
    first: Box<dyn Joined>,
    /// The handler that was added at the last check.
    late: Option<(HandlerId, Box<dyn Joined>)>,
    /// The last state of the server, or `None` before the first check.
    before: Option<BTreeMap<Key, Seen>>,
    /// The number of relists without reuse that the judge has recorded.
    distrusting: u64,
    /// The number of handler calls.
    pub(crate) delivered: usize,
}

impl Subject {
    /// An informer that has not been started.
    pub(crate) fn new<T: Object>(
        name: &'static str,
        scope: Scope,
        requests: Requests,
        informer: Informer<T>,
    ) -> Result<Self> {
        let log = Arc::new(Mutex::new(Log::default()));
        let mut judge = Judge::new();
        judge.observe(Observation::HandlerAdded { handler: FIRST, mark: MARK })?;
        let first = informer.join(Tell { handler: FIRST, log: Arc::clone(&log) });
        let informer = Box::new(informer);
        let (late, before, distrusting, delivered) = (None, None, 0, 0);
        Ok(Self { name, scope, requests, informer, log, judge, first, late, before, distrusting, delivered })
    }

    /// Returns the difference between the server and the informer or its handlers, or `None` if there
    /// is none.
    ///
    /// # Errors
    ///
    /// Fails if an observation violates a property.
    pub(crate) fn behind(&mut self, truth: &States) -> Result<Option<String>> {
        let (states, _) = self.informer.shown();
        if let Some(difference) = difference(&states, truth) {
            return Ok(Some(format!("the cache: {difference}")));
        }
        if self.before.is_none() {
            // The events of the first list are checked after the judge has observed the list.
            self.observe(truth)?;
            self.judge.observe(Observation::InformerSynced)?;
        }
        self.hear()?;
        let server = self.numbered(truth);
        for handler in [FIRST].into_iter().chain(self.late.as_ref().map(|(late, _)| *late)) {
            let knows = self.judge.past().handlers.get(&handler).map(|handler| &handler.knows);
            if knows != Some(&server) {
                return Ok(Some(format!("handler {handler} did not receive all events")));
            }
        }
        Ok(None)
    }

    /// Checks the final state with the judge, and adds a new handler.
    ///
    /// # Errors
    ///
    /// Fails if an observation violates a property, or for an unexpected error.
    pub(crate) async fn conclude(&mut self, truth: &States) -> Result<()> {
        self.observe(truth)?;
        self.judge.observe(Observation::Drained { handler: FIRST })?;
        self.judge.observe(Observation::Quiet)?;
        ensure!(self.first.has_synced(), "the first handler is not synced");
        self.judge.observe(Observation::HandlerSynced { handler: FIRST })?;
        let status = self.informer.status();
        let panics: u64 = status.handlers.iter().map(|handler| handler.panics).sum();
        let bad = status.reflector.undecodable + status.reflector.nameless + panics;
        ensure!(bad == 0 && status.stale == 0, "objects that can't be read, or panics: {status}");
        if truth.len() <= FEW { self.exchange_late().await } else { Ok(()) }
    }

    /// Removes the late handler and adds a new one. No object changes during this.
    async fn exchange_late(&mut self) -> Result<()> {
        let mut handler = FIRST;
        if let Some((old, joined)) = self.late.take() {
            self.judge.observe(Observation::Drained { handler: old })?;
            joined.remove().await;
            self.judge.observe(Observation::HandlerRemoved { handler: old })?;
            handler = old;
        }
        let handler = handler + 1;
        self.judge.observe(Observation::HandlerAdded { handler, mark: MARK })?;
        let joined = self.informer.join(Tell { handler, log: Arc::clone(&self.log) });
        let synced = async {
            while !joined.has_synced() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(SYNCED, synced).await.context("a late handler is not synced")?;
        self.late = Some((handler, joined));
        self.hear()?;
        self.judge.observe(Observation::HandlerSynced { handler })?;
        self.judge.observe(Observation::Drained { handler })?;
        Ok(())
    }

    /// Passes the events of handlers to the judge.
    fn hear(&mut self) -> Result<()> {
        let delivered = std::mem::take(&mut self.log.lock().delivered);
        self.delivered += delivered.len();
        for (handler, event) in delivered {
            self.judge.observe(Observation::Called { handler, event, view: None })?;
            self.judge.observe(Observation::Returned { handler })?;
        }
        Ok(())
    }

    /// Passes the state of the server and the content of the cache to the judge.
    fn observe(&mut self, truth: &States) -> Result<()> {
        let server = self.numbered(truth);
        let before = self.before.take().unwrap_or_default();
        let (states, mark) = self.informer.shown();
        for object in server.values().filter(|object| before.get(&object.key) != Some(*object)) {
            self.judge.observe(Observation::Written { object: *object, decodable: true })?;
        }
        for key in before.into_keys().filter(|key| !server.contains_key(key)) {
            let version = mark.version.unwrap_or_default();
            self.judge.observe(Observation::Deleted { key, version })?;
        }
        let distrusting = distrusting(&self.informer.status());
        for _ in self.distrusting..distrusting {
            self.judge.observe(Observation::FreshRelist)?;
        }
        self.distrusting = distrusting;
        let objects: Vec<Seen> = self.numbered(&states).into_values().collect();
        // The changes between this snapshot and the preceding one were not observed.
        let shown = CacheState {
            objects: &objects,
            stale: &[],
            mark,
            events: None,
            cause: Cause::Unknown,
            content: Content::Unknown,
        };
        self.judge.observe(Observation::Cache(shown))?;
        self.before = Some(server);
        Ok(())
    }

    fn numbered(&self, states: &States) -> BTreeMap<Key, Seen> {
        let mut log = self.log.lock();
        let seen = states.iter().map(|(key, state)| log.seen(key, state));
        seen.map(|object| (object.key, object)).collect()
    }
}

/// Returns the number of lists that did not reuse cached versions.
pub(crate) fn distrusting(status: &InformerStatus) -> u64 {
    let lists = &status.reflector.lists_by_cause;
    [RelistCause::Expired, RelistCause::TooLarge].iter().filter_map(|cause| lists.get(cause)).sum()
}
