//! The figures of the comparison of operators. Each is the median over all rounds.

use super::{MeasuredOperator, Operator, OperatorPart, OperatorRound, OperatorSettings};
use crate::figures::median;
use crate::http_server::RequestCounts;

/// The verbs of requests that change objects.
const WRITES: [&str; 4] = ["create", "update", "patch", "delete"];
/// The verbs of requests that read objects.
const READS: [&str; 3] = ["get", "list", "watch"];
const MB: f64 = 1e6;
const KB: f64 = 1e3;

/// A figure: a function of a round, with its row. `None` if the figure was not measured.
pub(super) struct Figure {
    pub(super) title: &'static str,
    /// The number of decimal places.
    pub(super) digits: usize,
    value: fn(&OperatorRound, &OperatorSettings) -> Option<f64>,
}

const fn figure(
    title: &'static str,
    digits: usize,
    value: fn(&OperatorRound, &OperatorSettings) -> Option<f64>,
) -> Figure {
    Figure { title, digits, value }
}

/// The figures, in the order of the tables. For all figures, less is better.
pub(super) const FIGURES: [Figure; 26] = [
    figure("first start: wall time, s", 2, |of, _| Some(of.first.wall)),
    figure("first start: CPU, us/object", 0, |of, set| Some(of.first.cpu * 1e6 / set.objects as f64)),
    figure("first start: peak RSS, MB", 1, |of, _| Some(of.first.peak as f64 / MB)),
    figure("first start: RSS at rest, MB", 1, |of, _| Some(of.first.resident as f64 / MB)),
    figure("first start: KB/object", 2, |of, set| bytes(&of.first, set.objects)),
    figure("first start: reads/object", 3, |of, set| requests(&of.first, &READS, set.objects)),
    figure("first start: writes/object", 3, |of, set| requests(&of.first, &WRITES, set.objects)),
    figure("changes: latency p50, ms", 2, |of, _| Some(of.latency.p50 as f64 / 1e6)),
    figure("changes: latency p99, ms", 2, |of, _| Some(of.latency.p99 as f64 / 1e6)),
    figure("changes: CPU, us/change", 0, |of, set| Some(of.changes.cpu * 1e6 / set.changes as f64)),
    figure("changes: peak RSS, MB", 1, |of, _| Some(of.changes.peak as f64 / MB)),
    figure("changes: KB/change", 2, |of, set| bytes(&of.changes, set.changes)),
    figure("changes: reads/change", 3, |of, set| requests(&of.changes, &READS, set.changes)),
    figure("changes: writes/change", 3, |of, set| requests(&of.changes, &WRITES, set.changes)),
    figure("idle: CPU, ms/s", 2, |of, _| Some(of.idle.cpu * 1e3 / of.idle.wall)),
    figure("idle: RSS, MB", 1, |of, _| Some(of.idle.resident as f64 / MB)),
    figure("idle: reads and writes", 0, |of, _| {
        Some(requests(&of.idle, &READS, 1)? + requests(&of.idle, &WRITES, 1)?)
    }),
    figure("restart: CPU, us/object", 0, |of, set| Some(of.restart.cpu * 1e6 / set.objects as f64)),
    figure("restart: peak RSS, MB", 1, |of, _| Some(of.restart.peak as f64 / MB)),
    figure("restart: RSS at rest, MB", 1, |of, _| Some(of.restart.resident as f64 / MB)),
    figure("restart: KB/object", 2, |of, set| bytes(&of.restart, set.objects)),
    figure("restart: GET requests for objects", 0, |of, _| requests(&of.restart, &["get"], 1)),
    figure("restart: lists and watches", 0, |of, _| requests(&of.restart, &["list", "watch"], 1)),
    figure("restart: writes", 0, |of, _| requests(&of.restart, &WRITES, 1)),
    figure("restart: reviews of permissions", 0, |of, _| requests(&of.restart, &["review"], 1)),
    figure("failed requests of all parts", 0, |of, _| {
        let parts = [&of.first, &of.changes, &of.idle, &of.restart];
        parts.iter().map(|part| Some(part.requests.as_ref()?.failed as f64)).sum()
    }),
];

/// The requests to the storage service. Only Buckets have them.
pub(super) const STORAGE_FIGURES: [Figure; 3] = [
    figure("first start: storage requests/object", 2, |of, set| storage(&of.first, set)),
    figure("idle: storage requests/object", 2, |of, set| storage(&of.idle, set)),
    figure("restart: storage requests/object", 2, |of, set| storage(&of.restart, set)),
];

fn bytes(part: &OperatorPart, count: usize) -> Option<f64> {
    Some(part.requests.as_ref()?.bytes as f64 / KB / count as f64)
}

/// Returns the requests with these verbs, divided by a number.
fn requests(part: &OperatorPart, verbs: &[&str], count: usize) -> Option<f64> {
    let requests: &RequestCounts = part.requests.as_ref()?;
    Some(verbs.iter().map(|verb| requests.of(verb)).sum::<u64>() as f64 / count as f64)
}

fn storage(part: &OperatorPart, settings: &OperatorSettings) -> Option<f64> {
    Some(part.storage_requests as f64 / settings.objects as f64)
}

/// Returns the figures of an operator.
pub(super) fn of_operator(operator: Operator) -> impl Iterator<Item = &'static Figure> {
    let storage: &[Figure] = match operator {
        Operator::Website => &[],
        Operator::Bucket => &STORAGE_FIGURES,
    };
    FIGURES.iter().chain(storage)
}

impl Figure {
    /// Returns the median over the rounds of a program.
    pub(super) fn median(&self, of: &MeasuredOperator, settings: &OperatorSettings) -> Option<f64> {
        median(of.rounds.iter().filter_map(|round| (self.value)(round, settings)).collect())
    }

    /// Returns the median of this project, divided by the least median of the other projects.
    pub(super) fn ratio(&self, measured: &[&MeasuredOperator], settings: &OperatorSettings) -> Option<f64> {
        let value = |of: &&MeasuredOperator| self.median(of, settings);
        let ours = measured.iter().copied().find(|of| !of.is_peer())?;
        let peers = measured.iter().copied().filter(|of| of.is_peer());
        let ratio = value(&ours)? / peers.filter_map(|of| value(&of)).min_by(f64::total_cmp)?;
        // The value of the better peer may be 0.
        ratio.is_finite().then_some(ratio)
    }
}
