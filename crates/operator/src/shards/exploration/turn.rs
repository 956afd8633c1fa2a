//! The turn of a process. The process handles a watch event, works, and sends requests until it waits.

use super::{
    super::{
        calls::{RESOURCE, check_caches, next_call, respond},
        member::Phase,
        server::Call,
    },
    world::{Request, Transit, World},
};

/// A process waits after at most this number of requests.
const MAX_REQUESTS: usize = 40;

impl World {
    /// Takes the turn of a process, and returns the number of requests. Each response arrives
    /// immediately, except the one with the number `delayed`, and requests of a disconnected process.
    pub(super) fn turn(
        &mut self,
        number: usize,
        delayed: Option<usize>,
        holds_event: bool,
    ) -> Result<usize, String> {
        self.processes[number].is_done = true;
        self.watch(number, holds_event);
        self.work(number)?;
        for sent in 0..MAX_REQUESTS {
            let Some((channel, call)) = self.next_call(number) else {
                self.remove_if_left(number);
                return Ok(sent);
            };
            let is_lost = self.processes[number].is_disconnected[channel];
            let (now, process) = (self.now, &mut self.processes[number]);
            if is_lost || delayed == Some(sent) {
                let transit = if is_lost { Transit::Lost } else { Transit::Sent };
                process.requests[channel] = Some(Request { call, sent: now, transit });
                continue;
            }
            let answer = self.server.handle(&call);
            respond(&mut process.member, &call, Some(answer), now, now);
            self.check()?;
        }
        Err(format!("process {number} does not wait: {:?}", self.processes[number]))
    }

    /// Delivers the current state of the server. The event can arrive in the next turn instead.
    fn watch(&mut self, number: usize, holds_event: bool) {
        let (now, process) = (self.now, &mut self.processes[number]);
        if process.is_disconnected[2] {
            return;
        }
        let current = self.server.state(0);
        if holds_event {
            process.held_event = Some(current);
            return;
        }
        let (mut leases, table) = process.held_event.take().unwrap_or(current);
        process.member.on_table_event(table, now);
        if std::mem::take(&mut process.must_list) {
            leases.remove(process.member.name());
            return process.member.peers.on_list(leases, now);
        }
        let names = process.member.peers.names().chain(leases.keys().map(String::as_str));
        let names = names.filter(|name| *name != process.member.name());
        for name in names.map(str::to_owned).collect::<Vec<_>>() {
            process.member.peers.on_event(&name, leases.get(&name).cloned(), now);
        }
    }

    /// A reconcile of each active slot runs until the slot stops, and writes in each turn.
    fn work(&mut self, number: usize) -> Result<(), String> {
        let (now, process) = (self.now, &mut self.processes[number]);
        let name = process.member.name().to_owned();
        let is_valid = process.member.valid_until().is_some_and(|until| now < until);
        let slots = process.member.slots().clone();
        process.terms.retain(|(slot, epoch), _| slots.get(slot).is_some_and(|held| held.epoch == *epoch));
        for (slot, held) in slots {
            let key = (slot, held.epoch);
            if is_valid && held.phase == Phase::Active && !process.terms.contains_key(&key) {
                check_caches(&process.member, slot, self.writes.get(&slot))?;
                process.terms.insert(key, Default::default());
            }
            if let Some(term) = process.terms.get_mut(&key).filter(|_| is_valid) {
                self.version += 1;
                self.writes.insert(slot, (name.clone(), self.version));
                term.add(Some(RESOURCE), Some(self.version.into()));
            }
            if held.phase == Phase::Stopping {
                let term = process.terms.remove(&key).unwrap_or_default();
                process.member.on_ended(slot, held.epoch, term);
            }
        }
        Ok(())
    }

    /// Returns the next request of a process, and its channel. A dead member joins again before.
    fn next_call(&mut self, number: usize) -> Option<(usize, Call)> {
        if self.processes[number].member.own.is_dead() {
            let (now, name) = (self.now, self.next_name());
            let process = &mut self.processes[number];
            process.member = process.member.clone().rejoin(name, now);
            process.terms.clear();
            let given_up = std::mem::take(&mut process.requests);
            given_up.into_iter().flatten().for_each(|request| self.give_up(request));
            if self.processes[number].is_draining {
                self.processes[number].member.drain();
            }
        }
        let (now, process) = (self.now, &mut self.processes[number]);
        // The caches are filled immediately.
        process.member.set_filled(process.member.wanted().unwrap_or_default());
        (0..2).find_map(|channel| {
            let is_free = process.requests[channel].is_none();
            let call = is_free.then(|| next_call(&mut process.member, channel, now)).flatten()?;
            Some((channel, call))
        })
    }

    /// The sender no longer waits for a request. The request may still arrive, if this has an effect.
    pub(super) fn give_up(&mut self, request: Request) {
        if matches!(request.transit, Transit::Sent) {
            self.late.push(request.call);
        }
    }

    fn remove_if_left(&mut self, number: usize) {
        let process = &self.processes[number];
        if process.is_draining && process.member.has_left() {
            let process = self.processes.remove(number);
            self.server.leave(process.member.name());
            process.requests.into_iter().flatten().for_each(|request| self.give_up(request));
        }
    }
}
