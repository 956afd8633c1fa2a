//! Faults drawn from a seed: the same seed and the same sequence of requests meet the same faults.

use tokio::time::Duration;

use crate::faults::{CutAfter, Disruption, Fault, RequestMatch};
use crate::journal::{Request, Verb};
use crate::status::Status;
use crate::storage::watch_cache::Lag;

mod draw;
mod running;

pub(crate) use running::PlanState;
pub use running::{Incident, RunningPlan};

/// A list of faults and how often they happen. Each request meets at most one of them.
///
/// What the n-th request meets depends on the seed, on n and on the request alone. Faults that were asked for by
/// [`crate::Faults`] come first; requests that meet one don't count here.
///
/// ```
/// use kube_testserver::{CutAfter, Disruption, Fault, RequestMatch, FaultPlan, Server, Verb};
///
/// let plan = FaultPlan::new(7)
///     .rate(0.2)
///     .fault(5, RequestMatch::verb(Verb::Watch), Fault::Cut(CutAfter::Frames(10)))
///     .fault(1, RequestMatch::any(), Fault::Disrupt(Disruption::Restart));
/// let server = Server::builder().plan(plan).build();
/// // ... a program runs against it ...
/// let done = server.plan().unwrap();
/// done.stop();
/// assert!(done.incidents().is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct FaultPlan {
    seed: u64,
    rate: f64,
    scope: RequestMatch,
    faults: Vec<Choice>,
}

/// A fault that can be drawn.
#[derive(Clone, Debug)]
struct Choice {
    weight: u32,
    matches: RequestMatch,
    fault: Fault,
}

impl Choice {
    fn applies(&self, request: &Request) -> bool {
        (request.info.verb == Verb::Watch || !self.fault.is_for_watches()) && self.matches.selects(request)
    }
}

impl FaultPlan {
    /// A plan without faults. Requests meet one with a rate of 0.1.
    pub fn new(seed: u64) -> Self {
        Self { seed, rate: 0.1, scope: RequestMatch::any(), faults: Vec::new() }
    }

    /// What every client has to live with, and can without a loss: refusals, broken, late and cut answers, answers in
    /// pieces, watches that end, fail, repeat themselves or say nothing, expired history, restarts, lagging reads. Not
    /// in it is what needs a time-out of the client's own ([`Fault::Hang`]), what no client can notice
    /// ([`Fault::LoseEvent`]), and what loses writes ([`Disruption::Restore`]).
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
            .fault(3, RequestMatch::any(), Fault::Pieces(64))
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

    /// How many of all requests meet a fault: 0.0 (or no number) is none, 1.0 is each. Default: 0.1.
    #[must_use]
    pub fn rate(mut self, rate: f64) -> Self {
        self.rate = if rate.is_nan() { 0.0 } else { rate };
        self
    }

    /// Only requests that `matches` picks count and meet a fault.
    #[must_use]
    pub fn only(mut self, matches: RequestMatch) -> Self {
        self.scope = matches;
        self
    }

    /// One more fault, for requests that `matches` picks; among those for a request each is drawn as often as its
    /// weight says. The numbers in a fault (frames, bytes, times, revisions, a jump of the clock both ways) are bounds:
    /// what happens is drawn from zero up to them. The version bump of a restore is taken as it is.
    #[must_use]
    pub fn fault(mut self, weight: u32, matches: RequestMatch, fault: Fault) -> Self {
        self.faults.push(Choice { weight, matches, fault });
        self
    }

    /// What the request meets that is the `number`-th one in scope.
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
        let mut at = rng.u64(..total);
        for choice in choices {
            match at.checked_sub(choice.weight.into()) {
                Some(left) => at = left,
                None => return Some(draw::draw(&choice.fault, &mut rng)),
            }
        }
        None
    }
}
