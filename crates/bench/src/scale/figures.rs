//! The figures of the scale measurement.

use std::collections::BTreeMap;

use super::ScaleMeasured;

/// A figure: a function of a measurement, with its column.
pub(super) struct Figure {
    /// The key in the JSON numbers.
    pub(super) key: &'static str,
    /// The title of the column.
    pub(super) title: &'static str,
    /// The number of decimal places.
    pub(super) digits: usize,
    /// The figure should not grow with the number of objects.
    pub(super) is_constant: bool,
    value: fn(&ScaleMeasured, u64) -> f64,
}

/// The values of figures by their keys.
pub(super) type Figures = BTreeMap<String, f64>;

const KB: f64 = 1e3;
const MB: f64 = 1e6;

/// All figures, in the order of the columns. "Net" means without the cost of the same process
/// without objects.
pub(super) const ALL: [Figure; 12] = [
    stays("sync_cpu_us", "sync: CPU, us/object", 2, |of, _| per_object(of, of.sync.cpu - of.empty.cpu) * 1e6),
    stays("sync_user_us", "sync: user CPU, us/object", 2, |of, _| {
        per_object(of, of.sync.user - of.empty.user) * 1e6
    }),
    shown("sync_wall_s", "sync: wall time, s", 2, |of, _| of.sync.wall),
    stays("sync_rss_kb", "sync: net RSS, KB/object", 2, |of, _| net(of, of.sync.after) / KB),
    shown("sync_rss_gross_kb", "sync: gross RSS, KB/object", 2, |of, _| {
        per_object(of, of.sync.after as f64) / KB
    }),
    stays("event_cpu_us", "events: CPU, us/event", 2, |of, events| of.events.cpu * 1e6 / events as f64),
    stays("event_user_us", "events: user CPU, us/event", 2, |of, events| {
        of.events.user * 1e6 / events as f64
    }),
    shown("events_per_s", "events/s", 0, |of, events| events as f64 / of.events.wall),
    stays("events_rss_kb", "events: net RSS, KB/object", 2, |of, _| net(of, of.events.after) / KB),
    shown("events_rss_gross_kb", "events: gross RSS, KB/object", 2, |of, _| {
        per_object(of, of.events.after as f64) / KB
    }),
    shown("peak_mb", "peak RSS, MB", 0, |of, _| of.sync.peak.max(of.events.peak) as f64 / MB),
    shown("server_peak_mb", "peak RSS of the server, MB", 0, |of, _| of.server_peak as f64 / MB),
];

const fn stays(
    key: &'static str,
    title: &'static str,
    digits: usize,
    value: fn(&ScaleMeasured, u64) -> f64,
) -> Figure {
    Figure { key, title, digits, is_constant: true, value }
}

const fn shown(
    key: &'static str,
    title: &'static str,
    digits: usize,
    value: fn(&ScaleMeasured, u64) -> f64,
) -> Figure {
    Figure { key, title, digits, is_constant: false, value }
}

fn net(of: &ScaleMeasured, bytes: u64) -> f64 {
    per_object(of, bytes as f64 - of.empty.after as f64)
}

fn per_object(of: &ScaleMeasured, total: f64) -> f64 {
    total / of.case.objects as f64
}

/// Computes the figures. Figures without a value are omitted, for example if there are no objects.
pub(super) fn figures(of: &ScaleMeasured, events: u64) -> Figures {
    let value = |figure: &Figure| Some((figure.value)(of, events)).filter(|value| value.is_finite());
    ALL.iter().filter_map(|figure| Some((figure.key.to_owned(), value(figure)?))).collect()
}
