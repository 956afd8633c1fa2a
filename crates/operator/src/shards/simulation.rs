//! Simulation of several members and a server. Clocks run at different speeds, processes pause, crash, drain
//! and start, requests are lost or arrive after their timeout, watch events are old, users delete Leases and
//! the table, and backups are restored. In some runs, the members have two versions. Two members must never
//! act for one slot at the same time. After the faults, each slot has an owner, and no member has more than
//! its share.

mod changes;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use fastrand::Rng;
use kube_object::{ShardKey, Slot, SlotCount, SlotSet};
use tokio::time::Instant;

use super::{
    calls::{RESOURCE, acts, check_caches, next_call, respond},
    member::{Member, Phase, Settings},
    own_lease::MemberLease,
    server::{Answer, Call, Server},
    table::{FORMAT, TableOptions},
    written::Term,
};
use crate::LeaseTimes;

const TICK: Duration = Duration::from_millis(100);
/// Timeout of a request, by the clock of its sender.
const TIMEOUT: Duration = Duration::from_secs(5);
const FAULT_TIME: Duration = Duration::from_secs(240);
const RECOVERY_TIME: Duration = Duration::from_secs(150);
/// A member that starts shortly after a backup was restored, or after the table was deleted, is not safe. It
/// did not observe the earlier members.
const SAFE_START: Duration = Duration::from_secs(40);
const SLOTS: u16 = 8;
/// The number of lines that a failure prints.
const TRACE_LINES: usize = 80;

/// A request of a member.
struct Request {
    call: Call,
    /// By the clock of the sender.
    sent: Instant,
    /// When the request reaches the server; `None` if it is lost.
    arrives: Option<Duration>,
    /// When the response reaches the sender; `None` if it is lost.
    answered: Option<Duration>,
    answer: Option<Answer>,
}

/// A reconcile.
struct Run {
    slot: Slot,
    epoch: u64,
    until: Duration,
}

struct Process {
    name: String,
    member: Member,
    rate: f64,
    is_dead: bool,
    paused_until: Duration,
    /// The messages of each of the two kinds of requests are lost until these times.
    disconnected_until: [Duration; 2],
    /// The requests for the own Lease, and all other requests.
    requests: [Option<Request>; 2],
    runs: Vec<Run>,
    terms: BTreeMap<(Slot, u64), Term>,
    filled: SlotSet,
    leaves_at: Option<Duration>,
}

/// The changes by users.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Edits {
    None,
    DeleteLease,
    /// A user marks the Lease of a live member as killed.
    MarkLease,
    DeleteTable,
    RestoreBackup,
    /// The version of the server does not decrease.
    RestoreWithHigherVersion,
}

struct World {
    rng: Rng,
    start: Instant,
    now: Duration,
    fastest: f64,
    edits: Edits,
    has_two_versions: bool,
    server: Server,
    /// Requests that arrive after their sender stopped waiting, with their arrival times.
    late: Vec<(Duration, Call)>,
    processes: Vec<Process>,
    names: u32,
    no_start_until: Duration,
    /// The last process that acted for each slot.
    last: BTreeMap<Slot, String>,
    /// The last write for each slot: the process, and the version.
    writes: BTreeMap<Slot, (String, u64)>,
    version: u64,
    moves: usize,
    /// The recent responses and edits, if they are recorded.
    trace: Option<VecDeque<String>>,
}

impl World {
    /// Clocks run up to `fastest` times as fast as the slowest.
    fn new(seed: u64, fastest: f64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let all = [
            Edits::None,
            Edits::DeleteLease,
            Edits::MarkLease,
            Edits::DeleteTable,
            Edits::RestoreBackup,
            Edits::RestoreWithHigherVersion,
        ];
        let edits = all[rng.usize(..all.len())];
        let has_two_versions = rng.bool();
        let mut world = Self {
            rng,
            start: Instant::now(),
            now: Duration::ZERO,
            fastest,
            edits,
            has_two_versions,
            server: Server::default(),
            late: Vec::new(),
            processes: Vec::new(),
            names: 0,
            no_start_until: Duration::ZERO,
            last: BTreeMap::new(),
            writes: BTreeMap::new(),
            version: 0,
            moves: 0,
            trace: None,
        };
        for _ in 0..world.rng.usize(1..=4) {
            world.start_process();
        }
        world
    }

