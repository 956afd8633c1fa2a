//! The figures of the comparison, and their medians.

use super::contenders::OURS;
use super::{MeasuredOverhead, OverheadPart};
use crate::figures::median;

/// A figure of a part.
pub(super) struct Figure {
    /// The key in the JSON numbers.
    pub(super) key: &'static str,
    /// The title of the row.
    pub(super) title: &'static str,
    /// The number of decimal places.
    pub(super) digits: usize,
}

const fn figure(key: &'static str, title: &'static str, digits: usize) -> Figure {
    Figure { key, title, digits }
}

/// The figure with a bar.
pub(super) const RECONCILE: &str = "reconcile_ns";

/// Returns the figures of a part, in the order of the rows. For all figures, less is better.
pub(super) const fn of_part(part: OverheadPart) -> &'static [Figure] {
    const RECONCILE_FIGURES: [Figure; 6] = [
        figure(RECONCILE, "reconcile without user code, CPU ns", 0),
        figure("queue_ns", "queue only: add, take and complete a key, CPU ns", 0),
        figure("get_ns", "get through the typed reader, CPU ns", 0),
        figure("index_ns", "query of 10 objects by an index value, CPU ns", 0),
        figure("owned_ns", "event of an owned object until the reconcile of its owner, CPU ns", 0),
        figure("rejected_ns", "event of an owned object that the predicate rejects, CPU ns", 0),
    ];
    const MEMORY: [Figure; 4] = [
        figure("unique_index_bytes", "index with one object per value, bytes/object", 0),
        figure("index_bytes", "index with 10 objects per value, bytes/object", 0),
        figure("coarse_index_bytes", "index with 100 objects per value, bytes/object", 0),
        figure("handler_bytes", "handler without pending events, bytes", 0),
    ];
    const SYNC: [Figure; 4] = [
        figure("sync_wall_s", "wall time until all caches are synced, s", 3),
        figure("sync_cpu_s", "CPU time until the process is at rest, s", 3),
        figure("sync_rss_mb", "RSS, MB", 1),
        figure("sync_connections", "sockets", 0),
    ];
    const START: [Figure; 4] = [
        figure("start_wall_s", "wall time until the first reconcile, s", 3),
        figure("start_cpu_s", "CPU time until the process is at rest, s", 3),
        figure("start_rss_mb", "RSS, MB", 1),
        figure("start_connections", "sockets", 0),
    ];
    const NAMESPACES: [Figure; 7] = [
        figure("namespaces_wall_s", "wall time until all caches are synced, s", 2),
        figure("namespaces_cpu_s", "CPU time until the process is at rest, s", 2),
        figure("namespaces_rss_mb", "RSS, MB", 1),
        figure("namespace_bytes", "RSS of the process, bytes/namespace", 0),
        figure("namespaces_connections", "sockets", 0),
        figure("namespaces_tasks", "tasks or goroutines", 0),
        figure("namespaces_idle_ms_per_s", "CPU time without changes, ms/s", 2),
    ];
    match part {
        OverheadPart::Reconcile => &RECONCILE_FIGURES,
        OverheadPart::Memory => &MEMORY,
        OverheadPart::Sync => &SYNC,
        OverheadPart::Start => &START,
        OverheadPart::Namespaces => &NAMESPACES,
    }
}

/// Returns the median of a figure of a program.
pub(super) fn median_of(measured: &MeasuredOverhead, key: &str) -> Option<f64> {
    median(measured.rounds.iter().filter_map(|round| round.get(key).copied()).collect())
}

/// Returns the ratio of the figure of kube-operator to the best figure of the other libraries.
pub(super) fn ratio(measured: &[MeasuredOverhead], key: &str) -> Option<f64> {
    let ours = measured.iter().find(|of| of.program == OURS)?;
    let peers = measured.iter().filter(|of| of.is_peer).filter_map(|of| median_of(of, key));
    let ratio = median_of(ours, key)? / peers.min_by(f64::total_cmp)?;
    Some(ratio).filter(|ratio| ratio.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_compares_with_better_peer() {
        let of = |program: &str, is_peer, values: &[f64]| MeasuredOverhead {
            program: program.into(),
            is_peer,
            rounds: values.iter().map(|value| [(RECONCILE.to_owned(), *value)].into()).collect(),
        };
        let measured = [of(OURS, false, &[1.0, 2.0, 9.0]), of("a", true, &[8.0]), of("b", true, &[4.0])];
        assert_eq!(ratio(&measured, RECONCILE), Some(0.5));
        assert_eq!(ratio(&measured, "get_ns"), None);
        assert_eq!(ratio(&measured[..1], RECONCILE), None);
    }
}
