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

const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The maximum number of managers that are counted separately. A hostile client can use many names.
const MAX_MANAGERS: usize = 200;

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
    let mut churn = Churn::default();
    loop {
        let opened = tokio::select! {
            biased;
            () = end.reached() => break,
            opened = watch_once(listed, source, &mut churn) => opened,
        };
        match opened {
            // The server closed the watch.
            Ok(()) => {}
            Err(error) => match error.class() {
                ErrorClass::Expired | ErrorClass::TooLarge => {
                    churn.gaps += 1;
                    listed.held.clear();
                    let (target, progress) = (listed.target.clone(), Progress::hidden());
                    let again = tokio::select! {
                        () = end.reached() => break,
                        again = list(&target, source, settings, &progress) => again,
                    };
                    match again {
                        Ok(again) => (listed.held, listed.version) = (again.held, again.version),
                        Err(error) => churn.ended = Some(reason(&error)),
                    }
                }
                ErrorClass::Forbidden
                | ErrorClass::NotFound
                | ErrorClass::Unsupported
                | ErrorClass::Unauthorized => {
                    churn.ended = Some(reason(&error));
                }
                _ => {
                    tokio::select! {
                        () = end.reached() => {}
                        () = sleep(RETRY_DELAY) => {}
                    }
                }
            },
        }
        if churn.ended.is_some() || end.is_reached() {
            break;
        }
    }
    churn.seconds = listed.since.elapsed().as_secs_f64();
    churn
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
    fn count(&mut self, manager: &str, bytes: u64, fields: &[String]) {
        self.bytes += bytes;
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
    use super::*;

    #[test]
    fn number_of_managers_is_limited() {
        let mut churn = Churn::default();
        (0..1000).for_each(|number| churn.count(&format!("manager-{number}"), 1, &[]));
        assert_eq!(churn.managers.len(), MAX_MANAGERS + 1);
        assert_eq!(churn.bytes, 1000);
    }

    #[test]
    fn rate_without_time_is_zero() {
        assert_eq!(Churn::default().per_second(7), 0.0);
        assert_eq!(Churn { seconds: 2.0, ..Churn::default() }.per_second(7), 3.5);
    }
}
