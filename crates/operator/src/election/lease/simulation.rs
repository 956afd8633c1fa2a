//! Several candidates, clocks that run at different rates, pauses, requests that are lost on either way or come when nobody
//! waits for them any more, a watch that lags, people who delete the Lease or change its labels, a leader that dies: no two count on it at once,
//! and once all is well again somebody does.

use std::{collections::VecDeque, time::Duration};

use fastrand::Rng;
use tokio::time::Instant;

use super::{Candidate, LeaseTimes, Next, RELEASED, Record, Write};

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
    is_dead: bool,
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
    /// Writes for whose answer nobody waits any more, and when they come.
    late: Vec<(Duration, Write)>,
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
        // All have seen it: who has not can't know of one that is deleted.
        let record = Record {
            uid: String::new(),
            version: 1.into(),
            holder: String::new(),
            duration: RELEASED,
            transitions: 0,
            renewed: String::new(),
        };
        let count = rng.usize(2..=4);
        let candidates = (0..count).map(|number| {
            // Both ends are met often: that is where it would go wrong.
            let rate = match rng.u8(..3) {
                0 => 1.0,
                1 => fastest,
                _ => 1.0 + (fastest - 1.0) * rng.f64(),
            };
            let mut election = Candidate::new(format!("candidate-{number}"), LeaseTimes::default(), start);
            election.read(Some(record.clone()), start);
            Member {
                election,
                rate,
                is_dead: false,
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
            record: Some(record),
            late: Vec::new(),
            past: VecDeque::new(),
            versions: 1,
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
            self.people(troubles);
            self.serve_late();
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

    /// Whoever leads, or would lead next, is no more.
    fn lose_a_leader(&mut self) {
        let holder = self.record.as_ref().map_or("", |record| &*record.holder);
        let number = holder.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        self.candidates[number].is_dead = true;
    }

    fn turn(&mut self, number: usize, troubles: bool) {
        self.serve(number);
        if self.candidates[number].is_dead {
            return;
        }
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
        if let Some(Request { write: Some(write), arrives: Some(at), .. }) = candidate.request.take() {
            self.late.push((at, write));
        }
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
        let answer = match request.write.clone() {
            None => Some(self.record.clone()),
            Some(write) => self.write(&write).map(Some),
        };
        if let Some(request) = &mut self.candidates[number].request {
            request.answer = Some(answer);
        }
    }

    fn serve_late(&mut self) {
        let now = self.now;
        let (come, late) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= now);
        self.late = late;
        let come: Vec<(Duration, Write)> = come;
        for (_, write) in come {
            self.write(&write);
        }
    }

    /// The record that the write has made, if it was not refused.
    fn write(&mut self, write: &Write) -> Option<Record> {
        if write.over != self.record.as_ref().map(|record| record.version.clone()) {
            return None;
        }
        self.versions += 1;
        let uid = self.record.as_ref().map_or_else(|| self.versions.to_string(), |record| record.uid.clone());
        let record = Record {
            uid,
            version: self.versions.into(),
            holder: write.holder.clone(),
            duration: write.duration,
            transitions: write.transitions,
            renewed: self.versions.to_string(),
        };
        self.set(Some(record.clone()));
        Some(record)
    }

    fn set(&mut self, record: Option<Record>) {
        self.past.extend(std::mem::replace(&mut self.record, record));
        if self.past.len() > 5 {
            self.past.pop_front();
        }
    }

    /// Somebody deletes the Lease, sometimes again soon, or changes its labels, which is no trouble.
    fn people(&mut self, troubles: bool) {
        if troubles && self.rng.u16(..300) == 0 {
            self.set(None);
        }
        if self.rng.u8(..50) == 0
            && let Some(record) = self.record.clone()
        {
            self.versions += 1;
            self.set(Some(Record { version: self.versions.into(), ..record }));
        }
    }

    /// An event of the watch, perhaps one from before.
    fn watch(&mut self, number: usize, local: Instant) {
        let old = self.rng.usize(0..=self.past.len());
        let record = self.past.get(old).or(self.record.as_ref()).cloned();
        self.candidates[number].election.watched(record, local);
    }
}

fn fastest_allowed() -> f64 {
    let LeaseTimes { lease_duration, renew_deadline, .. } = LeaseTimes::default();
    lease_duration.as_secs_f64() / renew_deadline.as_secs_f64()
}

#[test]
fn no_two_lead_at_once_and_after_all_troubles_somebody_does() {
    let mut changes = 0;
    for seed in 0..400 {
        let mut world = World::new(seed, fastest_allowed());
        world.run(TROUBLES, true).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        world.lose_a_leader();
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
