//! The whole of it against a naive model: any order of events, writes that go well or wrong in each way, events that a
//! server forgets, and a clock.

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

/// Small ones, so that they are met often.
const LIMITS: RecorderLimits = RecorderLimits { queue: 3, series: 4, rate_limited_objects: 100, burst: 4 };
const KEYS: u8 = 8;
const OBJECTS: u8 = 2;

#[derive(Clone, Copy, Debug)]
enum Server {
    Works,
    /// It does what it is asked for, and its answer does not come.
    LosesTheAnswer,
    Fails,
    Refuses,
}

#[derive(Clone, Debug)]
enum Op {
    See(u8),
    Write(Server),
    /// The server forgets all events.
    Forget,
    /// Seconds.
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let server = prop_oneof![
        6 => Just(Server::Works),
        1 => Just(Server::LosesTheAnswer),
        1 => Just(Server::Fails),
        1 => Just(Server::Refuses),
    ];
    prop_oneof![
        10 => (0..KEYS).prop_map(Op::See),
        10 => server.prop_map(Op::Write),
        1 => Just(Op::Forget),
        4 => prop_oneof![0..90_u64, 100..2000_u64].prop_map(Op::Wait),
    ]
}

impl Series {
    /// The relations that the fields' comments state, and the bound of all that is held.
    fn check(&self) {
        assert!(self.entries.len() <= LIMITS.queue + LIMITS.series + 1);
        let held = |wanted: fn(&super::SeriesEntry) -> bool| {
            let mut ids: Vec<u64> =
                self.entries.iter().filter(|(_, entry)| wanted(entry)).map(|(id, _)| *id).collect();
            ids.sort_unstable();
            ids
        };
        let sorted = |ids: &mut dyn Iterator<Item = u64>| {
            let mut ids: Vec<u64> = ids.collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(sorted(&mut self.queue.iter().copied()), held(|entry| entry.stage == WriteStage::Queued));
        assert_eq!(sorted(&mut self.by_key.values().copied()), held(|entry| !entry.is_finished));
        assert_eq!(sorted(&mut self.by_age.iter().map(|(_, id)| *id)), held(|entry| !entry.is_finished));
        for entry in self.entries.values() {
            assert!(entry.stage != WriteStage::Idle || (entry.written > 0 && !entry.is_due()), "{entry:?}");
            assert!(entry.written <= entry.count && entry.sent <= entry.count, "{entry:?}");
        }
        let unsent: u64 = self.entries.values().map(super::SeriesEntry::unsent).sum();
        assert_eq!(unsent, self.status().waiting);
    }
}

/// Lists that are searched from end to end, and what a server has.
struct Model {
    now: Instant,
    /// Which event, of which key, and when it was last seen.
    remembered: Vec<(u64, u8, Instant)>,
    begun: u64,
    /// When each object has got tokens, in the order of asking.
    taken: BTreeMap<u8, Vec<Instant>>,
    dropped: DroppedEvents,
    on_server: BTreeMap<String, i32>,
    /// The highest count that each event ever had there.
    ever: BTreeMap<String, i32>,
}

impl Model {
    fn new(now: Instant) -> Self {
        Self {
            now,
            remembered: Vec::new(),
            begun: 0,
            taken: BTreeMap::new(),
            dropped: DroppedEvents::default(),
            on_server: BTreeMap::new(),
            ever: BTreeMap::new(),
        }
    }

    fn see(&mut self, key: u8, is_queue_full: bool) {
        if let Some(seen) = self.remembered.iter_mut().find(|(_, other, _)| *other == key) {
            seen.2 = self.now;
        } else if is_queue_full {
            self.dropped.queue_full += 1;
        } else if !self.has_token(key % OBJECTS) {
            self.dropped.rate_limited += 1;
        } else {
            if self.remembered.len() >= LIMITS.series {
                // Of those that were seen at the same moment, the one that began first.
                self.remembered.sort_by_key(|(id, _, observed)| (*observed, *id));
                self.remembered.remove(0);
            }
            self.remembered.push((self.begun, key, self.now));
            self.begun += 1;
        }
    }

    /// Goes through all that was ever taken: a token comes back each [`REFILL_INTERVAL`], unless all are there.
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
        self.remembered.retain(|(_, _, observed)| now < *observed + SERIES_TIMEOUT);
    }

    fn answer(&mut self, write: &EventWrite, server: Server) -> WriteOutcome {
        assert!(write.creates || write.count >= 2, "the server takes no series of one");
        match server {
            Server::Works => self.done(write),
            Server::LosesTheAnswer => {
                self.done(write);
                WriteOutcome::Unknown(None)
            }
            Server::Fails => WriteOutcome::Failed(Some(Duration::from_secs(5))),
            Server::Refuses => WriteOutcome::Refused,
        }
    }

    fn done(&mut self, write: &EventWrite) -> WriteOutcome {
        let name = &write.record.name;
        match (self.on_server.get(name), write.creates) {
            (Some(_), true) => return WriteOutcome::Exists,
            (None, false) => return WriteOutcome::Gone,
            (Some(count), false) => assert!(*count <= write.count, "a series never goes back"),
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
        Op::See(seen) => {
            model.see(seen, series.queue.len() >= LIMITS.queue);
            let key = key(&(seen % OBJECTS).to_string(), &seen.to_string());
            series.observe(key, String::new(), Timestamp::UNIX_EPOCH, model.now);
        }
        Op::Write(server) => {
            model.finish();
            if let NextStep::Write(write) = series.next(model.now) {
                series.check();
                let outcome = model.answer(&write, server);
                if series.settle(&write, outcome, model.now) {
                    model.remembered.retain(|(id, ..)| *id != write.id);
                }
            }
        }
        Op::Forget => model.on_server.clear(),
        Op::Wait(seconds) => model.now += Duration::from_secs(seconds),
    }
    series.check();
    let status = series.status();
    assert_eq!((status.tracked_series, status.dropped), (model.remembered.len(), model.dropped));
}

/// All that is left, on a server that works.
fn drain(series: &mut Series, model: &mut Model) {
    series.stop();
    for _ in 0..100 {
        match series.next(model.now) {
            NextStep::Write(write) => {
                let outcome = model.answer(&write, Server::Works);
                series.settle(&write, outcome, model.now);
            }
            NextStep::Wait(until) => model.now = until.unwrap(),
            NextStep::End => return,
        }
        series.check();
    }
    panic!("no end: {series:?}");
}

fn config() -> Config {
    Config { cases: 300, rng_seed: RngSeed::Fixed(19), failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    /// What is remembered, what is dropped and why, is what the model says, and no event is lost without being counted.
    #[test]
    fn each_event_is_on_the_server_or_counted_as_lost(ops in prop::collection::vec(op(), 0..200)) {
        let start = Instant::now();
        let (mut series, mut model) = (Series::new(LIMITS, 7), Model::new(start));
        let mut seen = 0;
        for op in &ops {
            seen += u64::from(matches!(op, Op::See(_)));
            apply(&mut series, &mut model, op);
        }
        drain(&mut series, &mut model);
        let status = series.status();
        assert_eq!((status.waiting, status.tracked_series, series.entries.len()), (0, 0, 0));
        assert_eq!(status.sent + status.failed + status.dropped.total(), seen);
        let on_server: u64 = model.ever.values().map(|count| u64::from(count.unsigned_abs())).sum();
        assert!((status.sent..=status.sent + status.failed).contains(&on_server), "{status:?}, {on_server} there");
    }
}
