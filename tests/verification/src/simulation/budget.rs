//! The maximum number of requests of an informer, for any faults. Each delay is as long as the backoff
//! requires. The backoff resets after two minutes without failures. There are at most two lists between
//! two delays. During a lasting fault there are therefore 14 lists in the first minute (seven attempts
//! with the shortest delays) and 4 in each later minute.

use std::time::Duration;

use kube_informer::{Phase, ReflectorOptions};
use kube_testserver::{Request, Verb};

use super::workload::KEYS;

/// The resolution of timers.
const TICK: Duration = Duration::from_millis(2);
const MINUTE: Duration = Duration::from_secs(60);

/// The number of lists after each delay or request: a failed list may be followed by a second list. The
/// pages of a list count as one list.
const LISTS: usize = 2;
/// The number of other requests in ten seconds.
const OTHERS: usize = 50;

/// The requests of an informer, its delays, and the requested lists.
#[derive(Debug)]
pub(super) struct Budget {
    options: ReflectorOptions,
    /// The end of each delay.
    delays: Vec<Duration>,
    /// The start of the present delay.
    waiting: Option<Duration>,
    /// The minimum duration of the next delay, if no time without failures precedes it.
    next: Duration,
    too_short: Option<String>,
    /// True if a new reflector starts after this delay.
    is_new_reflector: bool,
    asked: Vec<Duration>,
}

impl Budget {
    pub(super) fn new(options: ReflectorOptions) -> Self {
        let next = options.backoff_initial;
        Self {
            options,
            delays: Vec::new(),
            waiting: None,
            next,
            too_short: None,
            is_new_reflector: false,
            asked: Vec::new(),
        }
    }

    /// Records the new phase of the reflector.
    pub(super) fn does(&mut self, at: Duration, phase: Phase) {
        match (self.waiting, phase) {
            (None, Phase::Waiting | Phase::Suspended) => self.waiting = Some(at),
            (Some(began), Phase::Listing | Phase::Watching) => self.waited(began, at),
            _ => {}
        }
    }

    fn waited(&mut self, began: Duration, over: Duration) {
        if self.delays.last().is_some_and(|last| began + TICK - *last > self.options.backoff_reset) {
            self.next = self.options.backoff_initial;
        }
        if over - began < self.next {
            let how = format!("a delay of {:?} at {began:?}, the minimum is {:?}", over - began, self.next);
            self.too_short.get_or_insert(how);
        }
        self.next = match std::mem::take(&mut self.is_new_reflector) {
            true => self.options.backoff_initial,
            false => (self.next * 2).min(self.options.backoff_max),
        };
        self.delays.push(over);
        self.waiting = None;
    }

    /// A panic stopped the reflector. The informer starts a new one after a pause.
    pub(super) fn panicked(&mut self) {
        self.is_new_reflector = true;
    }

    /// The program requests a list.
    pub(super) fn asked(&mut self, at: Duration) {
        self.asked.push(at);
    }

    /// Checks all requests of an informer against this budget. The requests are sorted by time.
    pub(super) fn holds(&self, requests: &[Request]) -> Result<(), String> {
        self.too_short.clone().map_or(Ok(()), Err)?;
        pages_are_few(requests)?;
        let at = |wanted: fn(&Request) -> bool| -> Vec<Duration> {
            requests.iter().filter(|request| wanted(request)).map(|request| request.at).collect()
        };
        let lists = at(|request| is_list(request) && !is_page(request));
        for (first, from) in lists.iter().enumerate() {
            let within = |at: &&Duration| **at > *from && **at < *from + MINUTE;
            let count = lists[first..].iter().take_while(|at| **at < *from + MINUTE).count();
            let delays = self.delays.iter().filter(within).count();
            let asked = self.asked.iter().filter(|at| *at == from || within(at)).count();
            if count > LISTS * (1 + delays + asked) {
                return Err(format!(
                    "{count} lists in the minute after {from:?}, with {delays} delays and {asked} requested lists"
                ));
            }
        }
        let others = at(|request| !is_list(request));
        for (first, from) in others.iter().enumerate() {
            let count = others[first..].iter().take_while(|at| **at < *from + MINUTE / 6).count();
            if count > OTHERS {
                return Err(format!("{count} watches in the 10 s from {from:?} on"));
            }
        }
        Ok(())
    }
}

fn is_list(request: &Request) -> bool {
    request.parameter("sendInitialEvents").is_some() || request.info.verb == Verb::List && !is_check(request)
}

/// A check of the server's version. Other lists have larger pages.
pub(super) fn is_check(request: &Request) -> bool {
    request.info.verb == Verb::List && request.parameter("limit").as_deref() == Some("1")
}

fn is_page(request: &Request) -> bool {
    request.parameter("continue").is_some()
}

/// A list has no more pages than its objects fill.
fn pages_are_few(requests: &[Request]) -> Result<(), String> {
    let mut pages = 0;
    for request in requests.iter().filter(|request| is_list(request)) {
        pages = if is_page(request) { pages + 1 } else { 1 };
        let limit = request.parameter("limit").and_then(|limit| limit.parse().ok());
        if pages > KEYS.div_ceil(limit.unwrap_or(KEYS)) {
            return Err(format!("page {pages} of {limit:?} of {KEYS} objects at {:?}", request.at));
        }
    }
    Ok(())
}
