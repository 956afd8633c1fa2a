//! `await_condition`: waits until an object in a cache satisfies a condition.

pub mod conditions;

use std::{sync::Arc, time::Duration};

use kube_informer::{CachedReadError, Escaped, Informer, Object, ObjectKey};
use tokio::time::Instant;

/// Describes the reason why a wait for a condition failed. The messages do not contain the object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AwaitConditionError {
    /// The cache could not be read, for example because it was not synced within the timeout.
    #[error("failed to wait for a condition of {key}")]
    Read {
        /// The key of the object.
        key: ObjectKey,
        /// The error of the read.
        source: CachedReadError,
    },
    /// The object did not satisfy the condition within the timeout.
    #[error(
        "{key} did not satisfy the condition within {timeout:?}; the cache of {} {} the object",
        Escaped(informer),
        if *exists { "contains" } else { "does not contain" }
    )]
    Timeout {
        /// The name of the informer.
        informer: String,
        /// The key of the object.
        key: ObjectKey,
        /// The timeout of the wait.
        timeout: Duration,
        /// Whether the cache contained the object after the timeout.
        exists: bool,
    },
    /// The informer was stopped, so its cache is no longer updated.
    #[error("failed to wait for a condition of {key}: the informer {} is stopped", Escaped(informer))]
    Stopped {
        /// The name of the informer.
        informer: String,
        /// The key of the object.
        key: ObjectKey,
    },
}

/// Waits until an object satisfies a condition, as kube-runtime's `await_condition` does. Returns the object
/// that satisfied the condition, or `None` if the condition accepts an absent object.
///
/// The function reads the cache of the informer and sends no request. First, it waits until the cache
/// contains the initial list and all recorded writes to the object. After a delete through a
/// [`CachedApi`](kube_informer::CachedApi), it therefore never returns the deleted object. Then it calls
/// `condition`, and again after each change of the cache. The argument is `None` if the object does not
/// exist. The module [`conditions`](crate::conditions) contains conditions for built-in types.
///
/// In a reconciler, do not wait: a waiting reconcile occupies a worker. Return
/// [`Action::AwaitChange`](crate::Action::AwaitChange) instead, because the controller reconciles the key
/// again after the change.
///
/// ```no_run
/// # use std::time::Duration;
/// # use k8s_openapi::api::batch::v1::Job;
/// # use kube_operator::{AwaitConditionError, await_condition, conditions, informer::{Informer, ObjectKey}};
/// # async fn example(jobs: Informer<Job>) -> Result<(), AwaitConditionError> {
/// let migration = ObjectKey::new(Some("shop"), "migration");
/// await_condition(&jobs, &migration, conditions::is_job_completed(), Duration::from_secs(60)).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Returns an [`AwaitConditionError`] if the object does not satisfy the condition within `timeout`, or if
/// the cache cannot be read.
///
/// # Cancel safety
/// This function is cancel safe, because it only waits.
pub async fn await_condition<T: Object>(
    informer: &Informer<T>,
    key: &ObjectKey,
    condition: impl Fn(Option<&T>) -> bool,
    timeout: Duration,
) -> Result<Option<Arc<T>>, AwaitConditionError> {
    let start = Instant::now();
    let read = informer.wait_for_writes(Some(key), timeout).await;
    read.map_err(|source| AwaitConditionError::Read { key: key.clone(), source })?;
    let mut accepted = None;
    let snapshot = informer
        .lister()
        .wait_for(timeout.saturating_sub(start.elapsed()), |snapshot| {
            let object = snapshot.get(key).map(|entry| &entry.object);
            let is_satisfied = condition(object.map(|object| &**object));
            if is_satisfied {
                accepted = Some(object.cloned());
            }
            is_satisfied
        })
        .await;
    let (key, name) = (key.clone(), informer.name().to_owned());
    match accepted {
        Some(object) => Ok(object),
        None if informer.is_stopped() => Err(AwaitConditionError::Stopped { informer: name, key }),
        None => {
            let exists = snapshot.get(&key).is_some();
            Err(AwaitConditionError::Timeout { informer: name, key, timeout, exists })
        }
    }
}
