//! `retry_on_conflict`: repeats a read and a write after a conflict with another client.

use std::{iter::successors, time::Duration};

use kube_client::Error;
use kube_workqueue::{ItemExponentialFailureRateLimiter, RateLimiter};
use tokio::time::{Instant, sleep};

use crate::{Failure, redact::MAX_CAUSES};

/// The maximum number of attempts, as in `DefaultRetry` of client-go.
const MAX_ATTEMPTS: u32 = 5;
/// The delay after the first conflict. The delay doubles with each further conflict.
const FIRST_DELAY: Duration = Duration::from_millis(10);
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Calls `attempt` again while it fails with a conflict, as client-go's `RetryOnConflict` does. A conflict
/// is an error of the server with the reason `Conflict`, or an error with such a source.
///
/// The function calls `attempt` at most 5 times. The delays between the attempts are 10, 20, 40 and 80 ms.
///
/// Each attempt must read the object from the server, and not from a cache. A cache can still contain the
/// old version, and each attempt would then fail with the same conflict.
///
/// A reconciler does not need this function: if it returns the failure, the controller reconciles the key
/// again with the current state.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_client::api::PostParams;
/// # use kube_operator::{Failure, informer::CachedApi, retry_on_conflict};
/// # async fn example(maps: CachedApi<ConfigMap>) -> Result<(), Failure> {
/// retry_on_conflict(async || {
///     let mut map = maps.api().get("settings").await?;
///     map.data.get_or_insert_default().insert("colour".to_owned(), "blue".to_owned());
///     maps.replace("settings", &PostParams::default(), &map).await
/// })
/// .await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Returns the failure of the last attempt. A failure that is not a conflict is not retried.
///
/// # Cancel safety
/// If the future is dropped, the server may have received the write of the current attempt.
pub async fn retry_on_conflict<T, E: Into<Failure>>(
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, Failure> {
    let delays = ItemExponentialFailureRateLimiter::new(FIRST_DELAY, MAX_DELAY);
    let mut attempts = 1;
    loop {
        match attempt().await.map_err(Into::into) {
            Err(failure) if attempts < MAX_ATTEMPTS && is_conflict(&failure) => {
                attempts += 1;
                sleep(delays.when(&(), Instant::now())).await;
            }
            result => return result,
        }
    }
}

fn is_conflict(failure: &Failure) -> bool {
    let first: &(dyn std::error::Error + 'static) = failure.error();
    successors(Some(first), |error| error.source())
        .take(MAX_CAUSES)
        .any(|error| matches!(error.downcast_ref(), Some(Error::Api(status)) if status.is_conflict()))
}
