//! Waits for caches to sync, and reports the informers that are not synced.

use std::{fmt, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use kube_object::Escaped;
use kube_reflector::Phase;
use tokio::{runtime::Handle, sync::watch};

/// Returns the timeout of a wait. The timeout is zero outside of a tokio runtime, because a wait
/// needs the clock of the runtime.
pub(crate) fn effective_timeout(timeout: Duration) -> Duration {
    Handle::try_current().map_or(Duration::ZERO, |_| timeout)
}

/// Waits until the value is true. Returns false after the timeout, or if the sender is dropped.
pub(crate) async fn wait_true(mut value: watch::Receiver<bool>, timeout: Duration) -> bool {
    if Handle::try_current().is_err() {
        return *value.borrow();
    }
    let waited = tokio::time::timeout(timeout, value.wait_for(|value| *value)).await;
    matches!(waited, Ok(Ok(_)))
}

/// Waits until each of several informers is synced. Returns early if the server rejects the list of one
/// informer, because a retry does not help.
///
/// Each wait returns the state of its informer if the informer is not synced. `unsynced` returns these
/// states after the waits.
pub(crate) async fn wait_for_all(
    timeout: Duration,
    waits: impl Iterator<Item = impl Future<Output = Option<UnsyncedInformer>>>,
    unsynced: impl FnOnce() -> Vec<UnsyncedInformer>,
) -> Result<(), CacheSyncError> {
    let mut waits: FuturesUnordered<_> = waits.collect();
    while let Some(unsynced) = waits.next().await {
        if unsynced.is_some_and(|unsynced| unsynced.rejected) {
            break;
        }
    }
    drop(waits);
    let mut informers = unsynced();
    informers.sort_unstable_by(|a, b| a.informer.cmp(&b.informer));
    if informers.is_empty() { Ok(()) } else { Err(CacheSyncError { timeout, informers }) }
}

/// Describes an informer whose initial list is not in its store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsyncedInformer {
    /// The name of the informer. See [`Informer::name`](crate::Informer::name).
    pub informer: String,
    /// The phase of the informer's reflector.
    pub phase: Phase,
    /// The last failure of a LIST or WATCH, with the URL. `None` if no request has failed.
    pub last_error: Option<String>,
    /// Whether the server rejects the list as invalid (400, 414, 422 or 431). In this case,
    /// `wait_for_sync` does not wait for the timeout.
    pub rejected: bool,
}

impl fmt::Display for UnsyncedInformer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", Escaped(&self.informer))?;
        match (&self.last_error, self.phase) {
            (Some(error), Phase::Stopped) => write!(f, "stopped; last error: {error}"),
            (None, Phase::Stopped) => f.write_str("stopped"),
            (Some(error), _) if self.rejected => {
                write!(f, "{error}; check selectors, namespace and options")
            }
            (Some(error), phase) => write!(f, "{error}; state: {phase}"),
            (None, Phase::Idle) => f.write_str("not started"),
            (None, phase) => {
                write!(f, "waiting for a complete list from the server; state: {phase}")
            }
        }
    }
}

/// Reports the informers that are not synced. Either the timeout expired, an informer was stopped,
/// or the server rejects the list of an informer as invalid (400, 414, 422 or 431).
///
/// Informers that were not stopped continue to retry. Outside of a tokio runtime, `wait_for_sync`
/// cannot wait, so it returns this error immediately with a timeout of zero.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("caches not synced{}: {}", within(*timeout, informers), join(informers))]
pub struct CacheSyncError {
    /// The timeout of the wait. Zero outside of a tokio runtime.
    pub timeout: Duration,
    /// The informers that are not synced.
    pub informers: Vec<UnsyncedInformer>,
}

/// Omits the timeout if it did not expire.
fn within(timeout: Duration, informers: &[UnsyncedInformer]) -> String {
    let is_early = informers.iter().any(|informer| informer.rejected || informer.phase == Phase::Stopped);
    if is_early { String::new() } else { format!(" within {timeout:?}") }
}

/// Separates the informers by a bar, because the text of an informer contains commas and semicolons.
fn join(informers: &[UnsyncedInformer]) -> String {
    informers.iter().map(UnsyncedInformer::to_string).collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_separates_informers_by_bar() {
        let unsynced = |informer: &str, phase: Phase, last_error: Option<&str>| UnsyncedInformer {
            informer: informer.to_owned(),
            phase,
            last_error: last_error.map(str::to_owned),
            rejected: false,
        };
        let informers =
            vec![unsynced("a", Phase::Waiting, Some("LIST /a: 500")), unsynced("b", Phase::Listing, None)];
        let error = CacheSyncError { timeout: Duration::from_secs(3), informers };
        assert_eq!(
            error.to_string(),
            "caches not synced within 3s: a: LIST /a: 500; state: backing off | b: waiting for a complete list from the server; state: listing"
        );
    }
}
