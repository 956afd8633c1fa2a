//! The delay that a server requests with Retry-After.

use std::time::Duration;

use http::{HeaderMap, header::RETRY_AFTER};
use kube_client::core::Status;

/// The maximum delay that a client accepts from Retry-After. A server or proxy that requires a very long
/// delay must not stop the client.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Returns the minimum delay before the next request. The delay is `retry_after`, the delay that the
/// server requires, but at most [`MAX_RETRY_AFTER`]. Without `retry_after`, the delay is zero.
pub fn delay_after(retry_after: Option<Duration>) -> Duration {
    retry_after.unwrap_or_default().min(MAX_RETRY_AFTER)
}

/// Returns the delay of the Retry-After header, in seconds. Returns `None` if the header is missing or
/// contains a date. kube-apiserver sends seconds.
pub fn retry_after_header(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Returns `details.retryAfterSeconds`. kube-apiserver also sends it as the Retry-After header.
pub(crate) fn retry_after(status: &Status) -> Option<Duration> {
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_delay_is_limited() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let delays = [None, seconds(9), seconds(300), seconds(301), seconds(u64::MAX)].map(delay_after);
        assert_eq!(delays.map(|delay| delay.as_secs()), [0, 9, 300, 300, 300]);
    }
}
