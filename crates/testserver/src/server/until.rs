//! Waits until a condition on an object holds. A failed wait reports the observed states.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use kube_core::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Duration, Instant, timeout_at};

use crate::http::yaml::yaml;
use crate::server::Server;
use crate::server::snapshot::{field_changes, indent, without_bookkeeping};
use crate::server::verbs::{decoded, encoder, find_target};
use crate::status::Status;
use crate::storage::entry::Change;
use crate::storage::log::key;

/// The number of the last states and requests that a failed wait reports.
const REPORTED: usize = 10;

/// Reports that a wait for a condition failed.
///
/// Both `Display` and `Debug` print the report, so a failed `unwrap` is readable. The report contains the
/// contents of the object.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum UntilError {
    /// The condition did not hold within the time limit. The report contains the last state of the
    /// object, its last changes during the wait, and the last requests in the journal.
    #[error("{0}")]
    TimedOut(String),
    /// A state of the object does not match the Rust type.
    #[error("{0}")]
    Decode(Status),
}

impl fmt::Debug for UntilError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A state of the object at a revision. `json` is `None` if the object does not exist.
#[derive(Clone)]
struct State {
    revision: u64,
    json: Option<Bytes>,
}

impl State {
    fn value(&self) -> Option<Value> {
        let mut value = serde_json::from_slice(self.json.as_deref()?).ok()?;
        without_bookkeeping(&mut value);
        Some(value)
    }
}

#[derive(Clone, Copy)]
struct Awaited<'a> {
    api_version: &'a str,
    kind: &'a str,
    namespace: Option<&'a str>,
    name: &'a str,
}

/// # Waits
impl Server {
    /// Waits until `condition` holds for an object. Returns the state of the object for which the
    /// condition held: `None` if the object did not exist.
    ///
    /// Calls `condition` with the current state, then once with each later state, in the order of the
    /// writes. `None` means that the object does not exist, or that the server does not serve its kind.
    /// The time limit is in tokio's time, so it takes no real time if the clock is paused.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube_testserver::Server;
    /// use serde_json::json;
    /// use tokio::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let server = Server::new();
    /// let writer = server.clone();
    /// tokio::spawn(async move {
    ///     writer.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}))
    /// });
    /// let limit = Duration::from_secs(60);
    /// let settings = server.until(None, "settings", limit, |map: Option<&ConfigMap>| map.is_some()).await?;
    /// assert!(settings.unwrap().metadata.uid.is_some());
    /// # Ok::<(), kube_testserver::UntilError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Returns [`UntilError::TimedOut`] with a report if the condition does not hold within `limit`.
    /// Returns [`UntilError::Decode`] if a state of the object does not match the type `K`.
    ///
    /// # Cancel safety
    /// The future does not change any state. It can be dropped at any time.
    pub async fn until<K>(
        &self,
        namespace: Option<&str>,
        name: &str,
        limit: Duration,
        mut condition: impl FnMut(Option<&K>) -> bool,
    ) -> Result<Option<K>, UntilError>
    where
        K: Resource<DynamicType: Default> + DeserializeOwned,
    {
        let dynamic = K::DynamicType::default();
        let (api_version, kind) = (&*K::api_version(&dynamic), &*K::kind(&dynamic));
        let awaited = Awaited { api_version, kind, namespace, name };
        // A time limit that exceeds the range of the clock never expires.
        let deadline = Instant::now().checked_add(limit);
        let mut revisions = self.shared.revisions();
        let mut states: VecDeque<State> = VecDeque::new();
        let mut position = None;
        let mut changes = 0;
        loop {
            let (now, later) = self.states_after(position, awaited, states.back());
            changes += later.len() - usize::from(position.is_none());
            position = Some(now);
            for state in later {
                let object = match &state.json {
                    Some(json) => Some(decoded(name, json).map_err(UntilError::Decode)?),
                    None => None,
                };
                if condition(object.as_ref()) {
                    return Ok(object);
                }
                states.push_back(state);
                if states.len() > REPORTED {
                    states.pop_front();
                }
            }
            let changed = match deadline {
                Some(deadline) => timeout_at(deadline, revisions.changed()).await.is_ok(),
                None => revisions.changed().await.is_ok(),
            };
            if !changed {
                return Err(UntilError::TimedOut(self.report(awaited, limit, &states, changes)));
            }
        }
    }

    /// Returns the revision, and the states of the object after `position`, oldest first. Without a
    /// position, returns only the current state.
    fn states_after(
        &self,
        position: Option<u64>,
        Awaited { api_version, kind, namespace, name }: Awaited<'_>,
        last: Option<&State>,
    ) -> (u64, Vec<State>) {
        self.shared.read(|state| {
            let now = state.store.revision();
            let mut states = Vec::new();
            let mut latest = None;
            if let Some(target) = find_target(state, api_version, kind, namespace, name) {
                let (table, key, encoder) =
                    (state.store.table(target.served.table), target.key(), encoder(&target));
                let events = position.map(|position| table.tail(position)).into_iter().flatten();
                states.extend(events.filter(|event| *event.object.key() == key).map(|event| State {
                    revision: event.revision(),
                    json: (event.change != Change::Deleted).then(|| encoder.object(&event.object)),
                }));
                latest = table
                    .get(&key)
                    .map(|entry| State { revision: entry.revision, json: Some(encoder.object(entry)) });
            }
            // A restore has no event, and an expired event is lost.
            let latest = latest.unwrap_or(State { revision: now, json: None });
            if states.last().or(last).is_none_or(|last| last.json != latest.json) {
                states.push(latest);
            }
            (now, states)
        })
    }

    fn report(
        &self,
        Awaited { api_version, kind, namespace, name }: Awaited<'_>,
        limit: Duration,
        states: &VecDeque<State>,
        changes: usize,
    ) -> String {
        let is_served = self.target(api_version, kind, None, "").is_ok();
        let note = if is_served { "" } else { ", whose kind the server does not serve," };
        let key = key(namespace, name);
        let mut lines = vec![format!("the condition on {kind} {key}{note} did not hold within {limit:?}")];
        let values: Vec<Option<Value>> = states.iter().map(State::value).collect();
        lines.push(match values.last() {
            Some(Some(last)) => format!("last state:\n{}", indent(&yaml(last)).trim_end()),
            _ => "last state: the object does not exist".into(),
        });
        lines.push(format!("changes during the wait: {changes}"));
        for (state, pair) in states.iter().skip(1).zip(values.windows(2)) {
            let changes = match pair {
                [Some(before), Some(after)] => field_changes(before, after).join("; "),
                [None, _] => "created".into(),
                _ => "deleted".into(),
            };
            lines.push(format!("  at resourceVersion {}: {changes}", state.revision));
        }
        let requests = self.journal().requests();
        let last = requests.iter().skip(requests.len().saturating_sub(REPORTED));
        lines.push(format!("last requests of clients: {}", last.len()));
        lines.extend(last.map(|request| format!("  {request}")));
        lines.join("\n")
    }
}
