//! The faults that were asked for, in the order in which they were asked for.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use crate::faults::{Fault, RequestMatch};
use crate::journal::{Request, Verb};

#[derive(Debug)]
struct Rule {
    number: u64,
    matches: Arc<RequestMatch>,
    fault: Fault,
    /// So many matching requests pass first.
    skip: usize,
    /// For so many requests; `None` for all.
    left: Option<usize>,
    until: Option<Instant>,
}

impl Rule {
    fn is_for(&self, verb: Verb) -> bool {
        verb == Verb::Watch || !self.fault.is_for_watches()
    }

    fn is_over(&self, now: Instant) -> bool {
        self.left == Some(0) || self.until.is_some_and(|until| until <= now)
    }

    /// Whether this request, to which the rule applies, meets the fault.
    fn strikes(&mut self) -> bool {
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

#[derive(Debug)]
struct Rules {
    last: u64,
    rules: Vec<Rule>,
}

/// The faults that wait for their requests. The oldest that matches a request is the one that happens to it.
///
/// Cloning gives another handle to the same faults. The list is as long as what was asked for and not yet used.
#[derive(Clone, Debug)]
pub struct Faults {
    rules: Arc<Mutex<Rules>>,
    /// Told when requests that hang are to be let go.
    cleared: Arc<watch::Sender<()>>,
}

/// A fault and the signal that ends it for a request that hangs.
pub(crate) struct ActiveFault {
    pub fault: Fault,
    pub over: watch::Receiver<()>,
    /// Whether it was drawn.
    pub planned: bool,
}

impl Default for Faults {
    fn default() -> Self {
        let rules = Rules { last: 0, rules: Vec::new() };
        Self { rules: Arc::new(Mutex::new(rules)), cleared: Arc::new(watch::Sender::new(())) }
    }
}

impl Faults {
    /// The next request that `matches` picks has this fault, and only that one.
    pub fn next(&self, matches: RequestMatch, fault: Fault) {
        self.nth(1, matches, fault);
    }

    /// Of the requests that `matches` picks from now on only this one has the fault; the first is 1. All that it picks
    /// count, also those that meet an older fault; if this one meets one, the next has this fault.
    pub fn nth(&self, nth: usize, matches: RequestMatch, fault: Fault) {
        self.add(Rule { skip: nth.saturating_sub(1), left: Some(1), ..Rule::new(matches, fault) });
    }

    /// The next `count` requests that `matches` picks have this fault.
    pub fn times(&self, count: usize, matches: &RequestMatch, fault: &Fault) {
        self.add(Rule { left: Some(count), ..Rule::new(matches.clone(), fault.clone()) });
    }

    /// Every request that `matches` picks within this time (tokio's) from now has this fault.
    pub fn during(&self, time: Duration, matches: RequestMatch, fault: Fault) {
        self.add(Rule { until: Instant::now().checked_add(time), ..Rule::new(matches, fault) });
    }

    /// Every request that `matches` picks has this fault, until the guard is dropped.
    pub fn always(&self, matches: RequestMatch, fault: Fault) -> FaultGuard {
        FaultGuard { number: self.add(Rule::new(matches, fault)), faults: self.clone() }
    }

    /// Forgets all faults, and breaks the connections of requests that [`Fault::Hang`] holds. Watches that are open go
    /// on as they are.
    pub fn clear(&self) {
        self.forget();
        self.cleared.send_replace(());
    }

    /// Forgets all faults. What a request has met already stays: what [`Fault::Hang`] holds is never answered.
    pub fn forget(&self) {
        self.rules.lock().rules.clear();
    }

    /// How many requests are still to meet a fault; a guard or a time counts as one.
    pub fn waiting(&self) -> usize {
        let now = Instant::now();
        let rules = self.rules.lock();
        let left = rules.rules.iter().filter(|rule| !rule.is_over(now)).map(|rule| rule.left.unwrap_or(1));
        left.fold(0, usize::saturating_add)
    }

    fn add(&self, rule: Rule) -> u64 {
        let mut rules = self.rules.lock();
        rules.last += 1;
        let number = rules.last;
        rules.rules.push(Rule { number, ..rule });
        number
    }

    /// The rules that pick this request. They are asked without the lock: a predicate may look at the faults, too.
    fn applying(&self, request: &Request, now: Instant) -> Vec<u64> {
        let mut rules = self.rules.lock();
        rules.rules.retain(|rule| !rule.is_over(now));
        let asked = rules.rules.iter().filter(|rule| rule.is_for(request.info.verb));
        let asked: Vec<_> = asked.map(|rule| (rule.number, rule.matches.clone())).collect();
        drop(rules);
        asked.into_iter().filter(|(_, matches)| matches.selects(request)).map(|(number, _)| number).collect()
    }

    /// The fault that this request meets, which counts as used.
    pub(crate) fn take(&self, request: &Request) -> Option<ActiveFault> {
        let now = Instant::now();
        let applying = self.applying(request, now);
        if applying.is_empty() {
            return None;
        }
        let mut rules = self.rules.lock();
        let mut met = None;
        // Those that other requests have used up meanwhile are no longer there.
        for rule in rules.rules.iter_mut().filter(|rule| applying.contains(&rule.number)) {
            let waits = rule.skip > 0;
            if (waits || met.is_none()) && rule.strikes() {
                met = Some(rule.fault.clone());
            }
        }
        rules.rules.retain(|rule| !rule.is_over(now));
        met.map(|fault| ActiveFault { fault, over: self.cleared.subscribe(), planned: false })
    }
}

impl Rule {
    fn new(matches: RequestMatch, fault: Fault) -> Self {
        Self { number: 0, matches: Arc::new(matches), fault, skip: 0, left: None, until: None }
    }
}

/// Keeps a fault in force; dropping it ends the fault.
#[derive(Debug)]
#[must_use = "the fault ends when the guard is dropped"]
pub struct FaultGuard {
    number: u64,
    faults: Faults,
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        self.faults.rules.lock().rules.retain(|rule| rule.number != self.number);
    }
}
