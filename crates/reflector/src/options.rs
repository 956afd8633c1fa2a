//! The options of a reflector. With the defaults, an informer sends one request per 5 to 10 minutes
//! without failures, and at most 14 lists in the first minute of a failure.

use std::time::Duration;

/// The maximum of all durations. The limit prevents overflows of sums.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The minimum timeout of a request.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(1);
/// The minimum delay before a retry.
const SHORTEST_BACKOFF: Duration = Duration::from_millis(10);

/// Describes the state that the first list of a reflector returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstList {
    /// Any state in the watch cache of the server (`resourceVersion=0`). It does not read etcd.
    Any,
    /// The most recent state.
    Consistent,
    /// The most recent state, in a new epoch. Use it for a sink that contains objects of an earlier
    /// reflector, because the server can have been restored since then.
    Fresh,
}

/// Configures page sizes, timeouts and delays.
///
/// A reflector clamps all durations to at most a day, timeouts to at least a second, and
/// `backoff_initial` to at least 10 ms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReflectorOptions {
    /// The number of items per page. `None` uses pages of 500 for lists that read etcd, and requests
    /// other lists in one response, because a limit bypasses the watch cache. A number applies to all
    /// lists.
    pub page_size: Option<u32>,
    /// The state that the first list returns.
    pub first_list: FirstList,
    /// Whether to request streaming lists. They require little memory of the server, and continue as the
    /// watch. If a server does not support streaming lists, the reflector immediately requests a list.
    pub streaming_lists: bool,
    /// The maximum time without an event within a streaming list. Then the reflector assumes that the
    /// server does not support streaming lists.
    pub streaming_deadline: Duration,
    /// The timeout of a page or a complete streaming list. The timeout of kube-apiserver is one minute.
    pub list_deadline: Duration,
    /// The minimum duration of a watch. Each watch requests a random duration between this and twice
    /// this, to distribute the load of many clients.
    pub watch_timeout: Duration,
    /// The extra time of a watch after its requested duration. Then the reflector closes the watch.
    pub watch_grace: Duration,
    /// The maximum time without an event after the first bookmark of a watch. Then the reflector closes
    /// the watch. A server sends a bookmark about every minute.
    pub bookmark_deadline: Duration,
    /// The first interval before a retry. Each failure doubles the interval. The delay is random between
    /// the interval and twice the interval. If a response contains Retry-After, the delay is at least
    /// this time, up to 5 minutes.
    pub backoff_initial: Duration,
    /// The maximum interval.
    pub backoff_max: Duration,
    /// The time without failures after which the interval is reset.
    pub backoff_reset: Duration,
    /// Whether to clear the cache if the resource no longer exists (404), for example because its CRD
    /// was removed. Handlers then receive a deletion of each object, with an unknown final state. By
    /// default, the objects stay cached, because the resource can return.
    pub clear_when_gone: bool,
    /// The seed of random delays and timeouts. `None` uses a random seed, so that replicas differ. A
    /// number makes the delays reproducible.
    pub seed: Option<u64>,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            page_size: None,
            first_list: FirstList::Any,
            streaming_lists: true,
            streaming_deadline: Duration::from_secs(10),
            list_deadline: Duration::from_secs(120),
            watch_timeout: Duration::from_secs(300),
            watch_grace: Duration::from_secs(30),
            bookmark_deadline: Duration::from_secs(180),
            backoff_initial: Duration::from_millis(800),
            backoff_max: Duration::from_secs(30),
            backoff_reset: Duration::from_secs(120),
            clear_when_gone: false,
            seed: None,
        }
    }
}

impl ReflectorOptions {
    /// Clamps all durations.
    pub(crate) fn bounded(self) -> Self {
        let timeout = |duration: Duration| duration.clamp(SHORTEST_DEADLINE, LONGEST);
        let backoff_initial = self.backoff_initial.clamp(SHORTEST_BACKOFF, LONGEST);
        Self {
            streaming_deadline: timeout(self.streaming_deadline),
            list_deadline: timeout(self.list_deadline),
            watch_timeout: timeout(self.watch_timeout),
            watch_grace: timeout(self.watch_grace),
            bookmark_deadline: timeout(self.bookmark_deadline),
            backoff_initial,
            backoff_max: self.backoff_max.clamp(backoff_initial, LONGEST),
            backoff_reset: self.backoff_reset.min(LONGEST),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_options_are_within_bounds() {
        assert_eq!(ReflectorOptions::default().bounded(), ReflectorOptions::default());
    }
}
