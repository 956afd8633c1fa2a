//! The options of a reflector. With the defaults, an informer sends one request per 5 to 10 minutes
//! without failures, and at most 14 lists in the first minute of a failure.

use std::time::Duration;

/// The maximum of all durations. The limit prevents overflows of sums.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// The minimum timeout of a request.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(1);
/// The minimum delay before a retry.
const SHORTEST_BACKOFF: Duration = Duration::from_millis(10);

/// Selects the state that the first list of a reflector returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstList {
    /// Any state in the watch cache of the server (`resourceVersion=0`), for which the server does not
    /// contact etcd. The state can be older than the state that the program saw before a restart. If the
    /// first list is a streaming list, it returns the most recent state instead.
    Any,
    /// The most recent state.
    Consistent,
    /// The most recent state. Use this value if the sink contains objects of an earlier reflector. The
    /// server may have been restored to an older state since then. The reflector therefore does not
    /// assume that a cached object with an equal resourceVersion is unchanged.
    Fresh,
}

/// Configures page sizes, timeouts and delays.
///
/// A reflector replaces durations outside of these limits by the nearest limit:
///
/// - Each duration is at most one day.
/// - Each timeout is at least one second.
/// - `backoff_initial` is at least 10 ms, and `backoff_max` is at least `backoff_initial`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReflectorOptions {
    /// The number of items per page, for all lists. With `None`, the page size depends on the list:
    ///
    /// - A list of any state or of the most recent state has 500 items per page.
    /// - A list with a minimum resourceVersion is requested in one response. Before Kubernetes 1.34, the
    ///   server reads such a list from etcd if it has a limit.
    pub page_size: Option<u32>,
    /// The state that the first list returns. The default is [`FirstList::Consistent`], so a program never
    /// sees an older state after a restart. Since Kubernetes 1.34, the server returns all pages of this
    /// list from its watch cache, at a similar cost as any state. Older servers read the pages from etcd.
    pub first_list: FirstList,
    /// Whether to request streaming lists (`sendInitialEvents=true`) instead of plain lists. The default
    /// is `false`.
    ///
    /// A streaming list continues as a watch. In JSON, it costs kube-apiserver at least twice the CPU time
    /// of a plain list, because the server sends each object separately. Since Kubernetes 1.33, the server
    /// also encodes plain lists object by object. A streaming list of small objects then needs no less
    /// memory.
    ///
    /// Request streaming lists if the memory of the server is more important than its CPU time: if the
    /// server is Kubernetes 1.32, or if objects have about 100 KB. The performance page contains the
    /// figures.
    ///
    /// If the server rejects a streaming list, the reflector immediately sends a LIST request. If the server
    /// accepts it but sends no objects, the reflector waits for `streaming_deadline` first.
    pub streaming_lists: bool,
    /// The maximum time until the next ADDED event of a streaming list. After this time, the reflector
    /// assumes that the server does not support streaming lists.
    pub streaming_deadline: Duration,
    /// The timeout of one page of a list, and of an entire streaming list. By default, kube-apiserver
    /// itself aborts a LIST after one minute.
    pub list_deadline: Duration,
    /// The minimum duration of a watch. Each watch requests a random duration between this value and
    /// twice this value. This distributes the load of many clients over time.
    pub watch_timeout: Duration,
    /// The time that a watch may stay open after its requested duration. After this time, the reflector
    /// closes the watch.
    pub watch_grace: Duration,
    /// The maximum time without an event or bookmark, after the first bookmark of a watch. After this
    /// time, the reflector closes the watch. A server sends a bookmark about every minute.
    pub bookmark_deadline: Duration,
    /// The first interval before a retry. Each failure doubles the interval. The delay before a retry is
    /// random between the interval and twice the interval. If a response contains Retry-After, the delay
    /// is at least this time. A Retry-After above 5 minutes counts as 5 minutes.
    pub backoff_initial: Duration,
    /// The maximum interval before a retry. The delay is random between the interval and twice the
    /// interval.
    pub backoff_max: Duration,
    /// The time without failures after which the interval is `backoff_initial` again. The time starts at
    /// the end of the last delay.
    pub backoff_reset: Duration,
    /// Whether to delete all objects from the cache if the resource no longer exists (404), for example
    /// because its CRD was removed. Handlers then receive a deletion of each object, with an unknown
    /// final state. By default, the objects stay cached, because the resource can exist again later.
    pub clear_when_gone: bool,
    /// Whether to log each failed request at level warn. The default is `true`. With `false`, the reflector
    /// logs failed requests at level debug, for a program that reports [`ReflectorStatus::failing`] itself.
    ///
    /// [`ReflectorStatus::failing`]: crate::ReflectorStatus::failing
    pub log_failures: bool,
    /// The seed of random delays and timeouts. `None` uses a random seed, so that several processes do
    /// not send their requests at the same time. A number makes the delays reproducible.
    pub seed: Option<u64>,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            page_size: None,
            first_list: FirstList::Consistent,
            streaming_lists: false,
            streaming_deadline: Duration::from_secs(10),
            list_deadline: Duration::from_secs(120),
            watch_timeout: Duration::from_secs(300),
            watch_grace: Duration::from_secs(30),
            bookmark_deadline: Duration::from_secs(180),
            backoff_initial: Duration::from_millis(800),
            backoff_max: Duration::from_secs(30),
            backoff_reset: Duration::from_secs(120),
            clear_when_gone: false,
            log_failures: true,
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