    fn start_process(&mut self) {
        // The slowest and the fastest clock are common, because they cause most errors.
        let rate = match self.rng.u8(..3) {
            0 => 1.0,
            1 => self.fastest,
            _ => 1.0 + (self.fastest - 1.0) * self.rng.f64(),
        };
        let is_newer = self.has_two_versions && self.rng.bool();
        let name = self.next_name(if is_newer { FORMAT + 1 } else { FORMAT });
        let table = TableOptions::new(ShardKey::Namespace, SlotCount::new(SLOTS).unwrap());
        let settings = Settings {
            times: LeaseTimes::default(),
            table: TableOptions { format: format_of(&name), ..table },
            settle_time: Duration::from_secs(5),
            caches_standby_slots: self.rng.bool(),
        };
        let now = self.start + self.now.mul_f64(rate);
        self.processes.push(Process {
            member: Member::new(name.clone(), settings, 1, now),
            name,
            rate,
            is_dead: false,
            paused_until: Duration::ZERO,
            disconnected_until: [Duration::ZERO; 2],
            requests: [None, None],
            runs: Vec::new(),
            terms: BTreeMap::new(),
            filled: SlotSet::default(),
            leaves_at: None,
        });
    }

    fn next_name(&mut self, format: u32) -> String {
        self.names += 1;
        format!("member-{}-{format}", self.names)
    }

    /// Runs for `duration`. Fails as soon as two members act for one slot.
    fn run(&mut self, duration: Duration, faults: bool) -> Result<(), String> {
        let end = self.now + duration;
        while self.now < end {
            self.now += TICK;
            self.server.tick(self.now);
            if faults {
                self.edit();
                self.change_processes();
            }
            self.restart();
            self.apply_late_calls();
            for number in 0..self.processes.len() {
                self.step(number, faults)?;
                self.check()?;
            }
            self.processes.retain(|process| !process.is_dead);
        }
        Ok(())
    }

    /// Returns whether a process may act for a slot.
    fn acts(&self, process: &Process, slot: Slot) -> bool {
        let local = self.start + self.now.mul_f64(process.rate);
        !process.is_dead && acts(&process.member, slot, local)
    }

    fn check(&mut self) -> Result<(), String> {
        for slot in (0..SLOTS).map(|slot| Slot(u8::try_from(slot).unwrap())) {
            let acting = self.processes.iter().filter(|process| self.acts(process, slot));
            let acting: Vec<&str> = acting.map(|process| &*process.name).collect();
            match acting[..] {
                [] => {}
                [one] => {
                    if self.last.get(&slot).is_none_or(|last| last != one) {
                        self.moves += 1;
                        self.last.insert(slot, one.to_owned());
                    }
                }
                _ => return Err(format!("{acting:?} act for slot {slot} at {:?}", self.now)),
            }
        }
        Ok(())
    }

    /// Checks that each slot has an owner, and that no member has more than its share. Only the members of
    /// one format have shares.
    fn check_recovery(&self) -> Result<(), String> {
        let slots = SlotSet::all(SlotCount::new(SLOTS).unwrap());
        let mut counts = BTreeMap::<u32, Vec<usize>>::new();
        for process in &self.processes {
            let count = slots.iter().filter(|slot| self.acts(process, *slot)).count();
            counts.entry(format_of(&process.name)).or_default().push(count);
        }
        counts.retain(|_, counts| counts.iter().any(|count| *count > 0));
        let [counts] = &counts.into_values().collect::<Vec<_>>()[..] else {
            return Err("no slot has an owner, or both formats have owners".to_owned());
        };
        let (owned, share) = (counts.iter().sum::<usize>(), slots.len().div_ceil(counts.len()));
        if counts.iter().any(|count| *count > share) {
            return Err(format!("the shares are {counts:?}"));
        }
        if owned == slots.len() { Ok(()) } else { Err(format!("only {owned} slots have an owner")) }
    }

    fn step(&mut self, number: usize, faults: bool) -> Result<(), String> {
        for channel in 0..2 {
            self.handle_arrival(number, channel);
        }
        let (now, process) = (self.now, &mut self.processes[number]);
        if process.is_dead || (faults && now < process.paused_until) {
            return Ok(());
        }
        let local = self.start + now.mul_f64(process.rate);
        self.work(number, local)?;
        let is_disconnected = faults && now < self.processes[number].disconnected_until[1];
        if !is_disconnected && self.rng.u8(..4) == 0 {
            self.deliver_watch_event(number, local, faults);
        }
        for channel in 0..2 {
            self.communicate(number, channel, local, faults);
        }
        Ok(())
    }

