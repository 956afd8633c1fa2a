//! Random faults from a seed: the same seed and the same sequence of requests produce the same faults.

use tokio::time::Duration;

use crate::faults::{CutAfter, Disruption, Fault};
use crate::journal::{Request, RequestMatch, Verb};
use crate::status::Status;
use crate::storage::watch_cache::Lag;

mod draw;
mod running;

pub use running::Incident;
pub(crate) use running::PlanState;

/// Describes random faults with their weights, and the fraction of requests that get a fault. A request
/// gets at most one fault.
///
/// The fault of the n-th request depends only on the seed, the number n and the request. If a fault of
/// [`crate::Faults`] applies to a request, the plan does not apply to this request and does not count
/// it.
///
/// ```
/// use kube_testserver::{CutAfter, Disruption, Fault, RequestMatch, FaultPlan, Server, Verb};
///
/// let plan = FaultPlan::new(7)
///     .rate(0.2)
///     .fault(5, RequestMatch::verb(Verb::Watch), Fault::Cut(CutAfter::Frames(10)))
///     .fault(1, RequestMatch::any(), Fault::Disrupt(Disruption::Restart));
/// let server = Server::builder().plan(plan).build();
/// // ... a program runs against the server ...
/// let running = server.plan().unwrap();
/// running.stop();
/// assert!(running.incidents().is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct FaultPlan {
    seed: u64,
    rate: f64,
    scope: RequestMatch,
    faults: Vec<WeightedFault>,
}

#[derive(Clone, Debug)]
struct WeightedFault {
    weight: u32,
    matches: RequestMatch,
    fault: Fault,
}

impl WeightedFault {
    fn applies(&self, request: &Request) -> bool {
        (request.info.verb == Verb::Watch || !self.fault.is_watch_only()) && self.matches.selects(request)
    }
}

impl FaultPlan {
    /// Creates a plan that contains no faults and has a rate of 0.1.
    pub fn new(seed: u64) -> Self {
        Self { seed, rate: 0.1, scope: RequestMatch::any(), faults: Vec::new() }
    }

    /// Creates a plan with the faults that every client must survive without data loss.
    ///
    /// The plan contains these faults:
    ///
    /// - Requests are rejected.
    /// - Responses break, arrive late, or arrive in chunks.
    /// - Watches close, fail, repeat events, or do not send events.
    /// - The history expires, the server restarts, and the watch cache becomes stale.
    ///
    /// The plan does not contain [`Fault::Hang`], because clients need a timeout to detect it. It does
    /// not contain [`Fault::LoseEvent`], because no client can detect it, or [`Disruption::Restore`],
    /// because it loses writes.
    pub fn common_faults(seed: u64) -> Self {
        let reads =
            || RequestMatch::any().when(|request| matches!(request.info.verb, Verb::List | Verb::Watch));
        let watches = || RequestMatch::verb(Verb::Watch);
        let (late, expired) = (Duration::from_secs(2), Status::expired());
        let plan = Self::new(seed)
            .fault(4, RequestMatch::any(), Fault::internal_error("etcdserver: request timed out"))
            .fault(4, RequestMatch::any(), Fault::Throttled { retry_after: 2 })
            .fault(3, RequestMatch::any(), Fault::unavailable())
            .fault(3, reads(), Fault::initializing(1))
            .fault(2, reads(), Fault::gone())
            .fault(4, RequestMatch::any(), Fault::Reset)
            .fault(3, RequestMatch::any(), Fault::LoseResponse)
            .fault(3, RequestMatch::any(), Fault::Delay(late))
            .fault(3, RequestMatch::any(), Fault::LateResponse(late))
            .fault(4, RequestMatch::any(), Fault::Cut(CutAfter::Bytes(4096)))
            .fault(3, RequestMatch::any(), Fault::Chunks(64))
            .fault(6, watches(), Fault::Cut(CutAfter::Frames(8)))
            .fault(3, watches(), Fault::CloseWatch(8))
            .fault(2, watches(), Fault::ErrorEvent { after: 8, status: expired })
            .fault(
                2,
                watches(),
                Fault::ErrorEvent { after: 8, status: Status::internal_error("etcd event received") },
            )
            .fault(2, watches(), Fault::RepeatEvent(8))
            .fault(1, watches(), Fault::Silence)
            .fault(1, watches(), Fault::SlowReader(8));
        [
            Disruption::Compact,
            Disruption::ExpireLists,
            Disruption::ExpireWatches,
            Disruption::Restart,
            Disruption::Lag(Lag::Revisions(8)),
            Disruption::Lag(Lag::Time(late)),
            Disruption::Lag(Lag::None),
        ]
        .into_iter()
        .fold(plan, |plan, disruption| plan.fault(1, RequestMatch::any(), Fault::Disrupt(disruption)))
    }

    /// Sets the fraction of requests that get a fault, from 0.0 to 1.0. NaN counts as 0.0. Default: 0.1.
    pub fn rate(mut self, rate: f64) -> Self {
        self.rate = if rate.is_nan() { 0.0 } else { rate };
        self
    }

    /// Restricts the plan to the requests that `matches` selects. The plan does not count other
    /// requests.
    pub fn only(mut self, matches: RequestMatch) -> Self {
        self.scope = matches;
        self
    }

    /// Adds a fault for the requests that `matches` selects.
    ///
    /// If several faults match a request, the probability of each fault is proportional to its weight.
    /// The parameters of a fault are upper bounds, and the plan draws each value between zero and the
    /// bound. This applies to frames, bytes, durations, revisions, and clock jumps in both directions.
    /// The `bump` of a restore is used unchanged.
    pub fn fault(mut self, weight: u32, matches: RequestMatch, fault: Fault) -> Self {
        self.faults.push(WeightedFault { weight, matches, fault });
        self
    }

    /// Returns the fault of the `number`-th request in scope.
    fn draw(&self, number: u64, request: &Request) -> Option<Fault> {
        // An odd factor spreads neighbouring requests over all seeds.
        let seed = self.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut rng = fastrand::Rng::with_seed(seed);
        if rng.f64() >= self.rate {
            return None;
        }
        let choices: Vec<_> = self.faults.iter().filter(|choice| choice.applies(request)).collect();
        let total: u64 = choices.iter().map(|choice| u64::from(choice.weight)).sum();
        if total == 0 {
            return None;
        }
        let mut position = rng.u64(..total);
        for choice in choices {
            match position.checked_sub(choice.weight.into()) {
                Some(left) => position = left,
                None => return Some(draw::draw(&choice.fault, &mut rng)),
            }
        }
        None
    }
}
