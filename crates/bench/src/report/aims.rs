//! The performance aims of the project, and whether a measurement reaches them.

use super::stores::StoreNumbers;
use super::table::{aligned, heading};
use crate::contenders::{CLIENT_GO_PROTOBUF, COMPRESSED, KUBE_RUNTIME_LIST, LAZY, TYPED};
use crate::figures::Medians;
use crate::stores::{OURS, OURS_SNAPSHOTS};

struct Aim {
    what: &'static str,
    value: Value,
    bound: Bound,
    /// The number of decimal places.
    digits: usize,
}

/// The source of a value: a figure, by its key.
enum Value {
    /// The figure of a contender.
    Of(&'static str, &'static str),
    /// The ratio of the figures of two contenders.
    Ratio(&'static str, &'static str, &'static str),
    /// The figure of a store.
    Store(&'static str, &'static str),
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

use Bound::{AtLeast, AtMost};
use Value::{Of, Ratio, Store};

const fn aim(what: &'static str, value: Value, bound: Bound, digits: usize) -> Aim {
    Aim { what, value, bound, digits }
}

const AIMS: [Aim; 20] = [
    aim(
        "typed: CPU until sync, relative to client-go with protobuf",
        Ratio(TYPED, CLIENT_GO_PROTOBUF, "sync_cpu_s"),
        AtMost(0.5),
        3,
    ),
    aim(
        "typed: CPU until sync, relative to kube-runtime with paged lists",
        Ratio(TYPED, KUBE_RUNTIME_LIST, "sync_cpu_s"),
        AtMost(0.25),
        3,
    ),
    aim(
        "typed: CPU per event, relative to client-go with protobuf",
        Ratio(TYPED, CLIENT_GO_PROTOBUF, "event_cpu_us"),
        AtMost(0.5),
        3,
    ),
    aim(
        "typed: CPU per event, relative to kube-runtime with paged lists",
        Ratio(TYPED, KUBE_RUNTIME_LIST, "event_cpu_us"),
        AtMost(0.33),
        3,
    ),
    aim(
        "lazy: CPU per event, relative to client-go with protobuf",
        Ratio(LAZY, CLIENT_GO_PROTOBUF, "event_cpu_us"),
        AtMost(0.12),
        3,
    ),
    aim("typed: RSS after the events, KB/object", Of(TYPED, "object_rss_kb"), AtMost(40.0), 1),
    aim("lazy: RSS after the events, KB/object", Of(LAZY, "object_rss_kb"), AtMost(8.0), 1),
    aim("compressed: RSS after the events, KB/object", Of(COMPRESSED, "object_rss_kb"), AtMost(2.5), 1),
    aim(
        "typed: peak RSS of a relist with 5 % changed objects / RSS before the relist",
        Of(TYPED, "changed_peak_ratio"),
        AtMost(1.15),
        2,
    ),
    aim(
        "lazy: peak RSS of a relist with 5 % changed objects / RSS before the relist",
        Of(LAZY, "changed_peak_ratio"),
        AtMost(1.15),
        2,
    ),
    aim(
        "typed: CPU of a relist without changes / CPU until sync",
        Of(TYPED, "relist_cpu_ratio"),
        AtMost(0.15),
        3,
    ),
    aim(
        "typed: p99 latency from the socket to the handler, us",
        Of(TYPED, "latency_p99_us"),
        AtMost(1000.0),
        0,
    ),
    aim(
        "lazy: p99 latency from the socket to the handler, us",
        Of(LAZY, "latency_p99_us"),
        AtMost(1000.0),
        0,
    ),
    aim("store: writes/s", Store(OURS, "writes_per_s"), AtLeast(2.5e6), 0),
    aim("store: get of one Pod, CPU ns", Store(OURS, "get_ns"), AtMost(220.0), 0),
    aim("store: iteration over a snapshot, CPU ns/Pod", Store(OURS_SNAPSHOTS, "list_ns"), AtMost(5.0), 1),
    aim(
        "store with ten listing readers: CPU time of a write, us",
        Store(OURS, "read_write_cpu_us"),
        AtMost(1.3),
        2,
    ),
    aim(
        "store with ten listing readers: CPU time of 64 writes, p99, us",
        Store(OURS, "read_group_p99_us"),
        AtMost(400.0),
        0,
    ),
    aim(
        "store with ten listing readers: waits of the writer for a lock, per 1,000 writes",
        Store(OURS, "read_waits"),
        AtMost(0.0),
        3,
    ),
    aim(
        "store with ten readers of snapshots: waits of the writer for a lock, per 1,000 writes",
        Store(OURS_SNAPSHOTS, "read_waits"),
        AtMost(0.0),
        3,
    ),
];

/// Returns a table of the aims with a measured value, or an empty text.
pub(super) fn table(medians: &[Medians], stores: &StoreNumbers) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for Aim { what, value, bound, digits } in &AIMS {
        let Some(reached) = value.of(medians, stores) else { continue };
        let (aim, is_reached) = match *bound {
            AtMost(aim) => (format!("at most {aim}"), reached <= aim),
            AtLeast(aim) => (format!("at least {aim}"), reached >= aim),
        };
        let answer = if is_reached { "yes" } else { "no" };
        rows.push(vec![(*what).to_owned(), aim, format!("{reached:.digits$}"), answer.to_owned()]);
    }
    if rows.is_empty() {
        return String::new();
    }
    rows.insert(0, ["", "aim", "measured", "reached"].map(str::to_owned).to_vec());
    format!("{}\n\n{}\n", heading("Aims"), aligned(&rows))
}

impl Value {
    fn of(&self, medians: &[Medians], stores: &StoreNumbers) -> Option<f64> {
        let figure = |contender: &str, key: &str| {
            medians.iter().find(|of| of.contender == contender)?.figures.get(key).copied()
        };
        match self {
            Of(contender, key) => figure(contender, key),
            Ratio(contender, other, key) => Some(figure(contender, key)? / figure(other, key)?),
            Store(store, key) => stores.median(store, key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::Family;
    use crate::stores::{Load, StoresOutcome};

    fn table_of(figures: &[(&str, &str, f64)]) -> String {
        let of = |&(contender, key, value): &(&str, &str, f64)| Medians {
            contender: contender.into(),
            family: Family::KubeInformer,
            figures: [(key.to_owned(), value)].into(),
        };
        let stores = StoresOutcome { load: Load::default(), measured: Vec::new(), skipped: Vec::new() };
        table(&figures.iter().map(of).collect::<Vec<_>>(), &StoreNumbers::new(stores))
    }

    #[test]
    fn table_shows_reached_and_missed_aims_only_if_measured() {
        assert_eq!(table_of(&[]), "");
        let text = table_of(&[
            (TYPED, "sync_cpu_s", 1.0),
            (CLIENT_GO_PROTOBUF, "sync_cpu_s", 2.0),
            (LAZY, "object_rss_kb", 8.01),
        ]);
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("at most")).collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert!(rows[0].contains("at most 0.5 |    0.500 |     yes |"), "{text}");
        assert!(rows[1].contains("at most 8 |      8.0 |      no |"), "{text}");
    }

    #[test]
    fn each_aim_refers_to_a_known_figure() {
        for Aim { what, value, .. } in &AIMS {
            let is_known = match value {
                Of(_, key) | Ratio(_, _, key) => crate::figures::by_key(key).is_some(),
                Store(_, key) => super::super::stores::is_figure(key),
            };
            assert!(is_known, "{what}");
        }
    }
}
