//! The bars of the project for its performance, and the figures that reach them.
//!
//! A bar is a ratio of two figures of one run, because absolute figures depend on the machine.

use super::stores::StoreNumbers;
use super::table::{aligned, heading};
use crate::contenders::{
    CLIENT_GO_PROTOBUF, COMPRESSED, KUBE_RUNTIME_ONE_THREAD, LAZY, TYPED, TYPED_PER_CORE,
};
use crate::figures::Medians;
use crate::stores::{CLIENT_GO, KUBE_RUNTIME, OURS, OURS_SNAPSHOTS};

struct Aim {
    what: &'static str,
    value: Value,
    bar: Bound,
    /// A harder bound. `None` if the bar is the only aim.
    stretch: Option<f64>,
}

/// The source of a value. Each figure has a key.
enum Value {
    /// A figure of a contender that is a ratio, or an amount of memory.
    Of(&'static str, &'static str),
    /// The ratio of the figures of two contenders.
    Ratio(&'static str, &'static str, &'static str),
    /// The ratio of a figure of a store to a figure of another store.
    Stores((&'static str, &'static str), (&'static str, &'static str)),
    /// The ratio of the first figure of this project's store to the best second figure of the other stores.
    ToBetterStore(&'static str, &'static str),
    /// A figure of a store that is a count.
    OfStore(&'static str, &'static str),
}

#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

use Bound::{AtLeast, AtMost};
use Value::{Of, OfStore, Ratio, Stores, ToBetterStore};

const fn aim(what: &'static str, value: Value, bar: Bound, stretch: f64) -> Aim {
    Aim { what, value, bar, stretch: Some(stretch) }
}

const fn only_bar(what: &'static str, value: Value, bar: Bound) -> Aim {
    Aim { what, value, bar, stretch: None }
}

/// Compares a figure of the store of this project with the figure of another store.
const fn to_store(key: &'static str, other: &'static str) -> Value {
    Stores((OURS, key), (other, key))
}

const AIMS: [Aim; 23] = [
    aim("get / get of kube-runtime", to_store("get_ns", KUBE_RUNTIME), AtMost(1.0), 0.9),
    aim("get / get of client-go", to_store("get_ns", CLIENT_GO), AtMost(2.5), 2.0),
    aim("get and read / the same with client-go", to_store("look_ns", CLIENT_GO), AtMost(1.0), 0.8),
    aim(
        "get and read in another order than the writes / the same with client-go",
        to_store("scattered_look_ns", CLIENT_GO),
        AtMost(1.0),
        0.8,
    ),
    aim("visit of all objects / the same with client-go", to_store("visit_ns", CLIENT_GO), AtMost(0.5), 0.3),
    aim(
        "writes/s / writes/s of the better peer",
        ToBetterStore("writes_per_s", "writes_per_s"),
        AtLeast(1.2),
        1.5,
    ),
    aim(
        "CPU of a write among ten listing readers / CPU of a write of the better peer alone",
        ToBetterStore("read_write_cpu_us", "write_cpu_us"),
        AtMost(1.5),
        1.2,
    ),
    only_bar(
        "waits of the writer among ten listing readers, per 1,000 writes",
        OfStore(OURS, "read_waits"),
        AtMost(0.0),
    ),
    only_bar(
        "waits of the writer among ten readers of snapshots, per 1,000 writes",
        OfStore(OURS_SNAPSHOTS, "read_waits"),
        AtMost(0.0),
    ),
    aim(
        "typed: CPU per event / client-go with protobuf",
        Ratio(TYPED, CLIENT_GO_PROTOBUF, "event_cpu_us"),
        AtMost(0.36),
        0.30,
    ),
    aim(
        "lazy: CPU per event / client-go with protobuf",
        Ratio(LAZY, CLIENT_GO_PROTOBUF, "event_cpu_us"),
        AtMost(0.075),
        0.06,
    ),
    aim(
        "compressed: CPU per event / client-go with protobuf",
        Ratio(COMPRESSED, CLIENT_GO_PROTOBUF, "event_cpu_us"),
        AtMost(0.13),
        0.10,
    ),
    aim(
        "typed: CPU per event with a thread per core / with one thread",
        Ratio(TYPED_PER_CORE, TYPED, "event_cpu_us"),
        AtMost(1.4),
        1.2,
    ),
    aim(
        "typed: CPU of a relist without changes / CPU until sync",
        Of(TYPED, "relist_cpu_ratio"),
        AtMost(0.13),
        0.10,
    ),
    aim(
        "lazy: CPU of a relist without changes / CPU until sync",
        Of(LAZY, "relist_cpu_ratio"),
        AtMost(0.45),
        0.35,
    ),
    aim(
        "typed: p99 latency from the socket to the handler, us",
        Of(TYPED, "latency_p99_us"),
        AtMost(600.0),
        400.0,
    ),
    only_bar(
        "typed: CPU until sync / client-go with protobuf",
        Ratio(TYPED, CLIENT_GO_PROTOBUF, "sync_cpu_s"),
        AtMost(0.5),
    ),
    only_bar(
        "typed: CPU until sync / kube-runtime with one thread",
        Ratio(TYPED, KUBE_RUNTIME_ONE_THREAD, "sync_cpu_s"),
        AtMost(0.25),
    ),
    only_bar("typed: RSS after the events, KB/object", Of(TYPED, "object_rss_kb"), AtMost(40.0)),
    only_bar("lazy: RSS after the events, KB/object", Of(LAZY, "object_rss_kb"), AtMost(8.0)),
    only_bar("compressed: RSS after the events, KB/object", Of(COMPRESSED, "object_rss_kb"), AtMost(2.5)),
    only_bar(
        "typed: peak RSS of a relist with 5 % changed objects / RSS before the relist",
        Of(TYPED, "changed_peak_ratio"),
        AtMost(1.15),
    ),
    only_bar(
        "lazy: peak RSS of a relist with 5 % changed objects / RSS before the relist",
        Of(LAZY, "changed_peak_ratio"),
        AtMost(1.15),
    ),
];

/// Returns a table of the aims with a measured value, or an empty text.
pub(super) fn table(medians: &[Medians], stores: &StoreNumbers) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for Aim { what, value, bar, stretch } in &AIMS {
        let Some(measured) = value.of(medians, stores).filter(|value| value.is_finite()) else { continue };
        let (word, aim) = match bar {
            AtMost(aim) => ("at most", aim),
            AtLeast(aim) => ("at least", aim),
        };
        let digits = if measured < 100.0 { 3 } else { 0 };
        let hard = stretch.map_or_else(String::new, |stretch| stretch.to_string());
        let reached = bar.reached(measured, *stretch);
        rows.push(vec![
            (*what).to_owned(),
            format!("{word} {aim}"),
            hard,
            format!("{measured:.digits$}"),
            reached.to_owned(),
        ]);
    }
    if rows.is_empty() {
        return String::new();
    }
    rows.insert(0, ["", "bar", "stretch", "measured", "reached"].map(str::to_owned).to_vec());
    format!("{}\n\n{}\n", heading("Aims"), aligned(&rows))
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            AtMost(bound) => value <= bound,
            AtLeast(bound) => value >= bound,
        }
    }

    fn reached(self, value: f64, stretch: Option<f64>) -> &'static str {
        let harder = stretch.map(|stretch| match self {
            AtMost(_) => AtMost(stretch),
            AtLeast(_) => AtLeast(stretch),
        });
        match (self.holds(value), harder.is_some_and(|harder| harder.holds(value))) {
            (true, true) => "stretch",
            (true, false) => "bar",
            (false, _) => "no",
        }
    }
}

