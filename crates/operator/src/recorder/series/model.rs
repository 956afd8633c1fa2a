//! Compares `Series` with a naive model, with random events, successful and failing writes, deleted
//! events, and time.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed},
};
use tokio::time::Instant;

use super::{
    EventWrite, NextStep, RecorderLimits, SERIES_TIMEOUT, Series, WriteOutcome, WriteStage, tests::key,
};
use crate::recorder::{rate_limit::REFILL_INTERVAL, status::DroppedEvents};

/// Small limits, which random tests reach often.
const LIMITS: RecorderLimits = RecorderLimits { queue: 3, series: 4, rate_limited_objects: 100, burst: 4 };
const KEYS: u8 = 8;
const OBJECTS: u8 = 2;

#[derive(Clone, Copy, Debug)]
enum Server {
    Succeeds,
    /// The write succeeds, and the response is lost.
    LosesResponse,
    Fails,
    Rejects,
}

#[derive(Clone, Debug)]
enum Op {
    Observe(u8),
    Write(Server),
    /// The server deletes all events.
    DeleteEvents,
    /// Seconds.
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let server = prop_oneof![
        6 => Just(Server::Succeeds),
        1 => Just(Server::LosesResponse),
        1 => Just(Server::Fails),
        1 => Just(Server::Rejects),
    ];
    prop_oneof![
        10 => (0..KEYS).prop_map(Op::Observe),
        10 => server.prop_map(Op::Write),
        1 => Just(Op::DeleteEvents),
        4 => prop_oneof![0..90_u64, 100..2000_u64].prop_map(Op::Wait),
    ]
}

impl Series {
    /// Checks the invariants of the fields, and the bound of the number of entries.
    fn check(&self) {
        assert!(self.entries.len() <= LIMITS.queue + LIMITS.series + 1);
        let ids_where = |is_selected: fn(&super::SeriesEntry) -> bool| {
            let mut ids: Vec<u64> =
                self.entries.iter().filter(|(_, entry)| is_selected(entry)).map(|(id, _)| *id).collect();
            ids.sort_unstable();
            ids
        };
        let sorted = |ids: &mut dyn Iterator<Item = u64>| {
            let mut ids: Vec<u64> = ids.collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(
            sorted(&mut self.queue.iter().copied()),
            ids_where(|entry| entry.stage == WriteStage::Queued)
        );
        assert_eq!(sorted(&mut self.by_key.values().copied()), ids_where(|entry| !entry.is_finished));
        assert_eq!(sorted(&mut self.by_age.iter().map(|(_, id)| *id)), ids_where(|entry| !entry.is_finished));
        for entry in self.entries.values() {
            assert!(entry.stage != WriteStage::Idle || (entry.written > 0 && !entry.is_due()), "{entry:?}");
            assert!(entry.written <= entry.count && entry.sent <= entry.count, "{entry:?}");
        }
        let unsent: u64 = self.entries.values().map(super::SeriesEntry::unsent).sum();
        assert_eq!(unsent, self.status().waiting);
    }
}

/// The naive model: linear lists, and the state of the server.
struct Model {
    now: Instant,
    /// The event, its key, and the time of the last observation.
    tracked: Vec<(u64, u8, Instant)>,
    begun: u64,
    /// The times when each object took a token, in order.
    taken: BTreeMap<u8, Vec<Instant>>,
    dropped: DroppedEvents,
    on_server: BTreeMap<String, i32>,
    /// The highest count of each event on the server.
    ever: BTreeMap<String, i32>,
}

impl Model {
    fn new(now: Instant) -> Self {
        Self {
            now,
            tracked: Vec::new(),
            begun: 0,
            taken: BTreeMap::new(),
            dropped: DroppedEvents::default(),
            on_server: BTreeMap::new(),
            ever: BTreeMap::new(),
        }
    }

    fn observe(&mut self, key: u8, is_queue_full: bool) {
        if let Some(seen) = self.tracked.iter_mut().find(|(_, other, _)| *other == key) {
            seen.2 = self.now;
        } else if is_queue_full {
            self.dropped.queue_full += 1;
        } else if !self.has_token(key % OBJECTS) {
            self.dropped.rate_limited += 1;
        } else {
            if self.tracked.len() >= LIMITS.series {
                // Events with the same observation time are ordered by their start.
                self.tracked.sort_by_key(|(id, _, observed)| (*observed, *id));
                self.tracked.remove(0);
            }
            self.tracked.push((self.begun, key, self.now));
            self.begun += 1;
        }
    }

