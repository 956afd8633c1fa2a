//! Simulation of an candidate with several candidates. Clocks run at different speeds, processes pause,
//! requests are lost or arrive after their timeout, and the watch lags. Users delete the Lease or
//! change its labels, and a leader crashes. Two candidates must never be leaders at the same time.
//! After the faults, one candidate must be the leader.

use std::{collections::VecDeque, time::Duration};

use fastrand::Rng;
use tokio::time::Instant;

use super::{Candidate, LeaseRecord, LeaseTimes, LeaseWrite, NextStep, RELEASED_LEASE_DURATION};

const TICK: Duration = Duration::from_millis(100);
/// Timeout of a request, by the clock of its sender.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Duration of the phase with faults, and of the phase without faults that follows.
const FAULT_TIME: Duration = Duration::from_secs(240);
const RECOVERY_TIME: Duration = Duration::from_secs(60);

/// A request of a candidate. `write` is `None` for a read.
struct Request {
    write: Option<LeaseWrite>,
    /// By the clock of the sender.
    sent: Instant,
    /// When the request reaches the server; `None` if it is lost.
    arrives: Option<Duration>,
    /// When the answer reaches the sender; `None` if it is lost.
    answered: Option<Duration>,
    /// The response of the server. The inner `None` means that the server rejected the write.
    answer: Option<Option<Option<LeaseRecord>>>,
}

struct Process {
    candidate: Candidate,
    rate: f64,
    is_dead: bool,
    paused_until: Duration,
    /// All messages from and to this process are lost until this time.
    disconnected_until: Duration,
    request: Option<Request>,
}

struct World {
    rng: Rng,
    start: Instant,
    now: Duration,
    record: Option<LeaseRecord>,
    /// Writes that arrive after their sender stopped waiting, with their arrival times.
    late: Vec<(Duration, LeaseWrite)>,
    /// Recent records, which a lagging watch may still deliver.
    history: VecDeque<LeaseRecord>,
    versions: u64,
    processes: Vec<Process>,
    changes: usize,
    last_leader: Option<usize>,
}

impl World {
    /// Clocks run up to `fastest` times as fast as the slowest.
    fn new(seed: u64, fastest: f64) -> Self {
        let (mut rng, start) = (Rng::with_seed(seed), Instant::now());
        // All candidates observed this Lease. A candidate that starts after a deletion is not safe.
        let record = LeaseRecord {
            uid: String::new(),
            version: 1.into(),
            holder: String::new(),
            duration: RELEASED_LEASE_DURATION,
            transitions: 0,
            renewed: String::new(),
        };
        let count = rng.usize(2..=4);
        let processes = (0..count).map(|number| {
            // The slowest and the fastest clock are common, because they cause most errors.
            let rate = match rng.u8(..3) {
                0 => 1.0,
                1 => fastest,
                _ => 1.0 + (fastest - 1.0) * rng.f64(),
            };
            let mut candidate = Candidate::new(format!("candidate-{number}"), LeaseTimes::default(), start);
            candidate.on_read(Some(record.clone()), start);
            Process {
                candidate,
                rate,
                is_dead: false,
                paused_until: Duration::ZERO,
                disconnected_until: Duration::ZERO,
                request: None,
            }
        });
        let processes = processes.collect();
        Self {
            rng,
            start,
            now: Duration::ZERO,
            record: Some(record),
            late: Vec::new(),
            history: VecDeque::new(),
            versions: 1,
            processes,
            changes: 0,
            last_leader: None,
        }
    }

    /// Returns the time by the clock of a process.
    fn local_time(&self, number: usize) -> Instant {
        self.start + self.now.mul_f64(self.processes[number].rate)
    }

    fn leaders(&self) -> Vec<usize> {
        let leads = |number: &usize| {
            self.processes[*number].candidate.leads_until(self.local_time(*number)).is_some()
        };
        (0..self.processes.len()).filter(leads).collect()
    }

    /// Runs for `duration`. Fails as soon as two processes lead.
    fn run(&mut self, duration: Duration, faults: bool) -> Result<(), String> {
        let end = self.now + duration;
        while self.now < end {
            self.now += TICK;
            self.edit_lease(faults);
            self.apply_late_writes();
            for number in 0..self.processes.len() {
                self.step(number, faults);
                let leaders = self.leaders();
                if leaders.len() > 1 {
                    return Err(format!("{leaders:?} lead at {:?}", self.now));
                }
                if let [leader] = leaders[..]
                    && self.last_leader.replace(leader) != Some(leader)
                {
                    self.changes += 1;
                }
            }
        }
        Ok(())
    }

    /// Kills the holder of the lease.
    fn kill_leader(&mut self) {
        let holder = self.record.as_ref().map_or("", |record| &*record.holder);
        let number = holder.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        self.processes[number].is_dead = true;
    }