impl Value {
    fn of(&self, medians: &[Medians], stores: &StoreNumbers) -> Option<f64> {
        let figure = |contender: &str, key: &str| {
            medians.iter().find(|of| of.contender == contender)?.figures.get(key).copied()
        };
        match self {
            Of(contender, key) => figure(contender, key),
            Ratio(contender, other, key) => Some(figure(contender, key)? / figure(other, key)?),
            Stores((store, key), (other, other_key)) => {
                Some(stores.median(store, key)? / stores.median(other, other_key)?)
            }
            ToBetterStore(key, other_key) => {
                let [one, other] = [KUBE_RUNTIME, CLIENT_GO].map(|peer| stores.median(peer, other_key));
                let better = if is_rate(other_key) { one?.max(other?) } else { one?.min(other?) };
                Some(stores.median(OURS, key)? / better)
            }
            OfStore(store, key) => stores.median(store, key),
        }
    }
}

/// Returns whether a greater value of this figure is better.
fn is_rate(key: &str) -> bool {
    key.ends_with("_per_s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::Family;
    use crate::stores::{Load, StoresOutcome};

    fn table_of(figures: &[(&str, &str, f64)]) -> String {
        let of = |contender: &str| Medians {
            contender: contender.into(),
            family: Family::KubeInformer,
            figures: (figures.iter().filter(|(of, ..)| *of == contender))
                .map(|(_, key, value)| ((*key).to_owned(), *value))
                .collect(),
        };
        let stores = StoresOutcome { load: Load::default(), measured: Vec::new(), skipped: Vec::new() };
        table(&[TYPED, LAZY, CLIENT_GO_PROTOBUF].map(of), &StoreNumbers::new(stores))
    }

    #[test]
    fn table_shows_reached_and_missed_aims_only_if_measured() {
        assert_eq!(table_of(&[]), "");
        let text = table_of(&[
            (TYPED, "sync_cpu_s", 1.0),
            (CLIENT_GO_PROTOBUF, "sync_cpu_s", 2.0),
            (LAZY, "object_rss_kb", 8.01),
            (TYPED, "relist_cpu_ratio", 0.1),
        ]);
        let rows: Vec<Vec<&str>> = (text.lines().filter(|line| line.contains("at most")))
            .map(|line| line.split('|').map(str::trim).skip(2).take(4).collect())
            .collect();
        assert_eq!(
            rows,
            [
                ["at most 0.13", "0.1", "0.100", "stretch"],
                ["at most 0.5", "", "0.500", "bar"],
                ["at most 8", "", "8.010", "no"]
            ],
            "{text}"
        );
    }

    #[test]
    fn rates_compare_with_the_greater_figure() {
        assert!(is_rate("writes_per_s") && !is_rate("write_cpu_us"));
        assert_eq!(AtLeast(1.2).reached(1.3, Some(1.5)), "bar");
        assert_eq!(AtLeast(1.2).reached(1.1, Some(1.5)), "no");
    }

    #[test]
    fn each_aim_refers_to_a_known_figure() {
        let of_store = super::super::stores::is_figure;
        for Aim { what, value, .. } in &AIMS {
            let is_known = match value {
                Of(_, key) | Ratio(_, _, key) => crate::figures::by_key(key).is_some(),
                OfStore(_, key) => of_store(key),
                Stores((_, key), (_, other)) | ToBetterStore(key, other) => of_store(key) && of_store(other),
            };
            assert!(is_known, "{what}");
        }
    }
}
