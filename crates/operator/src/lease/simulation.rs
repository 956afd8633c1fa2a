//! Several candidates, clocks that run at different rates, pauses, requests that are lost on either way, a watch that lags:
//! no two count on the lease at once, and once all is well again somebody does.

use std::{collections::VecDeque, time::Duration};

use fastrand::Rng;
use tokio::time::Instant;

use super::{Candidate, LeaseTimes, Next, Record, Write};

const TICK: Duration = Duration::from_millis(100);
/// A request that was not answered by then has failed, for the candidate's own clock.
const TIMEOUT: Duration = Duration::from_secs(3);
/// For so long there are troubles, and then for so long there are none.
const TROUBLES: Duration = Duration::from_secs(240);
const PEACE: Duration = Duration::from_secs(60);

/// What a request asks, and what becomes of it.
struct Request {
    write: Option<Write>,
    /// By the candidate's own clock.
    sent: Instant,
    /// When the server has it, if it is not lost.
    arrives: Option<Duration>,
    /// When the answer is back, if that is not lost.
    answered: Option<Duration>,
    /// What the server has answered: none if it has refused.
    answer: Option<Option<Option<Record>>>,
}

struct Member {
    election: Candidate,
    rate: f64,
    paused_until: Duration,
    /// Nothing of it comes to the server until then, and nothing comes back.
    cut_off_until: Duration,
    request: Option<Request>,
}

struct World {
    rng: Rng,
    start: Instant,
    now: Duration,
    record: Option<Record>,
    /// The records there have been lately: what a watch may still tell.
    past: VecDeque<Record>,
    versions: u64,
    candidates: Vec<Member>,
    changes: usize,
    led_last: Option<usize>,
}

impl World {
    /// Clocks run up to `fastest` times as fast as the slowest.
    fn new(seed: u64, fastest: f64) -> Self {
        let (mut rng, start) = (Rng::with_seed(seed), Instant::now());
        let count = rng.usize(2..=4);
        let candidates = (0..count).map(|number| {
            // Both ends are met often: that is where it would go wrong.
            let rate = match rng.u8(..3) {
                0 => 1.0,
                1 => fastest,
                _ => 1.0 + (fastest - 1.0) * rng.f64(),
            };
            let election = Candidate::new(format!("candidate-{number}"), LeaseTimes::default(), start);
            Member {
                election,
                rate,
                paused_until: Duration::ZERO,
                cut_off_until: Duration::ZERO,
                request: None,
            }
        });
        let candidates = candidates.collect();
        Self {
            rng,
            start,
            now: Duration::ZERO,
            record: None,
            past: VecDeque::new(),
            versions: 0,
            candidates,
            changes: 0,
            led_last: None,
        }
    }

    /// The time as a candidate's own clock shows it.
    fn local(&self, candidate: usize) -> Instant {
        self.start + self.now.mul_f64(self.candidates[candidate].rate)
    }

    fn leaders(&self) -> Vec<usize> {
        let leads =
            |number: &usize| self.candidates[*number].election.leads_until(self.local(*number)).is_some();
        (0..self.candidates.len()).filter(leads).collect()
    }

    /// Runs for so long; gives up at the first moment at which two count on the lease.
    fn run(&mut self, for_so_long: Duration, troubles: bool) -> Result<(), String> {
        let end = self.now + for_so_long;
        while self.now < end {
            self.now += TICK;
            for number in 0..self.candidates.len() {
                self.turn(number, troubles);
                let leaders = self.leaders();
                if leaders.len() > 1 {
                    return Err(format!("{leaders:?} lead at {:?}", self.now));
                }
                if let [leader] = leaders[..]
                    && self.led_last.replace(leader) != Some(leader)
                {
                    self.changes += 1;
                }
            }
        }
        Ok(())
    }

