//! The figures of the comparison. Each is the median over all rounds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::compare::{Measured, Outcome, Round, Settings};
use crate::contenders::Family;
use crate::stage::Stage;

/// A figure: a function of a round, with its column.
pub(crate) struct Figure {
    /// The key in the JSON numbers.
    pub(crate) key: &'static str,
    /// The title of the column.
    pub(crate) title: &'static str,
    /// The number of decimal places.
    pub(crate) digits: usize,
    value: fn(&Round, &Settings) -> Option<f64>,
}

/// The figures of one table.
pub(crate) struct Group {
    pub(crate) title: &'static str,
    pub(crate) figures: &'static [Figure],
}

/// Contains the medians of a contender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Medians {
    /// The name of the contender.
    pub contender: String,
    /// The project of the contender.
    pub family: Family,
    /// The medians by the keys of the figures. Figures without a value are omitted.
    pub figures: BTreeMap<String, f64>,
}

const MB: f64 = 1e6;

const fn figure(
    key: &'static str,
    title: &'static str,
    digits: usize,
    value: fn(&Round, &Settings) -> Option<f64>,
) -> Figure {
    Figure { key, title, digits, value }
}

/// All figures, grouped by table.
pub(crate) const GROUPS: [Group; 4] = [
    Group {
        title: "From the start until the cache is in sync",
        figures: &[
            figure("sync_cpu_s", "CPU time, s", 2, |round, _| Some(round.sync.cpu)),
            figure("sync_wall_s", "wall time, s", 2, |round, _| Some(round.sync.wall)),
            figure("sync_rss_mb", "RSS, MB", 0, |round, _| Some(round.sync.after as f64 / MB)),
            figure("sync_peak_mb", "peak RSS, MB", 0, |round, _| Some(round.sync.peak as f64 / MB)),
            figure("sync_received_mb", "received, MB", 1, |round, _| Some(round.sync.received as f64 / MB)),
        ],
    },
    Group {
        title: "Events at full speed",
        figures: &[
            figure("event_cpu_us", "CPU, us/event", 1, |round, set| per(round.events.cpu, set.events)),
            figure("events_per_s", "events/s", 0, |round, set| Some(set.events as f64 / round.events.wall)),
            figure("events_rss_mb", "RSS, MB", 0, |round, _| Some(round.events.after as f64 / MB)),
            figure("object_rss_kb", "RSS, KB/object", 1, |round, _| {
                Some(round.events.after as f64 / round.objects as f64 / 1e3)
            }),
            figure("events_received_mb", "received, MB per 1,000 events", 2, |round, set| {
                (set.events > 0).then(|| round.events.received as f64 / set.events as f64 * 1e3 / MB)
            }),
        ],
    },
    Group {
        title: "Relists",
        figures: &[
            figure("relist_cpu_us", "no object changed: CPU, us/object", 1, |round, _| {
                per(round.relist.cpu, round.objects as u64)
            }),
            figure(
                "relist_cpu_ratio",
                "no object changed: CPU of the relist / CPU until sync",
                2,
                |round, _| Some(round.relist.cpu / round.sync.cpu),
            ),
            figure(
                "relist_peak_ratio",
                "no object changed: peak RSS / RSS before the relist",
                2,
                |round, _| Some(growth(&round.relist)),
            ),
            figure("changed_cpu_us", "5 % of the objects changed: CPU, us/object", 1, |round, _| {
                per(round.relist_changed.cpu, round.objects as u64)
            }),
            figure(
                "changed_peak_ratio",
                "5 % of the objects changed: peak RSS / RSS before the relist",
                2,
                |round, _| Some(growth(&round.relist_changed)),
            ),
            figure("relist_received_mb", "no object changed: received, MB", 1, |round, _| {
                Some(round.relist.received as f64 / MB)
            }),
            figure("asked_cpu_us", "relist requested by the program: CPU, us/object", 1, |round, _| {
                per(round.relist_asked?.cpu, round.objects as u64)
            }),
            figure(
                "asked_peak_ratio",
                "relist requested by the program: peak RSS / RSS before the relist",
                2,
                |round, _| round.relist_asked.as_ref().map(growth),
            ),
        ],
    },
    Group {
        title: "Events at a fixed rate",
        figures: &[
            figure("latency_p50_us", "latency p50, us", 0, |round, _| Some(round.latency?.p50 as f64 / 1e3)),
            figure("latency_p99_us", "latency p99, us", 0, |round, _| Some(round.latency?.p99 as f64 / 1e3)),
            figure("latency_max_us", "slowest event, us", 0, |round, _| {
                Some(round.latency?.max as f64 / 1e3)
            }),
            figure("paced_cpu_us", "CPU, us/event", 1, |round, set| {
                per(round.paced.cpu, set.rate * set.seconds)
            }),
        ],
    },
];

/// Returns microseconds per item.
fn per(seconds: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| seconds * 1e6 / count as f64)
}

fn growth(stage: &Stage) -> f64 {
    stage.peak as f64 / stage.before as f64
}

/// Returns the figure with this key.
pub(crate) fn by_key(key: &str) -> Option<&'static Figure> {
    GROUPS.iter().flat_map(|group| group.figures).find(|figure| figure.key == key)
}

/// Returns the medians of all contenders, in their order.
pub fn medians(outcome: &Outcome) -> Vec<Medians> {
    let all = || GROUPS.iter().flat_map(|group| group.figures);
    let of = |measured: &Measured| {
        let value = |figure: &Figure| {
            let rounds = measured.rounds.iter();
            median(rounds.filter_map(|round| (figure.value)(round, &outcome.settings)).collect())
        };
        let figures = all().filter_map(|figure| Some((figure.key.to_owned(), value(figure)?))).collect();
        Medians { contender: measured.contender.clone(), family: measured.family, figures }
    };
    outcome.measured.iter().map(of).collect()
}

/// Returns the median: for an even number of values, the mean of the two middle values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        1 => values.get(half).copied(),
        _ => Some((values.get(half.checked_sub(1)?)? + values.get(half)?) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_value() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn figure_keys_are_unique() {
        let mut keys: Vec<_> =
            GROUPS.iter().flat_map(|group| group.figures).map(|figure| figure.key).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }
}
