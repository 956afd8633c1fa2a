//! The actions that lead from a state to the next states.

use super::{
    super::{
        calls::respond,
        server::{Answer, Call},
    },
    world::{Transit, World},
};

/// An action. The numbers are positions in the list of processes, and channels.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// The time advances after all processes have taken their turns.
    Advance,
    Turn(usize),
    /// The response to a request of the turn is late.
    TurnWithDelay(usize, usize),
    TurnWithLateEvent(usize),
    Arrive(usize, usize),
    Answer(usize, usize),
    /// The sender gives up a request after a time step.
    TimeOut(usize, usize),
    ArriveLate(usize),
    Pause(usize),
    Resume(usize),
    Disconnect(usize, usize),
    Reconnect(usize, usize),
    Crash(usize),
    Drain(usize),
    Start,
    DeleteLease(usize),
    MarkLease(usize),
    DeleteTable,
    Restore {
        keeps_version: bool,
    },
}

impl World {
    /// Returns whether several actions are possible, now or later.
    pub(super) fn has_choice(&self, actions: &[Action]) -> bool {
        let mut requests = self.processes.iter().flat_map(|process| &process.requests);
        self.budget.all > 0 || actions.len() > 1 || requests.any(Option::is_some)
    }

    /// Returns the possible actions. The search explores the last action first.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut actions: Vec<Action> = self.next_turn().map(Action::Turn).into_iter().collect();
        let mut may_advance = actions.is_empty() && !self.processes.is_empty();
        for (number, process) in self.processes.iter().enumerate() {
            if process.is_paused {
                actions.push(Action::Resume(number));
            }
            let channels = (0..3).filter(|channel| process.is_disconnected[*channel]);
            actions.extend(channels.map(|channel| Action::Reconnect(number, channel)));
            for (channel, request) in process.requests.iter().enumerate() {
                let Some(request) = request else { continue };
                match &request.transit {
                    Transit::Sent => actions.push(Action::Arrive(number, channel)),
                    Transit::Answered(_) if !process.is_paused => {
                        actions.push(Action::Answer(number, channel));
                    }
                    Transit::Answered(_) | Transit::Lost => {}
                }
                if request.sent < self.now && !process.is_paused {
                    actions.push(Action::TimeOut(number, channel));
                    may_advance = false;
                }
            }
        }
        actions.extend((0..self.late.len()).map(Action::ArriveLate));
        if may_advance {
            actions.push(Action::Advance);
        }
        if self.budget.all > 0 {
            self.add_faults(&mut actions);
        }
        actions
    }

    /// Adds the faults of the process that takes the next turn, of its messages, and the changes by users.
    fn add_faults(&self, actions: &mut Vec<Action>) {
        let budget = self.budget;
        let remain = self.processes.iter().filter(|process| !process.is_draining).count();
        if let Some(number) = self.next_turn() {
            let process = &self.processes[number];
            let may_remove = remain > 1 || process.is_draining;
            let faults = [
                (budget.pauses > 0, Action::Pause(number)),
                (budget.crashes > 0 && may_remove, Action::Crash(number)),
                (budget.drains > 0 && remain > 1 && !process.is_draining, Action::Drain(number)),
            ];
            actions
                .extend(faults.into_iter().filter_map(|(is_possible, fault)| is_possible.then_some(fault)));
        }
        if let Some(number) = self.next_turn().filter(|_| budget.messages > 0) {
            let process = &self.processes[number];
            let requests = self.clone().turn(number, None, false).unwrap_or_default();
            actions.extend((0..requests).map(|request| Action::TurnWithDelay(number, request)));
            let connected = (0..3).filter(|channel| !process.is_disconnected[*channel]);
            actions.extend(connected.map(|channel| Action::Disconnect(number, channel)));
            if !process.is_disconnected[2] {
                actions.push(Action::TurnWithLateEvent(number));
            }
        }
        if budget.starts > 0 && self.processes.len() < 3 && !self.is_table_replaced {
            actions.push(Action::Start);
        }
        if budget.edits > 0 && self.processes.iter().all(|process| process.member.table().is_some()) {
            let restores = [true, false].map(|keeps_version| Action::Restore { keeps_version });
            actions.extend(restores.into_iter().chain([Action::DeleteTable]));
            let leases = self.server.state(0).0;
            let has_lease = |number: &usize| leases.contains_key(self.processes[*number].member.name());
            for number in (0..self.processes.len()).filter(has_lease) {
                actions.extend([Action::DeleteLease(number), Action::MarkLease(number)]);
            }
        }
    }

    pub(super) fn apply(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Advance => self.advance(),
            Action::Turn(number) => drop(self.turn(number, None, false)?),
            Action::Arrive(number, channel) => self.arrive(number, channel),
            Action::Answer(number, channel) => self.complete(number, channel, true),
            Action::TimeOut(number, channel) => self.complete(number, channel, false),
            Action::ArriveLate(number) => {
                let call = self.late.remove(number);
                self.server.handle(&call);
            }
            Action::Resume(number) => self.processes[number].is_paused = false,
            Action::Reconnect(number, channel) => self.processes[number].is_disconnected[channel] = false,
            fault => {
                self.budget.all -= 1;
                self.apply_fault(fault)?;
            }
        }
        self.drop_late_without_effect();
        self.check()
    }

    fn apply_fault(&mut self, fault: Action) -> Result<(), String> {
        match fault {
            Action::TurnWithDelay(number, request) => {
                self.budget.messages -= 1;
                self.turn(number, Some(request), false)?;
            }
            Action::TurnWithLateEvent(number) => {
                self.budget.messages -= 1;
                self.turn(number, None, true)?;
            }
            Action::Pause(number) => {
                self.budget.pauses -= 1;
                self.processes[number].is_paused = true;
            }
            Action::Disconnect(number, channel) => {
                self.budget.messages -= 1;
                self.processes[number].is_disconnected[channel] = true;
            }
            Action::Crash(number) => {
                self.budget.crashes -= 1;
                let process = self.processes.remove(number);
                process.requests.into_iter().flatten().for_each(|request| self.give_up(request));
            }
            Action::Drain(number) => {
                self.budget.drains -= 1;
                self.processes[number].member.drain();
                self.processes[number].is_draining = true;
            }
            Action::Start => {
                self.budget.starts -= 1;
                self.start();
            }
            edit => {
                self.budget.edits -= 1;
                self.apply_edit(edit);
            }
        }
        Ok(())
    }

    /// Applies the change of a user. Afterwards no process starts, see the simulation.
    fn apply_edit(&mut self, edit: Action) {
        match edit {
            Action::DeleteLease(number) => self.server.leave(self.processes[number].member.name()),
            Action::MarkLease(number) => self.server.mark(self.processes[number].member.name()),
            _ => {
                self.is_table_replaced = true;
                if let Action::Restore { keeps_version } = edit {
                    self.restore_backup(keeps_version);
                } else {
                    self.server.delete_table();
                }
            }
        }
    }

    fn arrive(&mut self, number: usize, channel: usize) {
        if let Some(request) = &mut self.processes[number].requests[channel] {
            request.transit = Transit::Answered(self.server.handle(&request.call));
        }
    }

    /// Passes the response to a process. Without a response, the request has failed.
    fn complete(&mut self, number: usize, channel: usize, with_answer: bool) {
        let (now, process) = (self.now, &mut self.processes[number]);
        process.is_done = false;
        let Some(request) = process.requests[channel].take() else { return };
        let answer = match &request.transit {
            Transit::Answered(answer) if with_answer => Some(answer.clone()),
            _ => None,
        };
        respond(&mut process.member, &request.call, answer, request.sent, now);
        self.give_up(request);
    }

    /// Drops requests that the server would always reject, and reads.
    fn drop_late_without_effect(&mut self) {
        let server = &self.server;
        self.late.retain(|call| {
            let is_create = matches!(call, Call::WriteLease(_, None, _) | Call::WriteTable(None, _));
            let is_read = matches!(call, Call::ReadLease(_) | Call::ReadTable);
            is_create || (!is_read && !matches!(server.clone().handle(call), Answer::Conflict))
        });
    }
}