    fn turn(&mut self, number: usize, troubles: bool) {
        self.serve(number);
        if troubles && self.rng.u16(..1000) == 0 {
            let until = self.now + Duration::from_secs(self.rng.u64(1..40));
            match self.rng.bool() {
                true => self.candidates[number].paused_until = until,
                false => self.candidates[number].cut_off_until = until,
            }
        }
        if troubles && self.now < self.candidates[number].paused_until {
            return;
        }
        let local = self.local(number);
        let is_cut_off = troubles && self.now < self.candidates[number].cut_off_until;
        if !is_cut_off && self.rng.u8(..10) == 0 {
            self.watch(number, local);
        }
        let candidate = &mut self.candidates[number];
        let Some(request) = &mut candidate.request else { return self.begin(number, local, troubles) };
        let timed_out = local.duration_since(request.sent) >= TIMEOUT;
        match request.answer.take_if(|_| request.answered.is_some_and(|at| at <= self.now)) {
            Some(Some(record)) if request.write.is_none() => candidate.election.read(record, local),
            Some(Some(Some(record))) => candidate.election.wrote(record, request.sent, local),
            Some(_) => candidate.election.failed(request.sent, local),
            None if timed_out => candidate.election.failed(request.sent, local),
            None => return,
        }
        candidate.request = None;
    }

    fn begin(&mut self, number: usize, local: Instant, troubles: bool) {
        let write = match self.candidates[number].election.next(local) {
            Next::Wait(_) => return,
            Next::Read => None,
            Next::Write(write) => Some(write),
        };
        let is_cut_off = troubles && self.now < self.candidates[number].cut_off_until;
        let on_its_way = |rng: &mut Rng| {
            let (lost, slow) = (troubles && rng.u8(..10) == 0, troubles && rng.u8(..10) == 0);
            (!lost && !is_cut_off)
                .then(|| Duration::from_millis(rng.u64(if slow { 1..8000 } else { 1..100 })))
        };
        let arrives = on_its_way(&mut self.rng).map(|way| self.now + way);
        let answered = on_its_way(&mut self.rng).and_then(|way| Some(arrives? + way));
        self.candidates[number].request =
            Some(Request { write, sent: local, arrives, answered, answer: None });
    }

    /// The server takes a request that has come to it, also one for whose answer nobody waits any more.
    fn serve(&mut self, number: usize) {
        let Some(request) = &mut self.candidates[number].request else { return };
        if request.answer.is_some() || request.arrives.is_none_or(|at| at > self.now) {
            return;
        }
        request.arrives = None;
        let Some(write) = &request.write else {
            request.answer = Some(Some(self.record.clone()));
            return;
        };
        if write.over != self.record.as_ref().map(|record| record.version.clone()) {
            request.answer = Some(None);
            return;
        }
        self.versions += 1;
        let record = Record {
            version: self.versions.into(),
            holder: write.holder.clone(),
            duration: write.duration,
            transitions: write.transitions,
        };
        request.answer = Some(Some(Some(record.clone())));
        self.past.extend(self.record.replace(record));
        if self.past.len() > 5 {
            self.past.pop_front();
        }
    }

    /// An event of the watch, perhaps one from before.
    fn watch(&mut self, number: usize, local: Instant) {
        let old = self.rng.usize(0..=self.past.len());
        let record = self.past.get(old).or(self.record.as_ref()).cloned();
        if let Some(record) = record {
            self.candidates[number].election.watched(Some(record), local);
        }
    }
}

fn fastest_allowed() -> f64 {
    let LeaseTimes { duration, renew_deadline, .. } = LeaseTimes::default();
    duration.as_secs_f64() / renew_deadline.as_secs_f64()
}

#[test]
fn no_two_lead_at_once_and_after_all_troubles_somebody_does() {
    let mut changes = 0;
    for seed in 0..400 {
        let mut world = World::new(seed, fastest_allowed());
        world.run(TROUBLES, true).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        world.run(PEACE, false).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert_eq!(world.leaders().len(), 1, "seed {seed}: nobody leads");
        changes += world.changes;
    }
    assert!(changes > 1000, "the lease went from one to another only {changes} times");
}

/// What the judge is for: clocks that differ by more than is allowed.
#[test]
fn two_lead_at_once_where_clocks_differ_by_more_than_is_allowed() {
    let both_lead = |seed: &u64| World::new(*seed, fastest_allowed() * 1.3).run(TROUBLES, true).is_err();
    assert!((0..400).any(|seed| both_lead(&seed)));
}