    fn step(&mut self, number: usize, faults: bool) {
        self.handle_request(number);
        if self.processes[number].is_dead {
            return;
        }
        if faults && self.rng.u16(..1000) == 0 {
            let until = self.now + Duration::from_secs(self.rng.u64(1..40));
            match self.rng.bool() {
                true => self.processes[number].paused_until = until,
                false => self.processes[number].disconnected_until = until,
            }
        }
        if faults && self.now < self.processes[number].paused_until {
            return;
        }
        let local = self.local_time(number);
        let is_disconnected = faults && self.now < self.processes[number].disconnected_until;
        if !is_disconnected && self.rng.u8(..10) == 0 {
            self.deliver_watch_event(number, local);
        }
        let process = &mut self.processes[number];
        let Some(request) = &mut process.request else { return self.send(number, local, faults) };
        let timed_out = local.duration_since(request.sent) >= TIMEOUT;
        match request.answer.take_if(|_| request.answered.is_some_and(|at| at <= self.now)) {
            Some(Some(record)) if request.write.is_none() => process.candidate.on_read(record, local),
            Some(Some(Some(record))) => process.candidate.on_written(record, request.sent, local),
            Some(_) => process.candidate.on_failure(request.sent, local),
            None if timed_out => process.candidate.on_failure(request.sent, local),
            None => return,
        }
        if let Some(Request { write: Some(write), arrives: Some(at), .. }) = process.request.take() {
            self.late.push((at, write));
        }
    }

    fn send(&mut self, number: usize, local: Instant, faults: bool) {
        let write = match self.processes[number].candidate.next_step(local) {
            NextStep::Wait(_) => return,
            NextStep::Read => None,
            NextStep::Write(write) => Some(write),
        };
        let is_disconnected = faults && self.now < self.processes[number].disconnected_until;
        let transit_time = |rng: &mut Rng| {
            let (lost, slow) = (faults && rng.u8(..10) == 0, faults && rng.u8(..10) == 0);
            (!lost && !is_disconnected)
                .then(|| Duration::from_millis(rng.u64(if slow { 1..8000 } else { 1..100 })))
        };
        let arrives = transit_time(&mut self.rng).map(|way| self.now + way);
        let answered = transit_time(&mut self.rng).and_then(|way| Some(arrives? + way));
        self.processes[number].request =
            Some(Request { write, sent: local, arrives, answered, answer: None });
    }

    /// Handles a request that arrived at the server.
    fn handle_request(&mut self, number: usize) {
        let Some(request) = &mut self.processes[number].request else { return };
        if request.answer.is_some() || request.arrives.is_none_or(|at| at > self.now) {
            return;
        }
        request.arrives = None;
        let answer = match request.write.clone() {
            None => Some(self.record.clone()),
            Some(write) => self.write(&write).map(Some),
        };
        if let Some(request) = &mut self.processes[number].request {
            request.answer = Some(answer);
        }
    }

    fn apply_late_writes(&mut self) {
        let now = self.now;
        let (arrived, late) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= now);
        self.late = late;
        let arrived: Vec<(Duration, LeaseWrite)> = arrived;
        for (_, write) in arrived {
            self.write(&write);
        }
    }

    /// Applies a write. Returns the new record, or `None` if the precondition fails.
    fn write(&mut self, write: &LeaseWrite) -> Option<LeaseRecord> {
        if write.over != self.record.as_ref().map(|record| record.version.clone()) {
            return None;
        }
        self.versions += 1;
        let uid = self.record.as_ref().map_or_else(|| self.versions.to_string(), |record| record.uid.clone());
        let record = LeaseRecord {
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

    fn set(&mut self, record: Option<LeaseRecord>) {
        self.history.extend(std::mem::replace(&mut self.record, record));
        if self.history.len() > 5 {
            self.history.pop_front();
        }
    }

    /// A user deletes the Lease (only during faults) or changes its labels.
    fn edit_lease(&mut self, faults: bool) {
        if faults && self.rng.u16(..300) == 0 {
            self.set(None);
        }
        if self.rng.u8(..50) == 0
            && let Some(record) = self.record.clone()
        {
            self.versions += 1;
            self.set(Some(LeaseRecord { version: self.versions.into(), ..record }));
        }
    }

    /// Delivers the current record or an older one as a watch event.
    fn deliver_watch_event(&mut self, number: usize, local: Instant) {
        let old = self.rng.usize(0..=self.history.len());
        let record = self.history.get(old).or(self.record.as_ref()).cloned();
        self.processes[number].candidate.on_watch_event(record, local);
    }
}

fn fastest_allowed() -> f64 {
    let LeaseTimes { lease_duration, renew_deadline, .. } = LeaseTimes::default();
    lease_duration.as_secs_f64() / renew_deadline.as_secs_f64()
}

#[test]
fn exactly_one_leader_after_faults_and_never_two() {
    let mut changes = 0;
    for seed in 0..400 {
        let mut world = World::new(seed, fastest_allowed());
        world.run(FAULT_TIME, true).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        world.kill_leader();
        world.run(RECOVERY_TIME, false).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(world.leaders().len(), 1, "seed {seed}: no leader");
        changes += world.changes;
    }
    assert!(changes > 1000, "the holder changed only {changes} times");
}

/// Proves that the simulation detects an error, with clocks that differ too much.
#[test]
fn two_leaders_if_clocks_differ_too_much() {
    let both_lead = |seed: &u64| World::new(*seed, fastest_allowed() * 1.3).run(FAULT_TIME, true).is_err();
    assert!((0..400).any(|seed| both_lead(&seed)));
}
