//! The state of the exploration.

use std::{collections::BTreeMap, time::Duration};

use kube_object::{ShardKey, Slot, SlotCount, SlotSet};
use tokio::time::Instant;

use super::super::{
    calls::{acts, respond},
    member::{Held, Member, Phase, Settings},
    server::{Answer, Call, Server, State},
    table::TableOptions,
    written::Term,
};
use crate::LeaseTimes;

/// The clocks advance by this time. All times of the members are multiples.
pub(super) const STEP: Duration = Duration::from_secs(5);
pub(super) const SLOTS: u16 = 2;
/// Versions start at this number, and all other numbers are lower. See [`World::fingerprint`].
pub(super) const FIRST_VERSION: u64 = 1_000_000;

/// The state of a request.
#[derive(Clone, Debug)]
pub(super) enum Transit {
    Sent,
    Answered(Answer),
    Lost,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) call: Call,
    pub(super) sent: Instant,
    pub(super) transit: Transit,
}

#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) member: Member,
    /// The requests for the own Lease, and all other requests.
    pub(super) requests: [Option<Request>; 2],
    /// The running reconciles and their writes, by slot and epoch.
    pub(super) terms: BTreeMap<(Slot, u64), Term>,
    /// A late watch event.
    pub(super) held_event: Option<State>,
    pub(super) is_paused: bool,
    /// The messages of these channels are lost. The last channel is the watch.
    pub(super) is_disconnected: [bool; 3],
    /// The watch starts again with a list.
    pub(super) must_list: bool,
    pub(super) is_draining: bool,
    /// The process sends no further requests in this time step.
    pub(super) is_done: bool,
}

/// The number of faults that may still occur.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    pub(super) all: usize,
    pub(super) crashes: usize,
    pub(super) pauses: usize,
    pub(super) drains: usize,
    pub(super) starts: usize,
    pub(super) edits: usize,
    /// Late and lost messages.
    pub(super) messages: usize,
}

impl Budget {
    pub(super) fn new(faults: usize) -> Self {
        Self { all: faults, crashes: 2, pauses: 1, drains: 1, starts: 1, edits: 1, messages: faults }
    }
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) server: Server,
    pub(super) processes: Vec<Process>,
    /// Requests that can arrive although their sender does not wait for them.
    pub(super) late: Vec<Call>,
    pub(super) now: Instant,
    pub(super) budget: Budget,
    /// The epoch and the name of the last owner of each slot.
    pub(super) last: BTreeMap<Slot, (u64, String)>,
    /// The last write for each slot: the process, and the version.
    pub(super) writes: BTreeMap<Slot, (String, u64)>,
    pub(super) version: u64,
    pub(super) names: usize,
    backup: (State, u64),
    /// A user deleted the table, or restored a backup. Epochs can decrease, and no process may start.
    pub(super) is_table_replaced: bool,
    /// The last process takes the first turn in each time step.
    is_reversed: bool,
}

pub(super) fn slots() -> SlotSet {
    (0..).take(SLOTS.into()).map(Slot).collect()
}

impl World {
    pub(super) fn new(faults: usize, processes: usize, is_reversed: bool) -> Self {
        let server = Server::starting_at(FIRST_VERSION, 2 * FIRST_VERSION);
        let mut world = Self {
            backup: (server.state(0), FIRST_VERSION),
            server,
            processes: Vec::new(),
            late: Vec::new(),
            now: Instant::now(),
            budget: Budget::new(faults),
            last: BTreeMap::new(),
            writes: BTreeMap::new(),
            version: 3 * FIRST_VERSION,
            names: 0,
            is_table_replaced: false,
            is_reversed,
        };
        (0..processes).for_each(|_| world.start());
        world
    }

    /// Starts a process.
    pub(super) fn start(&mut self) {
        let settings = Settings {
            times: LeaseTimes { retry_period: STEP, ..LeaseTimes::default() },
            table: TableOptions::new(ShardKey::Namespace, SlotCount::new(SLOTS).unwrap()),
            settle_time: STEP,
            caches_standby_slots: false,
        };
        let name = self.next_name();
        self.processes.push(Process {
            member: Member::new(name, settings, 1, self.now),
            requests: [None, None],
            terms: BTreeMap::new(),
            held_event: None,
            is_paused: false,
            is_disconnected: [false; 3],
            must_list: false,
            is_draining: false,
            is_done: false,
        });
    }

    pub(super) fn next_name(&mut self) -> String {
        self.names += 1;
        format!("member-{}", self.names)
    }

