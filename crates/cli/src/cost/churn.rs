//! Watches a resource for a time, and counts the events of each field manager.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::TryStreamExt as _;
use kube_client::core::DynamicObject;
use kube_compact::Lazy;
use kube_informer::{
    ErrorClass, ListWatchError, ListerWatcher as _, ObjectKey,
    listwatch::{Decoded, WatchEvent, WatchFrom, WatchRequest},
};
use kube_object::NoCache;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{
    attribution::{DELETION, UNKNOWN_MANAGER, attribute},
    listing::{ListSettings, Listed, Source, list},
    progress::Progress,
    usage::Names,
};

/// The first delay after a watch that stopped early. Each further delay is twice as long.
const MIN_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// After a watch of this time, the next delay is the first delay again.
const LASTING: Duration = Duration::from_secs(10);
/// The maximum number of lists after gaps. Each list can be large.
const MAX_GAPS: u64 = 10;
/// The maximum number of managers that are counted separately. A hostile client can use many names.
const MAX_MANAGERS: usize = 200;
/// The maximum number of characters in the name of a manager with its subresource. The API server limits
/// the name of a manager to 128 characters.
const MAX_MANAGER_NAME: usize = 200;

/// The events of a resource.
#[derive(Debug, Default)]
pub(super) struct Churn {
    pub(super) added: u64,
    pub(super) modified: u64,
    pub(super) deleted: u64,
    /// The JSON of the objects in the events.
    pub(super) bytes: u64,
    pub(super) managers: BTreeMap<String, ManagerChurn>,
    /// The number of times that the server no longer had the events. The events in between are not counted.
    pub(super) gaps: u64,
    /// The time during which events were counted.
    pub(super) seconds: f64,
    /// The reason of the last failure after which the watch was repeated.
    pub(super) failed: Option<String>,
    /// The reason, if the watch stopped early.
    pub(super) ended: Option<String>,
}

/// The events that a manager caused.
#[derive(Debug, Default)]
pub(super) struct ManagerChurn {
    pub(super) events: u64,
    pub(super) bytes: u64,
    /// The changed fields, with the bytes of the events.
    pub(super) fields: Names,
}

/// The end of all watches.
#[derive(Clone, Debug)]
pub(super) struct WatchEnd {
    pub(super) at: Instant,
    /// Stops the watches before this time.
    pub(super) stop: CancellationToken,
}

impl WatchEnd {
    /// Waits until the end.
    async fn reached(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = sleep_until(self.at) => {}
        }
    }

    fn is_reached(&self) -> bool {
        self.stop.is_cancelled() || Instant::now() >= self.at
    }
}

/// The delays between watches that stop early.
#[derive(Debug, Default)]
struct Backoff {
    last: Option<Duration>,
}

impl Backoff {
    /// Returns the delay after a watch of this time.
    fn after(&mut self, lasted: Duration) -> Duration {
        if lasted >= LASTING {
            self.last = None;
            return Duration::ZERO;
        }
        let delay = self.last.map_or(MIN_DELAY, |last| (last * 2).min(MAX_DELAY));
        self.last = Some(delay);
        delay
    }
}

/// Watches a listed resource until the end of all watches.
///
/// # Cancel safety
///
/// If the future is dropped, the watch is closed, and the counts are lost.
pub(super) async fn observe(
    listed: &mut Listed,
    source: &Source,
    settings: &ListSettings,
    end: &WatchEnd,
) -> Churn {
    let (mut churn, mut backoff) = (Churn::default(), Backoff::default());
    loop {
        let opened = Instant::now();
        let result = tokio::select! {
            biased;
            () = end.reached() => break,
            result = watch_once(listed, source, &mut churn) => result,
        };
        let next = match &result {
            // The server closed the watch.
            Ok(()) => Next::Watch,
            Err(error) => churn.failure(error),
        };
        if next == Next::Stop {
            break;
        }
        tokio::select! {
            biased;
            () = end.reached() => break,
            () = sleep(backoff.after(opened.elapsed())) => {}
        }
        if next == Next::List {
            tokio::select! {
                biased;
                () = end.reached() => break,
                again = list_again(listed, source, settings) => churn.ended = again.err(),
            }
        }
        if churn.ended.is_some() || end.is_reached() {
            break;
        }
    }
    churn.seconds = listed.since.elapsed().as_secs_f64();
    churn
}

/// Lists the objects again. Returns the reason of a failure.
async fn list_again(listed: &mut Listed, source: &Source, settings: &ListSettings) -> Result<(), String> {
    listed.held.clear();
    let target = listed.target.clone();
    let again = list(&target, source, settings, &Progress::hidden()).await.map_err(|error| reason(&error))?;
    (listed.held, listed.version) = (again.held, again.version);
    Ok(())
}

/// The next step after the end of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Watch,
    List,
    Stop,
}

/// Returns a short reason of an error.
pub(super) fn reason(error: &ListWatchError) -> String {
    let text = match error.class() {
        ErrorClass::Forbidden => "forbidden (403)",
        ErrorClass::NotFound => "not found (404)",
        ErrorClass::Expired => "expired (410)",
        ErrorClass::Unauthorized => "unauthorized (401)",
        _ => return error.to_string(),
    };
    text.to_owned()
}

/// Counts events until the server closes the watch.
async fn watch_once(listed: &mut Listed, source: &Source, churn: &mut Churn) -> Result<(), ListWatchError> {
    let from = WatchFrom::Version(listed.version.clone());
    let mut events = source.watch(WatchRequest { from, timeout: None, bookmarks: true }, Arc::new(NoCache));
    while let Some(batch) = events.try_next().await? {
        batch.into_iter().for_each(|event| apply(event, listed, churn));
    }
    Ok(())
}

