//! The requests of an informer, recorded by its client, and their limits.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use http::Request;
use kube_client::client::{Body, ClientBuilder};
use kube_client::{Client, Config};
use kube_informer::ReflectorOptions;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::util::MapRequestLayer;

const MINUTE: Duration = Duration::from_secs(60);
const TEN_SECONDS: Duration = Duration::from_secs(10);

/// An attempt causes at most two lists: a streaming list and a plain list, or a list at an expired
/// version and a list of the most recent state.
const LISTS_PER_ATTEMPT: usize = 2;

/// Watches and other requests: five per second.
const OTHERS_IN_TEN_SECONDS: usize = 50;

/// 10,000 objects in pages of 400, and one partial page.
const PAGES_OF_A_LIST: usize = 26;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The first page of a list, or a streaming list.
    List,
    /// A later page.
    Page,
    /// A watch.
    Watch,
}

/// The requests of one client, in their order.
#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<Vec<(Instant, Kind)>>>);

impl Requests {
    /// A client whose requests are noted here.
    pub(crate) fn client(&self, config: Config) -> Result<Client> {
        let noted = self.clone();
        let note = MapRequestLayer::new(move |request: Request<Body>| {
            noted.0.lock().push((Instant::now(), kind(request.uri().query().unwrap_or_default())));
            request
        });
        Ok(ClientBuilder::try_from(config)?.with_layer(&note).build())
    }

    /// Returns the number of requests.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Compares the requests since the start of a fault with a budget. Returns the numbers of lists and
    /// of other requests.
    pub(crate) fn check(&self, since: Instant, budget: Budget) -> Result<(usize, usize)> {
        let requests = self.0.lock();
        let of = |wanted: Kind| -> Vec<Duration> {
            let later = requests.iter().filter(|(at, kind)| *at >= since && *kind == wanted);
            later.map(|(at, _)| *at - since).collect()
        };
        let (lists, watches) = (of(Kind::List), of(Kind::Watch));
        let first = lists.partition_point(|at| *at < MINUTE);
        ensure!(
            first <= budget.first_minute,
            "{first} lists in the first minute, the limit is {}",
            budget.first_minute
        );
        let later = most_within(&lists[first..], MINUTE);
        ensure!(
            later <= budget.later_minute,
            "{later} lists in a later minute, the limit is {}",
            budget.later_minute
        );
        // A list may have started before.
        let (pages, most) = (of(Kind::Page).len(), (lists.len() + 1) * PAGES_OF_A_LIST);
        ensure!(pages <= most, "{pages} pages of {} lists", lists.len());
        let others = most_within(&watches, TEN_SECONDS);
        ensure!(others <= OTHERS_IN_TEN_SECONDS, "{others} watches in ten seconds");
        Ok((lists.len(), watches.len()))
    }
}

fn kind(query: &str) -> Kind {
    let has = |name: &str| query.split('&').any(|part| part.starts_with(name));
    match () {
        () if has("sendInitialEvents=true") => Kind::List,
        () if has("watch=") => Kind::Watch,
        () if has("continue=") => Kind::Page,
        () => Kind::List,
    }
}

/// The number of lists that a fault may cause. The pages of a list count as one list, and a streaming
/// list is a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    first_minute: usize,
    later_minute: usize,
}

impl Budget {
    /// Computes the limits from the delays: each delay is at least as long as the configured backoff.
    /// With the default delays, the limits are 14 lists in the first minute and 4 in a later minute.
    pub(crate) fn of(options: &ReflectorOptions) -> Self {
        let (mut at, mut delay, mut attempts) = (Duration::ZERO, options.backoff_initial, 0);
        while at < MINUTE {
            attempts += 1;
            at += delay;
            delay = (delay * 2).min(options.backoff_max);
        }
        let later = MINUTE.as_millis().div_ceil(options.backoff_max.as_millis()) as usize;
        Self { first_minute: attempts * LISTS_PER_ATTEMPT, later_minute: later * LISTS_PER_ATTEMPT }
    }
}

/// Returns the largest number of requests in any period of this length.
fn most_within(moments: &[Duration], time: Duration) -> usize {
    let from = |(first, at): (usize, &Duration)| {
        moments[first..].iter().take_while(|later| **later - *at < time).count()
    };
    moments.iter().enumerate().map(from).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_of_default_delays_has_documented_limits() {
        let budget = Budget::of(&ReflectorOptions::default());
        assert_eq!(budget, Budget { first_minute: 14, later_minute: 4 });
    }

    #[tokio::test(start_paused = true)]
    async fn exceeded_list_budget_is_detected() {
        let budget = Budget { first_minute: 3, later_minute: 2 };
        let (requests, began) = (Requests::default(), Instant::now());
        let ask = |at: u64, kind| requests.0.lock().push((began + Duration::from_secs(at), kind));
        [0, 1, 59, 60, 119].into_iter().for_each(|at| ask(at, Kind::List));
        [2, 2, 2, 2].into_iter().for_each(|at| ask(at, Kind::Page));
        assert!(requests.check(began, budget).is_ok());
        ask(119, Kind::List);
        assert!(requests.check(began, budget).is_err());
        assert!(requests.check(began, Budget { first_minute: 2, later_minute: 9 }).is_err());
        assert!(requests.check(began + Duration::from_secs(61), budget).is_ok());
        let last = began + Duration::from_secs(200);
        (0..26).for_each(|_| ask(200, Kind::Page));
        assert!(requests.check(last, budget).is_ok());
        ask(200, Kind::Page);
        assert!(requests.check(last, budget).is_err());
        (0..51).for_each(|_| ask(200, Kind::Watch));
        assert!(requests.check(began + Duration::from_secs(61), budget).is_err());
    }

    #[test]
    fn streaming_list_counts_as_list_and_page_does_not() {
        assert_eq!(kind("watch=true&sendInitialEvents=true&timeoutSeconds=5"), Kind::List);
        assert_eq!(kind("watch=true&resourceVersion=5"), Kind::Watch);
        assert_eq!(kind("limit=400&continue=abc"), Kind::Page);
        assert_eq!(kind("limit=400"), Kind::List);
        assert_eq!(kind(""), Kind::List);
    }
}
