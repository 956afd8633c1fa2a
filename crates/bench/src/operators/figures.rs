//! The figures of the comparison of operators. Each is the median over all rounds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{MeasuredOperator, OperatorRound, OperatorSettings, OperatorsOutcome, Part, Requests};
use crate::figures::median;

/// A figure: a function of a round, with its column.
pub(super) struct Figure {
    /// The key in the JSON numbers.
    pub(super) key: &'static str,
    /// The title of the column.
    pub(super) title: &'static str,
    /// The number of decimal places.
    pub(super) digits: usize,
    /// The column in the table of ratios, if it has one.
    pub(super) ratio: Option<Ratio>,
    value: fn(&OperatorRound, &OperatorSettings) -> f64,
}

/// The comparison of a figure with other projects.
#[derive(Clone, Copy)]
pub(super) struct Ratio {
    /// The title of the column.
    pub(super) title: &'static str,
    pub(super) better: Better,
}

#[derive(Clone, Copy)]
pub(super) enum Better {
    Less,
    More,
}

/// The figures of one table.
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) figures: &'static [Figure],
}

/// The medians of an operator, by the keys of the figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OperatorMedians {
    pub(super) operator: String,
    pub(super) is_peer: bool,
    pub(super) figures: BTreeMap<String, f64>,
}

const MB: f64 = 1e6;

const fn figure(
    key: &'static str,
    title: &'static str,
    digits: usize,
    value: fn(&OperatorRound, &OperatorSettings) -> f64,
) -> Figure {
    Figure { key, title, digits, ratio: None, value }
}

impl Figure {
    /// Adds a column of ratios for which less is better.
    const fn less(self, title: &'static str) -> Self {
        Self { ratio: Some(Ratio { title, better: Better::Less }), ..self }
    }

    /// Adds a column of ratios for which more is better.
    const fn more(self, title: &'static str) -> Self {
        Self { ratio: Some(Ratio { title, better: Better::More }), ..self }
    }
}