    /// Replays all taken tokens. One token is refilled per [`REFILL_INTERVAL`], up to the burst.
    fn has_token(&mut self, object: u8) -> bool {
        let taken = self.taken.entry(object).or_default();
        let full = REFILL_INTERVAL * LIMITS.burst;
        let (mut filled, mut last) = (full, self.now);
        for at in taken.iter().chain([&self.now]) {
            filled = full.min(filled + at.saturating_duration_since(last));
            last = *at;
            if *at == self.now && filled < REFILL_INTERVAL {
                return false;
            }
            filled = filled.saturating_sub(REFILL_INTERVAL);
        }
        taken.push(self.now);
        true
    }

    fn finish(&mut self) {
        let now = self.now;
        self.tracked.retain(|(_, _, observed)| now < *observed + SERIES_TIMEOUT);
    }

    fn respond(&mut self, write: &EventWrite, server: Server) -> WriteOutcome {
        assert!(write.creates || write.count >= 2, "the server rejects a series with count 1");
        match server {
            Server::Succeeds => self.store(write),
            Server::LosesResponse => {
                self.store(write);
                WriteOutcome::Unknown(None)
            }
            Server::Fails => WriteOutcome::Failed(Some(Duration::from_secs(5))),
            Server::Rejects => WriteOutcome::Refused,
        }
    }

    fn store(&mut self, write: &EventWrite) -> WriteOutcome {
        let name = &write.record.name;
        match (self.on_server.get(name), write.creates) {
            (Some(_), true) => return WriteOutcome::Exists,
            (None, false) => return WriteOutcome::Gone,
            (Some(count), false) => assert!(*count <= write.count, "the count of a series does not decrease"),
            (None, true) => {}
        }
        self.on_server.insert(name.clone(), write.count);
        let ever = self.ever.entry(name.clone()).or_default();
        *ever = write.count.max(*ever);
        WriteOutcome::Written
    }
}

fn apply(series: &mut Series, model: &mut Model, op: &Op) {
    match *op {
        Op::Observe(seen) => {
            model.observe(seen, series.queue.len() >= LIMITS.queue);
            let key = key(&(seen % OBJECTS).to_string(), &seen.to_string());
            series.observe(key, String::new(), Timestamp::UNIX_EPOCH, model.now);
        }
        Op::Write(server) => {
            model.finish();
            if let NextStep::Write(write) = series.next(model.now) {
                series.check();
                let outcome = model.respond(&write, server);
                if series.settle(&write, outcome, model.now) {
                    model.tracked.retain(|(id, ..)| *id != write.id);
                }
            }
        }
        Op::DeleteEvents => model.on_server.clear(),
        Op::Wait(seconds) => model.now += Duration::from_secs(seconds),
    }
    series.check();
    let status = series.status();
    assert_eq!((status.tracked_series, status.dropped), (model.tracked.len(), model.dropped));
}

/// Writes all remaining events to a working server.
fn drain(series: &mut Series, model: &mut Model) {
    series.stop();
    for _ in 0..100 {
        match series.next(model.now) {
            NextStep::Write(write) => {
                let outcome = model.respond(&write, Server::Succeeds);
                series.settle(&write, outcome, model.now);
            }
            NextStep::Wait(until) => model.now = until.unwrap(),
            NextStep::End => return,
        }
        series.check();
    }
    panic!("not drained: {:?}", series.entries);
}

fn config() -> Config {
    Config { cases: 300, rng_seed: RngSeed::Fixed(19), failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    /// The tracked and the dropped events match the model, and each lost event is counted.
    #[test]
    fn each_event_is_on_the_server_or_counted_as_lost(ops in prop::collection::vec(op(), 0..200)) {
        let start = Instant::now();
        let (mut series, mut model) = (Series::new(LIMITS, 7), Model::new(start));
        let mut seen = 0;
        for op in &ops {
            seen += u64::from(matches!(op, Op::Observe(_)));
            apply(&mut series, &mut model, op);
        }
        drain(&mut series, &mut model);
        let status = series.status();
        assert_eq!((status.waiting, status.tracked_series, series.entries.len()), (0, 0, 0));
        assert_eq!(status.sent + status.failed + status.dropped.total(), seen);
        let on_server: u64 = model.ever.values().map(|count| u64::from(count.unsigned_abs())).sum();
        assert!((status.sent..=status.sent + status.failed).contains(&on_server), "{status:?}, {on_server} on the server");
    }
}
