//! The faults that a test requested, oldest first.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use crate::faults::Fault;
use crate::journal::{Request, RequestMatch, Verb};

#[derive(Debug)]
struct FaultRule {
    number: u64,
    matches: Arc<RequestMatch>,
    fault: Fault,
    /// The number of matching requests to which the fault does not apply yet.
    skip: usize,
    /// The number of requests to which the fault still applies. `None`: all requests.
    left: Option<usize>,
    until: Option<Instant>,
}

impl FaultRule {
    fn applies_to(&self, verb: Verb) -> bool {
        verb == Verb::Watch || !self.fault.is_watch_only()
    }

    fn is_used_up(&self, now: Instant) -> bool {
        self.left == Some(0) || self.until.is_some_and(|until| until <= now)
    }

    /// Counts a request that this rule selects. Returns whether the request gets the fault.
    fn count_request(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
        }
        true
    }
}

#[derive(Debug, Default)]
struct FaultRules {
    last: u64,
    rules: Vec<FaultRule>,
}

/// Holds the faults that the server applies to future requests. If several faults match a request, the
/// server applies the oldest fault.
///
/// A fault is removed after the specified number of requests, after the specified duration, or when its
/// guard is dropped. A clone is another handle to the same faults.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Arc<Mutex<FaultRules>>,
    /// Signals the release of hanging requests.
    cleared: Arc<watch::Sender<()>>,
}

pub(crate) struct ActiveFault {
    pub fault: Fault,
    /// Signals that the request must be released if it hangs.
    pub over: watch::Receiver<()>,
    /// True if a plan drew the fault.
    pub planned: bool,
}

impl Faults {
    /// Applies the fault to the next request that `matches` selects.
    pub fn next(&self, matches: RequestMatch, fault: Fault) {
        self.nth(1, matches, fault);
    }

    /// Applies the fault only to the `nth` request from now on that `matches` selects. The first request
    /// is 1.
    ///
    /// Requests to which an older fault applies also count. If an older fault applies to the `nth`
    /// request, this fault applies to the next request.
    pub fn nth(&self, nth: usize, matches: RequestMatch, fault: Fault) {
        self.add(FaultRule { skip: nth.saturating_sub(1), left: Some(1), ..FaultRule::new(matches, fault) });
    }

    /// Applies the fault to the next `count` requests that `matches` selects.
    pub fn times(&self, count: usize, matches: &RequestMatch, fault: &Fault) {
        self.add(FaultRule { left: Some(count), ..FaultRule::new(matches.clone(), fault.clone()) });
    }

    /// Applies the fault to every request that `matches` selects, for this duration of tokio's time.
    pub fn during(&self, time: Duration, matches: RequestMatch, fault: Fault) {
        self.add(FaultRule { until: Instant::now().checked_add(time), ..FaultRule::new(matches, fault) });
    }

    /// Applies the fault to every request that `matches` selects, until the guard is dropped or
    /// [`Faults::clear`] removes the fault. An earlier fault that matches takes precedence.
    pub fn always(&self, matches: RequestMatch, fault: Fault) -> FaultGuard {
        FaultGuard { number: self.add(FaultRule::new(matches, fault)), faults: self.clone() }
    }

    /// Removes all faults, and breaks the connections of requests that [`Fault::Hang`] holds. Faults of
    /// open watches remain active.
    pub fn clear(&self) {
        self.forget();
        self.cleared.send_replace(());
    }

    /// Removes all faults for future requests. Faults of requests in progress remain active, and a
    /// request that [`Fault::Hang`] holds never gets a response.
    pub fn forget(&self) {
        self.rules.lock().rules.clear();
    }

    /// Returns the number of future requests to which faults still apply. A fault with a guard or a
    /// duration counts as one request.
    pub fn pending(&self) -> usize {
        let now = Instant::now();
        let rules = self.rules.lock();
        let left = rules.rules.iter().filter(|rule| !rule.is_used_up(now)).map(|rule| rule.left.unwrap_or(1));
        left.fold(0, usize::saturating_add)
    }

    fn add(&self, rule: FaultRule) -> u64 {
        let mut rules = self.rules.lock();
        rules.last += 1;
        let number = rules.last;
        rules.rules.push(FaultRule { number, ..rule });
        number
    }

    /// Returns the numbers of the rules that select this request. Predicates run without the lock,
    /// because they may read the faults.
    fn matching_rules(&self, request: &Request, now: Instant) -> Vec<u64> {
        let mut rules = self.rules.lock();
        rules.rules.retain(|rule| !rule.is_used_up(now));
        let candidates = rules.rules.iter().filter(|rule| rule.applies_to(request.info.verb));
        let candidates: Vec<_> = candidates.map(|rule| (rule.number, rule.matches.clone())).collect();
        drop(rules);
        candidates
            .into_iter()
            .filter(|(_, matches)| matches.selects(request))
            .map(|(number, _)| number)
            .collect()
    }

    /// Returns the fault of this request, and counts it as used.
    pub(crate) fn take(&self, request: &Request) -> Option<ActiveFault> {
        let now = Instant::now();
        let matching = self.matching_rules(request, now);
        if matching.is_empty() {
            return None;
        }
        let mut rules = self.rules.lock();
        let mut selected = None;
        // Other requests may have used up some of these rules since.
        for rule in rules.rules.iter_mut().filter(|rule| matching.contains(&rule.number)) {
            let skips = rule.skip > 0;
            if (skips || selected.is_none()) && rule.count_request() {
                selected = Some(rule.fault.clone());
            }
        }
        rules.rules.retain(|rule| !rule.is_used_up(now));
        selected.map(|fault| ActiveFault { fault, over: self.cleared.subscribe(), planned: false })
    }
}

impl FaultRule {
    fn new(matches: RequestMatch, fault: Fault) -> Self {
        Self { number: 0, matches: Arc::new(matches), fault, skip: 0, left: None, until: None }
    }
}

/// Keeps a fault active until it is dropped.
#[derive(Debug)]
#[must_use = "the fault stops when the guard is dropped"]
pub struct FaultGuard {
    number: u64,
    faults: Faults,
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        self.faults.rules.lock().rules.retain(|rule| rule.number != self.number);
    }
}