/// Counts an event, and replaces the held object.
fn apply(event: WatchEvent<Lazy<DynamicObject>>, listed: &mut Listed, churn: &mut Churn) {
    match event {
        WatchEvent::Added(Decoded::Object(entry)) | WatchEvent::Modified(Decoded::Object(entry)) => {
            listed.version = entry.id.version.clone();
            changed(&entry.id.key, entry.object.json(), listed, churn);
        }
        WatchEvent::Deleted { id, last } => {
            listed.held.remove(&id.key);
            let bytes = last.map_or(0, |last| last.object.json().len() as u64);
            churn.deleted += 1;
            // A deletion is not a write of a field manager.
            churn.count(DELETION, bytes, &[]);
            listed.version = id.version;
        }
        WatchEvent::Bookmark { version, .. } | WatchEvent::OtherSlot { version, .. } => {
            listed.version = version;
        }
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            listed.version = object.id().version.clone();
            churn.modified += 1;
            churn.count(UNKNOWN_MANAGER, 0, &[]);
        }
        WatchEvent::Opened => {}
    }
}

fn changed(key: &ObjectKey, json: &[u8], listed: &mut Listed, churn: &mut Churn) {
    let before = listed.held.get(key).and_then(|held| serde_json::from_slice(&held.json().ok()?).ok());
    let after: Value = serde_json::from_slice(json).unwrap_or_default();
    match before {
        Some(_) => churn.modified += 1,
        None => churn.added += 1,
    }
    let attribution = attribute(before.as_ref(), &after);
    churn.count(&attribution.manager, json.len() as u64, &attribution.fields);
    if let Ok(object) = listed.decoder.compress(json) {
        listed.held.insert(key.clone(), object);
    }
}

impl Churn {
    /// Notes the failure of a watch, and returns the next step.
    fn failure(&mut self, error: &ListWatchError) -> Next {
        match error.class() {
            ErrorClass::Expired | ErrorClass::TooLarge => {
                self.gaps += 1;
                if self.gaps < MAX_GAPS {
                    return Next::List;
                }
                self.ended = Some("the server repeatedly no longer had the events".to_owned());
                Next::Stop
            }
            ErrorClass::Forbidden
            | ErrorClass::NotFound
            | ErrorClass::Unsupported
            | ErrorClass::Unauthorized => {
                self.ended = Some(reason(error));
                Next::Stop
            }
            _ => {
                self.failed = Some(reason(error));
                Next::Watch
            }
        }
    }

    fn count(&mut self, manager: &str, bytes: u64, fields: &[String]) {
        self.bytes += bytes;
        let end = manager.char_indices().nth(MAX_MANAGER_NAME).map_or(manager.len(), |(end, _)| end);
        let manager = &manager[..end];
        let is_known = self.managers.contains_key(manager) || self.managers.len() < MAX_MANAGERS;
        let manager = if is_known { manager } else { "(other)" };
        let churn = self.managers.entry(manager.to_owned()).or_default();
        churn.events += 1;
        churn.bytes += bytes;
        fields.iter().for_each(|field| churn.fields.add(field, bytes));
    }

    /// Returns the number of events.
    pub(super) fn events(&self) -> u64 {
        self.added + self.modified + self.deleted
    }

    /// Returns a number per second.
    pub(super) fn per_second(&self, number: u64) -> f64 {
        if self.seconds > 0.0 { number as f64 / self.seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use kube_informer::listwatch::{Target, Verb};

    use super::*;

    #[test]
    fn number_of_managers_is_limited() {
        let mut churn = Churn::default();
        (0..1000).for_each(|number| churn.count(&format!("manager-{number}"), 1, &[]));
        assert_eq!(churn.managers.len(), MAX_MANAGERS + 1);
        assert_eq!(churn.bytes, 1000);
    }

    #[test]
    fn names_of_managers_are_shortened() {
        let mut churn = Churn::default();
        churn.count(&"é".repeat(1 << 20), 1, &[]);
        assert_eq!(churn.managers.keys().next().map(|name| name.chars().count()), Some(MAX_MANAGER_NAME));
    }

    #[test]
    fn delays_double_until_a_watch_takes_ten_seconds() {
        let mut backoff = Backoff::default();
        let mut delays = |lasted: u64, count: usize| -> Vec<u64> {
            (0..count).map(|_| backoff.after(Duration::from_secs(lasted)).as_secs()).collect()
        };
        assert_eq!(delays(0, 7), [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(delays(10, 2), [0, 0]);
        assert_eq!(delays(9, 2), [1, 2]);
    }

    #[test]
    fn watch_with_many_expiries_stops() {
        let status = kube_client::core::Status::failure("too old", "Expired").with_code(410);
        let target = Target { verb: Verb::Watch, url: "/api/v1/pods".to_owned() };
        let error = ListWatchError::Status { target, status: Box::new(status), retry_after: None };
        let mut churn = Churn::default();
        let steps: Vec<_> = (0..MAX_GAPS).map(|_| churn.failure(&error)).collect();
        assert!(steps[..steps.len() - 1].iter().all(|next| *next == Next::List));
        assert_eq!((steps.last(), churn.ended.is_some()), (Some(&Next::Stop), true));
    }

    #[test]
    fn rate_without_time_is_zero() {
        assert_eq!(Churn::default().per_second(7), 0.0);
        assert_eq!(Churn { seconds: 2.0, ..Churn::default() }.per_second(7), 3.5);
    }
}