/// All figures, grouped by table.
pub(super) const GROUPS: [Group; 4] = [
    Group {
        title: "From the first start until all Websites are ready",
        figures: &[
            figure("cold_cpu_s", "CPU time, s", 2, |of, _| of.cold.stage.cpu),
            figure("cold_cpu_us", "CPU, us/Website", 0, |of, set| us(of.cold.stage.cpu, set.objects))
                .less("first start: CPU"),
            figure("cold_wall_s", "wall time, s", 2, |of, _| of.cold.stage.wall),
            figure("cold_per_s", "Websites/s", 0, |of, set| set.objects as f64 / of.cold.stage.wall)
                .more("first start: Websites/s"),
            figure("cold_peak_mb", "peak RSS, MB", 0, |of, _| of.cold.stage.peak as f64 / MB)
                .less("first start: peak RSS"),
            figure("cold_rss_mb", "RSS at rest, MB", 0, |of, _| of.cold.stage.after as f64 / MB)
                .less("first start: RSS at rest"),
            figure("cold_writes", "writes/Website", 2, |of, set| {
                requests(&of.cold, |requests| requests.writes) / set.objects as f64
            }),
            figure("cold_runs", "reconciles/Website", 2, |of, set| of.cold.runs as f64 / set.objects as f64),
        ],
    },
    Group {
        title: "Changes at a fixed rate, until the new status is delivered",
        figures: &[
            figure("change_p50_ms", "latency p50, ms", 2, |of, _| ms(of.latency.p50))
                .less("changes: latency p50"),
            figure("change_p99_ms", "latency p99, ms", 2, |of, _| ms(of.latency.p99))
                .less("changes: latency p99"),
            figure("change_max_ms", "slowest change, ms", 2, |of, _| ms(of.latency.max)),
            figure("change_cpu_s", "CPU time, s", 2, |of, _| of.changes.stage.cpu),
            figure("change_cpu_us", "CPU, us/change", 0, |of, set| us(of.changes.stage.cpu, set.changes))
                .less("changes: CPU"),
            figure("change_writes", "writes/change", 2, |of, set| {
                requests(&of.changes, |requests| requests.writes) / set.changes as f64
            }),
            figure("change_runs", "reconciles/change", 2, |of, set| {
                of.changes.runs as f64 / set.changes as f64
            }),
        ],
    },
    Group {
        title: "From the second start, without pending work, until each Website is reconciled",
        figures: &[
            figure("restart_cpu_s", "CPU time, s", 2, |of, _| of.restart.stage.cpu),
            figure("restart_cpu_us", "CPU, us/Website", 0, |of, set| us(of.restart.stage.cpu, set.objects))
                .less("second start: CPU"),
            figure("restart_wall_s", "wall time, s", 2, |of, _| of.restart.stage.wall),
            figure("restart_peak_mb", "peak RSS, MB", 0, |of, _| of.restart.stage.peak as f64 / MB)
                .less("second start: peak RSS"),
            figure("restart_rss_mb", "RSS at rest, MB", 0, |of, _| of.restart.stage.after as f64 / MB)
                .less("second start: RSS at rest"),
            figure("restart_runs", "reconciles/Website", 2, |of, set| {
                of.restart.runs as f64 / set.objects as f64
            }),
            figure("restart_writes", "writes", 0, |of, _| requests(&of.restart, |requests| requests.writes)),
        ],
    },
    Group {
        title: "Idle part, and totals of all parts",
        figures: &[
            figure("idle_cpu_us", "idle: CPU, us/s", 0, |of, _| of.idle.stage.cpu * 1e6 / of.idle.stage.wall)
                .less("idle: CPU"),
            figure("idle_rss_mb", "idle: RSS, MB", 0, |of, _| of.idle.stage.after as f64 / MB)
                .less("idle: RSS"),
            figure("reads", "total reads", 0, |of, _| {
                sum(of, |part| requests(part, |requests| requests.reads))
            }),
            figure("watches", "total watches", 0, |of, _| {
                sum(of, |part| requests(part, |requests| requests.watches))
            }),
            figure("writes", "total writes", 0, |of, _| {
                sum(of, |part| requests(part, |requests| requests.writes))
            }),
            figure("refused", "failed requests", 0, |of, _| {
                sum(of, |part| requests(part, |requests| requests.refused))
            }),
            figure("failed", "failed reconciles", 0, |of, _| sum(of, |part| part.failed as f64)),
        ],
    },
];

/// Returns a number of requests, or NaN if they are not counted.
fn requests(part: &Part, count: fn(&Requests) -> u64) -> f64 {
    part.requests.as_ref().map_or(f64::NAN, |requests| count(requests) as f64)
}

fn us(seconds: f64, count: usize) -> f64 {
    seconds * 1e6 / count as f64
}

fn ms(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

fn sum(round: &OperatorRound, count: impl Fn(&Part) -> f64) -> f64 {
    [&round.cold, &round.changes, &round.idle, &round.restart].into_iter().map(count).sum()
}

/// Returns the figures of all tables.
pub(super) fn all() -> impl Iterator<Item = &'static Figure> {
    GROUPS.iter().flat_map(|group| group.figures)
}

/// Returns the medians of all operators, in their order.
pub(super) fn medians(outcome: &OperatorsOutcome) -> Vec<OperatorMedians> {
    let of = |measured: &MeasuredOperator| {
        let value = |figure: &Figure| {
            let values = measured.rounds.iter().map(|round| (figure.value)(round, &outcome.settings));
            median(values.filter(|value| value.is_finite()).collect())
        };
        let figures = all().filter_map(|figure| Some((figure.key.to_owned(), value(figure)?))).collect();
        OperatorMedians { operator: measured.operator.clone(), is_peer: measured.is_peer, figures }
    };
    outcome.measured.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_keys_are_unique() {
        let mut keys: Vec<_> = all().map(|figure| figure.key).collect();
        let number = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), number);
    }
}