    /// Fills caches, starts reconciles and completes them.
    fn work(&mut self, number: usize, local: Instant) -> Result<(), String> {
        let can_write = !self.server.is_down(self.now);
        let process = &mut self.processes[number];
        let wanted = process.member.wanted().unwrap_or(process.filled);
        process.filled = process.filled.intersection(&wanted);
        if self.rng.u8(..20) == 0
            && let Some(slot) = wanted.difference(&process.filled).iter().next()
        {
            process.filled.insert(slot);
        }
        process.member.set_filled(process.filled);
        if process.leaves_at.is_some_and(|at| self.now >= at) {
            process.member.leave();
        }
        process.runs.retain(|run| self.now < run.until);
        let is_valid = process.member.valid_until().is_some_and(|until| local < until);
        let slots: Vec<_> = process.member.slots().iter().map(|(slot, held)| (*slot, *held)).collect();
        // After a new table, a slot can have an epoch again. As in a process, no earlier term remains.
        process.terms.retain(|term, _| slots.iter().any(|(slot, held)| (*slot, held.epoch) == *term));
        for (slot, held) in slots {
            let is_running = process.runs.iter().any(|run| run.slot == slot && run.epoch == held.epoch);
            match held.phase {
                Phase::Active if is_valid && !is_running && self.rng.u8(..10) == 0 => {
                    let until = self.now + Duration::from_millis(self.rng.u64(50..3000));
                    process.runs.push(Run { slot, epoch: held.epoch, until });
                    check_caches(&process.member, slot, self.writes.get(&slot))?;
                    if !can_write {
                        continue;
                    }
                    self.version += 1;
                    self.writes.insert(slot, (process.name.clone(), self.version));
                    let term = process.terms.entry((slot, held.epoch)).or_default();
                    term.add(Some(RESOURCE), Some(self.version.into()));
                }
                Phase::Stopping if !is_running => {
                    let term = process.terms.remove(&(slot, held.epoch)).unwrap_or_default();
                    process.member.on_ended(slot, held.epoch, term);
                }
                Phase::Active | Phase::Stopping | Phase::Ended => {}
            }
        }
        if process.leaves_at.is_some() && process.member.slots().is_empty() && !self.server.is_down(self.now)
        {
            self.server.leave(&process.name);
            process.is_dead = true;
        }
        Ok(())
    }

    fn communicate(&mut self, number: usize, channel: usize, local: Instant, faults: bool) {
        let process = &mut self.processes[number];
        let Some(request) = &mut process.requests[channel] else {
            return self.send(number, channel, local, faults);
        };
        let timed_out = local.duration_since(request.sent) >= TIMEOUT;
        let answer = request.answer.take_if(|_| request.answered.is_some_and(|at| at <= self.now));
        if answer.is_none() && !timed_out {
            return;
        }
        let Some(request) = process.requests[channel].take() else { return };
        let format = format_of(&process.name);
        let answer = match (&request.call, answer) {
            (Call::ReadLease(name), Some(Answer::Lease(Some(lease)))) => {
                Some(Answer::Lease(Some(observed_by(format, name, &lease))))
            }
            (Call::Kill(kill), Some(Answer::Lease(Some(lease)))) => {
                Some(Answer::Lease(Some(observed_by(format, &kill.member, &lease))))
            }
            (_, answer) => answer,
        };
        if let Some(trace) = &mut self.trace {
            trace.push_back(format!("{:?} {}: {:?} -> {answer:?}", self.now, process.name, request.call));
        }
        respond(&mut process.member, &request.call, answer, request.sent, local);
        if let Some(trace) = &mut self.trace {
            trace.push_back(format!("{:?} {}: {:?}", self.now, process.name, process.member.slots()));
            trace.drain(..trace.len().saturating_sub(TRACE_LINES));
        }
        if let Some(at) = request.arrives {
            self.late.push((at, request.call));
        }
    }

    fn send(&mut self, number: usize, channel: usize, local: Instant, faults: bool) {
        let process = &mut self.processes[number];
        if channel == 0 && process.member.own.is_dead() {
            let name = self.next_name(format_of(&self.processes[number].name));
            let process = &mut self.processes[number];
            process.member = process.member.clone().rejoin(name.clone(), local);
            (process.name, process.requests) = (name, [None, None]);
            return;
        }
        let Some(call) = next_call(&mut process.member, channel, local) else { return };
        let is_disconnected = faults && self.now < process.disconnected_until[channel];
        let transit_time = |rng: &mut Rng| {
            let (lost, slow) = (faults && rng.u8(..10) == 0, faults && rng.u8(..10) == 0);
            (!lost && !is_disconnected)
                .then(|| Duration::from_millis(rng.u64(if slow { 1..12000 } else { 1..100 })))
        };
        let arrives = transit_time(&mut self.rng).map(|way| self.now + way);
        let answered = transit_time(&mut self.rng).and_then(|way| Some(arrives? + way));
        self.processes[number].requests[channel] =
            Some(Request { call, sent: local, arrives, answered, answer: None });
    }

