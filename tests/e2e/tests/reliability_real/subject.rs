//! An informer under test: what it has must be what the server has, and a judge hears what its handlers are told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube_informer::{Informer, InformerStatus, Object, RelistCause};
use kube_informer_properties::{CacheState, Cause, HandlerId, Judge, Key, Object as Seen, Observation};
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

use crate::requests::Requests;
use crate::truth::{Scope, States, difference};
use crate::watched::{Joined, Log, Tell, Watched};

/// From how many waiting events on those of a handler are merged: fewer than there are objects, so that it happens.
pub(crate) const MARK: usize = 64;

/// The handler that is there from the beginning; those that join later count up from here.
const FIRST: HandlerId = 0;
/// A late handler joins where there are no more objects than this: for more the judge takes long.
const FEW: usize = 1500;
/// How long a late handler may take until it is synced.
const SYNCED: Duration = Duration::from_secs(30);

/// An informer, its handlers, and what is known of them.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) scope: Scope,
    pub(crate) requests: Requests,
    pub(crate) informer: Box<dyn Watched>,
    log: Arc<Mutex<Log>>,
    judge: Judge,
    first: Box<dyn Joined>,
    /// The one that joined when all was well the last time.
    late: Option<(HandlerId, Box<dyn Joined>)>,
    /// What the server had the last time; `None` before the first.
    before: Option<BTreeMap<Key, Seen>>,
    /// Relists that trust no version, as far as the judge knows.
    distrusting: u64,
    /// Calls of handlers.
    pub(crate) told: usize,
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
        let (late, before, distrusting, told) = (None, None, 0, 0);
        Ok(Self { name, scope, requests, informer, log, judge, first, late, before, distrusting, told })
    }

    /// Why the informer and its handlers do not have what the server has; `None` if they do.
    ///
    /// # Errors
    ///
    /// What was seen breaks a property.
    pub(crate) fn behind(&mut self, truth: &States) -> Result<Option<String>> {
        let (states, _) = self.informer.shown();
        if let Some(difference) = difference(&states, truth) {
            return Ok(Some(format!("the cache: {difference}")));
        }
        if self.before.is_none() {
            // What handlers were told of the first list is judged once the judge knows it.
            self.observe(truth)?;
            self.judge.observe(Observation::InformerSynced)?;
        }
        self.hear()?;
        let server = self.numbered(truth);
        for handler in [FIRST].into_iter().chain(self.late.as_ref().map(|(late, _)| *late)) {
            let knows = self.judge.past().handlers.get(&handler).map(|handler| &handler.knows);
            if knows != Some(&server) {
                return Ok(Some(format!("handler {handler} was not told of all")));
            }
        }
        Ok(None)
    }

    /// All is well: the judge looks at everything, and another handler joins.
    ///
    /// # Errors
    ///
    /// What was seen breaks a property, or something went wrong that no fault explains.
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

    /// Removes the late handler, and another one joins. Nothing changes meanwhile.
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

    /// The judge hears what handlers were told.
    fn hear(&mut self) -> Result<()> {
        let told = std::mem::take(&mut self.log.lock().told);
        self.told += told.len();
        for (handler, event) in told {
            self.judge.observe(Observation::Called { handler, event, view: None })?;
            self.judge.observe(Observation::Returned { handler })?;
        }
        Ok(())
    }

    /// The judge sees what the server has and what the cache shows.
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
        // Which changes came between this snapshot and the one before, and at which version, is not known.
        let shown = CacheState {
            objects: &objects,
            stale: &[],
            mark,
            events: None,
            cause: Cause::Unknown,
            exact: false,
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

/// Lists that were begun because no version could be trusted.
pub(crate) fn distrusting(status: &InformerStatus) -> u64 {
    let lists = &status.reflector.lists_by_cause;
    [RelistCause::Expired, RelistCause::TooLarge].iter().filter_map(|cause| lists.get(cause)).sum()
}