    /// Makes the current state of the server the state that a user can restore.
    pub(super) fn save_backup(&mut self) {
        self.backup = (self.server.state(0), self.server.version());
    }

    /// Restores the backup. The server does not respond for the renew deadline.
    pub(super) fn restore_backup(&mut self, keeps_version: bool) {
        let (state, version) = self.backup.clone();
        self.server.restore(state, (!keeps_version).then_some(version));
        self.late.clear();
        self.writes.clear();
        for process in &mut self.processes {
            (process.must_list, process.held_event) = (true, None);
            let requests = process.requests.iter_mut().flatten();
            requests.for_each(|request| request.transit = Transit::Lost);
        }
        self.now += LeaseTimes::default().renew_deadline;
    }

    /// Resumes and reconnects all processes, and completes all requests.
    pub(super) fn end_faults(&mut self) {
        self.budget = Budget::default();
        self.late.clear();
        for process in &mut self.processes {
            (process.is_paused, process.is_disconnected) = (false, [false; 3]);
            for request in process.requests.iter_mut().filter_map(Option::take) {
                let answer = match request.transit {
                    Transit::Sent => Some(self.server.handle(&request.call)),
                    Transit::Answered(answer) => Some(answer),
                    Transit::Lost => None,
                };
                respond(&mut process.member, &request.call, answer, request.sent, self.now);
                process.is_done = false;
            }
        }
    }

    /// Returns the process that takes the next turn in this time step.
    pub(super) fn next_turn(&self) -> Option<usize> {
        let is_next = |number: &usize| !self.processes[*number].is_done && !self.processes[*number].is_paused;
        let mut numbers = 0..self.processes.len();
        if self.is_reversed { numbers.rfind(is_next) } else { numbers.find(is_next) }
    }

    /// Runs all processes once, and advances the time.
    pub(super) fn run_step(&mut self) -> Result<(), String> {
        while let Some(number) = self.next_turn() {
            self.turn(number, None, false)?;
        }
        self.advance();
        Ok(())
    }

    pub(super) fn advance(&mut self) {
        self.now += STEP;
        self.processes.iter_mut().for_each(|process| process.is_done = false);
    }

    /// Returns whether a process acts for a slot, or runs a reconcile while it releases the slot. After the
    /// table was replaced, the second case is allowed, because such reconciles cannot write.
    fn acts(&self, process: &Process, slot: Slot) -> bool {
        let is_running = |held: &Held| process.terms.contains_key(&(slot, held.epoch));
        let is_valid = process.member.valid_until().is_some_and(|until| self.now < until);
        acts(&process.member, slot, self.now)
            || (is_valid
                && !self.is_table_replaced
                && process.member.slots().get(&slot).is_some_and(is_running))
    }

    /// Checks that at most one process acts for each slot, and that epochs increase.
    pub(super) fn check(&mut self) -> Result<(), String> {
        for slot in slots().iter() {
            let acting: Vec<&Process> =
                self.processes.iter().filter(|process| self.acts(process, slot)).collect();
            let owner = match acting[..] {
                [] => continue,
                [process] => process,
                _ => {
                    let names: Vec<&str> = acting.iter().map(|process| process.member.name()).collect();
                    return Err(format!("{names:?} act for slot {slot}"));
                }
            };
            let epoch = owner.member.slots().get(&slot).map_or(0, |held| held.epoch);
            let (owner, last) = ((epoch, owner.member.name().to_owned()), self.last.get(&slot));
            let is_later = last.is_none_or(|last| *last == owner || last.0 < owner.0);
            if !is_later && !self.is_table_replaced {
                return Err(format!("slot {slot} has the owner {owner:?} after {last:?}"));
            }
            self.last.insert(slot, owner);
        }
        Ok(())
    }

    /// Checks that each slot has an owner, and that no process has more than its share.
    pub(super) fn check_shares(&self) -> Result<(), String> {
        let active = |process: &Process, slot: &Slot| {
            acts(&process.member, *slot, self.now) && process.member.slots()[slot].phase == Phase::Active
        };
        let shares: Vec<usize> = self
            .processes
            .iter()
            .map(|process| slots().iter().filter(|slot| active(process, slot)).count())
            .collect();
        let most = usize::from(SLOTS).div_ceil(self.processes.len().max(1));
        let are_fair = shares.iter().all(|share| *share <= most);
        if are_fair && shares.iter().sum::<usize>() == usize::from(SLOTS) {
            return Ok(());
        }
        Err(format!("the numbers of slots are {shares:?} at the end: {self:?}"))
    }
}