    /// Handles a request that arrived at the server.
    fn handle_arrival(&mut self, number: usize, channel: usize) {
        let now = self.now;
        let Some(request) = &mut self.processes[number].requests[channel] else { return };
        if request.arrives.take_if(|at| *at <= now).is_some() && !self.server.is_down(now) {
            request.answer = Some(self.server.handle(&request.call));
        }
    }

    fn apply_late_calls(&mut self) {
        let now = self.now;
        let (arrived, late) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= now);
        self.late = late;
        let arrived: Vec<(Duration, Call)> = arrived;
        for (_, call) in arrived {
            if !self.server.is_down(now) {
                self.server.handle(&call);
            }
        }
    }

    fn deliver_watch_event(&mut self, number: usize, local: Instant, faults: bool) {
        let age = if faults { self.rng.usize(..4) } else { 0 };
        let format = format_of(&self.processes[number].name);
        let observe = |leases: BTreeMap<String, MemberLease>| -> BTreeMap<String, MemberLease> {
            leases
                .into_iter()
                .map(|(name, lease)| {
                    let seen = observed_by(format, &name, &lease);
                    (name, seen)
                })
                .collect()
        };
        let (leases, table) = self.server.state(age);
        let leases = observe(leases);
        let process = &mut self.processes[number];
        process.member.on_table_event(table.clone(), local);
        if self.rng.u8(..8) == 0 {
            // A list by label. A user can remove the label of any Lease.
            let mut listed = observe(self.server.state(0).0);
            listed.remove(&process.name);
            if faults && let Some(unlabelled) = self.rng.choice(listed.keys().cloned().collect::<Vec<_>>()) {
                listed.remove(&unlabelled);
            }
            return process.member.peers.on_list(listed, local);
        }
        let names: Vec<String> =
            process.member.peers.names().map(str::to_owned).chain(leases.keys().cloned()).collect();
        for name in names.into_iter().filter(|name| *name != process.name) {
            process.member.peers.on_event(&name, leases.get(&name).cloned(), local);
        }
    }
}

/// Returns the format of the table of a member.
fn format_of(name: &str) -> u32 {
    name.rsplit_once('-').and_then(|(_, format)| format.parse().ok()).unwrap()
}

/// Returns the Lease as members of this format observe it.
fn observed_by(format: u32, name: &str, lease: &MemberLease) -> MemberLease {
    let info = lease.info.filter(|_| format_of(name) == format);
    MemberLease { info, ..lease.clone() }
}

fn fastest_allowed() -> f64 {
    let LeaseTimes { lease_duration, renew_deadline, .. } = LeaseTimes::default();
    lease_duration.as_secs_f64() / renew_deadline.as_secs_f64()
}

/// Returns the number of moves.
fn simulate(world: &mut World) -> Result<usize, String> {
    world.run(FAULT_TIME, true)?;
    world.run(RECOVERY_TIME, false)?;
    world.check_recovery()?;
    Ok(world.moves)
}

/// Simulates again and prints the last responses.
fn explain(seed: u64, error: &str) -> ! {
    let mut world = World::new(seed, fastest_allowed());
    world.trace = Some(VecDeque::new());
    let _ = simulate(&mut world);
    let trace: Vec<String> = world.trace.into_iter().flatten().collect();
    panic!("{}\nseed {seed}: {error}", trace.join("\n"));
}

/// `SHARD_SEEDS` is the number of seeds, and `SHARD_SEED` is the first seed.
#[test]
fn two_members_never_act_for_the_same_slot() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, seeds) = (number("SHARD_SEED").unwrap_or(0), number("SHARD_SEEDS").unwrap_or(100));
    let mut moves = 0;
    for seed in first..first + seeds {
        let result = simulate(&mut World::new(seed, fastest_allowed()));
        moves += result.unwrap_or_else(|error| explain(seed, &error));
    }
    assert!(seeds < 100 || moves > 2000, "slots moved only {moves} times");
}

/// Proves that the simulation detects an error, with clocks that differ too much.
#[test]
fn two_members_act_if_clocks_differ_too_much() {
    let overlaps = |seed: &u64| World::new(*seed, fastest_allowed() * 1.5).run(FAULT_TIME, true).is_err();
    assert!((0..200).any(|seed| overlaps(&seed)));
}
