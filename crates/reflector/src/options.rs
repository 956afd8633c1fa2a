//! What can be set of a reflector. The defaults cost an API server, for each informer, one
//! request every 5 to 10 minutes while nothing fails, and 14 in the first minute of a failure.

use std::time::Duration;

/// No duration is longer than this, so that sums of them can't overflow.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Requests are not given up, and watches not replaced, more often than this.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(1);
/// Failed requests are not tried again more often than this.
const SHORTEST_BACKOFF: Duration = Duration::from_millis(10);

/// Which state the first list of a reflector shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstList {
    /// Any that the server has at hand (`resourceVersion=0`), which spares etcd.
    Any,
    /// The most recent one.
    Consistent,
    /// The most recent one, and no version of what the sink holds is trusted: for a sink that another reflector has fed.
    /// The server may have been restored since.
    Fresh,
}

/// Page sizes, time-outs and delays.
///
/// A reflector takes a duration longer than a day for a day, a time-out shorter than a second for
/// a second and a delay shorter than 10 ms for 10 ms: with none it would not stop asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReflectorOptions {
    /// Items per page. `None` pages by 500 where the server reads from etcd anyway and asks for
    /// everything at once where it can answer from its watch cache; a number is always used.
    pub page_size: Option<u32>,
    /// Which state the first list shows.
    pub first_list: FirstList,
    /// Whether lists are asked for as streaming lists, which cost a server little memory and become the watch that
    /// follows. A server that doesn't know them is asked for a list at once.
    pub streaming_lists: bool,
    /// A streaming list that has not ended and says nothing for this long is taken for one that the server doesn't
    /// know.
    pub streaming_deadline: Duration,
    /// One page of a list, or a whole streaming list, takes at most this long. kube-apiserver gives up after a minute.
    pub list_deadline: Duration,
    /// A watch asks the server to end it after a time drawn uniformly from this to twice this, so
    /// that many clients don't come back at once.
    pub watch_timeout: Duration,
    /// A watch that is still open this long after it should have ended is dead.
    pub watch_grace: Duration,
    /// A watch that has brought a bookmark and then brings nothing for this long is dead; servers
    /// send one about every minute.
    pub bookmark_deadline: Duration,
    /// The first delay before a failed request is tried again; doubled each time. The actual
    /// delay is drawn uniformly from the delay to twice the delay, and is at least what the server
    /// asks for by Retry-After, of which 5 minutes count at most.
    pub backoff_initial: Duration,
    /// The delay is doubled no further than this.
    pub backoff_max: Duration,
    /// When this long after a delay nothing has failed, the next delay is the first again.
    pub backoff_reset: Duration,
    /// Whether the cache is cleared when the resource ceases to exist (404), such as one whose CRD was removed. Handlers
    /// are then told of each object's deletion, with its final state unknown; otherwise what is cached is kept, in case
    /// that the resource comes back.
    pub clear_when_gone: bool,
    /// Where jitter and time-outs are drawn from. `None` differs from process to process, so
    /// that replicas don't march in step; a number makes a run repeatable.
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
    /// The same with every duration within its bounds.
    pub(crate) fn bounded(self) -> Self {
        let time_out = |duration: Duration| duration.clamp(SHORTEST_DEADLINE, LONGEST);
        let backoff_initial = self.backoff_initial.clamp(SHORTEST_BACKOFF, LONGEST);
        Self {
            streaming_deadline: time_out(self.streaming_deadline),
            list_deadline: time_out(self.list_deadline),
            watch_timeout: time_out(self.watch_timeout),
            watch_grace: time_out(self.watch_grace),
            bookmark_deadline: time_out(self.bookmark_deadline),
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
    fn the_defaults_are_within_their_bounds() {
        assert_eq!(ReflectorOptions::default().bounded(), ReflectorOptions::default());
    }
}
