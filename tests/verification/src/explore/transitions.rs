//! The possible actions of a world, and their execution.

use kube_listwatch::ErrorClass;
use kube_object::{Delta, Listed, ResourceVersion};
use kube_reflector::{AfterBackoff, Deadline, EventKind, Input, State, WatchEnd};

use super::{
    action::{Action, Change, Fault},
    cache_gap::CacheGap,
    open::{self, Open, Page, Refusal, Reuse},
    server::{Stored, Write},
    world::{Outcome, World},
};
use crate::properties::{HandlerId, Observation, Violation};

/// The classes of failures that a reflector distinguishes.
const CLASSES: [ErrorClass; 7] = [
    ErrorClass::Expired,
    ErrorClass::TooLarge,
    ErrorClass::Unsupported,
    ErrorClass::Overloaded,
    ErrorClass::Forbidden,
    ErrorClass::NotFound,
    ErrorClass::Broken,
];

/// The number of events before the last event that can be repeated.
pub(super) const REPEATED: u64 = 1;

impl World {
    /// Returns all possible actions.
    ///
    /// # Errors
    /// Fails if no action is possible and the cache has pending changes, or differs from the expected
    /// state.
    pub fn actions(&mut self) -> Result<Vec<Action>, Violation> {
        let mut actions = self.client_actions();
        if self.client.outgoing.is_empty() {
            self.answers(&mut actions);
            self.passing_time(&mut actions);
        }
        if self.is_quiet() {
            self.quiet()?;
        } else if actions.is_empty() {
            return Err(Violation { property: 2, how: "no further action is possible".to_owned() });
        }
        self.changes(&mut actions);
        self.faults(&mut actions);
        self.handler_moves(&mut actions);
        Ok(actions)
    }

    fn client_actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if !self.client.fifo.is_empty() {
            actions.push(Action::Apply);
        }
        for member in &self.client.members {
            match &member.in_hand {
                Some(_) => actions.push(Action::Return(member.id)),
                None if !member.backlog.is_empty() => actions.push(Action::Deliver(member.id)),
                None => {}
            }
        }
        actions
    }

    /// Executes the immediate actions that the bounds request.
    pub(super) fn prompt(&mut self) -> Outcome {
        loop {
            let first = self.client_actions().into_iter().find(|action| match action {
                Action::Apply => self.left.prompt_store,
                _ => self.left.prompt_handlers,
            });
            match first {
                Some(action) => self.happen(&action)?,
                None => return Ok(()),
            }
        }
    }

    fn answers(&self, actions: &mut Vec<Action>) {
        match &self.open {
            Open::None | Open::Stalled => {}
            Open::Refused(_) => actions.push(Action::Refuse),
            Open::List { sent: Some(_), .. } => actions.push(Action::PageEnd),
            Open::List { request, sent: None, .. } => match open::pages(&self.server, request) {
                Ok(pages) => actions.extend(pages.into_iter().map(Action::Page)),
                Err(_) => actions.push(Action::Refuse),
            },
            Open::Watch { sent, bookmarked, .. } => {
                let next = self.server.next(*sent).is_some();
                let version = self.server.version();
                if next {
                    actions.push(Action::Event);
                } else if version > *sent.max(bookmarked) {
                    actions.push(Action::Bookmark);
                }
            }
            Open::Stream { initial, sent, ends, .. } => {
                if !initial.is_empty() || self.server.next(*sent).is_some() {
                    actions.push(Action::Event);
                }
                if initial.is_empty() && *ends {
                    actions.push(Action::InitialEnd);
                }
            }
        }
    }

    /// Adds closes and deadlines. They are not counted if no other action is possible.
    fn passing_time(&self, actions: &mut Vec<Action>) {
        if self.client.is_armed(Deadline::Backoff) {
            actions.push(Action::Fire(Deadline::Backoff));
        }
        if self.unasked && self.takes_relist() {
            actions.push(Action::Relist);
        }
        let (stuck, may) = (self.is_stuck(), self.left.times > 0);
        let deadlines = [Deadline::List, Deadline::InitialEvents, Deadline::Watch, Deadline::Bookmark];
        let armed = deadlines.into_iter().filter(|deadline| self.client.is_armed(*deadline));
        if stuck || may {
            actions.extend(armed.map(Action::Fire));
        }
        let watch = matches!(self.open, Open::Watch { .. } | Open::Stream { .. });
        if watch && (stuck || may) {
            actions.push(Action::End(WatchEnd::Full));
        }
        if watch && may {
            actions.extend([WatchEnd::Early, WatchEnd::Short].map(Action::End));
        }
        if may && !self.unasked && self.takes_relist() {
            actions.push(Action::Relist);
        }
    }

    fn takes_relist(&self) -> bool {
        match &self.client.machine {
            State::Watching(_) => true,
            State::Streaming(streaming) => !streaming.relist,
            State::Waiting(waiting) => matches!(waiting.then, AfterBackoff::Watch(_)),
            _ => false,
        }
    }

    fn changes(&self, actions: &mut Vec<Action>) {
        if self.left.changes == 0 {
            return;
        }
        for key in 0..self.left.objects {
            actions.push(Action::Change(Change::Put(key)));
            if self.server.get(key).is_some() {
                actions.push(Action::Change(Change::Delete(key)));
            }
            if self.left.faults > 0 {
                actions.push(Action::Fault(Fault::WriteUndecodable(key)));
            }
        }
        actions.push(Action::Change(Change::OtherType));
    }

    fn faults(&self, actions: &mut Vec<Action>) {
        if self.left.faults == 0 {
            return;
        }
        let mut add = |fault| actions.push(Action::Fault(fault));
        let (base, version) = (self.server.base, self.server.version());
        if base < version {
            add(Fault::Compact);
            add(Fault::Restore(base));
        }
        if base + 1 < version {
            add(Fault::Restore(version - 1));
        }
        if !self.client.outgoing.is_empty() || self.open == Open::None {
            return;
        }
        CLASSES.into_iter().map(Fault::Fail).for_each(&mut add);
        if self.open != Open::Stalled {
            add(Fault::Stall);
        }
        match &self.open {
            Open::Watch { sent, .. } => {
                let event = |version: &u64| {
                    self.server.write(*version).is_some_and(|write| write != Write::Elsewhere)
                };
                (*sent - REPEATED..=*sent).filter(event).map(Fault::Repeat).for_each(&mut add);
                if self.server.next(*sent).is_some() {
                    add(Fault::LoseEvent);
                }
            }
            Open::Stream { initial, sent, .. } if initial.is_empty() && self.server.next(*sent).is_some() => {
                add(Fault::LoseEvent);
            }
            Open::List { request, sent: None, .. } => {
                let pages = open::pages(&self.server, request).unwrap_or_default();
                if pages.first().is_some_and(|page| !page.items.is_empty()) {
                    add(Fault::ItemWithoutName);
                }
            }
            _ => {}
        }
    }

    fn handler_moves(&self, actions: &mut Vec<Action>) {
        if self.left.moves == 0 {
            return;
        }
        let next = self.judge.past().handlers.len() as HandlerId;
        if next <= self.left.handlers {
            actions.push(Action::AddHandler(next));
        }
        for member in &self.client.members {
            actions.push(Action::RemoveHandler(member.id));
            actions.push(Action::Resync(member.id));
        }
    }

    /// Executes an action and the following immediate actions.
    ///
    /// # Errors
    /// Fails if a property is violated.
    pub fn act(&mut self, action: &Action) -> Outcome {
        self.pay(action);
        self.happen(action)?;
        self.prompt()
    }

    fn happen(&mut self, action: &Action) -> Outcome {
        match action {
            Action::Change(change) => self.change(*change),
            Action::Fault(fault) => self.fault(*fault),
            Action::Page(page) => self.page(page, true),
            Action::PageEnd => self.page_end(),
            Action::Refuse => self.refuse(),
            Action::Event => self.event(),
            Action::InitialEnd => self.initial_end(),
            Action::Bookmark => self.bookmark(),
            Action::End(end) => {
                if *end != WatchEnd::Early {
                    self.haste = 0;
                }
                self.open = Open::None;
                self.input(Input::WatchEnded(*end), None)
            }
            Action::Fire(deadline) => {
                self.haste = 0;
                self.client.disarm(*deadline);
                self.input(Input::Fired(*deadline), None)
            }
            Action::Relist => {
                self.haste = 0;
                self.input(Input::Relist, None)
            }
            Action::Apply => self.apply(),
            Action::Deliver(id) => self.take(*id),
            Action::Return(id) => self.returned(*id),
            Action::AddHandler(id) => self.join(*id),
            Action::RemoveHandler(id) => self.remove(*id),
            Action::Resync(id) => {
                self.client.resync(*id);
                self.judge.observe(Observation::Resynced { handler: *id })
            }
        }
    }

    /// Subtracts the cost of the action from the remaining bounds.
    fn pay(&mut self, action: &Action) {
        let stuck = self.is_stuck();
        let left = &mut self.left;
        let outside = match action {
            Action::Change(_) => {
                left.changes -= 1;
                true
            }
            Action::Fault(fault) => {
                left.faults -= 1;
                left.changes -= u8::from(matches!(fault, Fault::WriteUndecodable(_)));
                true
            }
            Action::AddHandler(_) | Action::RemoveHandler(_) | Action::Resync(_) => {
                left.moves -= 1;
                false
            }
            Action::Relist if self.unasked => true,
            Action::Fire(Deadline::Backoff) => false,
            Action::End(WatchEnd::Full) | Action::Fire(_) if stuck => false,
            Action::End(_) | Action::Fire(_) | Action::Relist => {
                left.times -= 1;
                true
            }
            _ => false,
        };
        if outside {
            self.tries = 0;
        }
    }

    fn change(&mut self, change: Change) -> Outcome {
        match change {
            Change::Put(key) => {
                let object = self.server.put(key, true);
                self.judge.observe(Observation::Written { object, decodable: true })?;
            }
            Change::Delete(key) => {
                let version = self.server.delete(key);
                self.judge.observe(Observation::Deleted { key, version })?;
            }
            Change::OtherType => self.server.elsewhere(),
        }
        self.written()
    }

    fn fault(&mut self, fault: Fault) -> Outcome {
        match fault {
            Fault::WriteUndecodable(key) => {
                let object = self.server.put(key, false);
                self.judge.observe(Observation::Written { object, decodable: false })?;
                self.written()
            }
            Fault::Compact => {
                // A client that has not received the compacted events gets an error.
                let (Open::Watch { sent, .. } | Open::Stream { sent, .. }) = &self.open else {
                    return self.compact();
                };
                if self.server.next(*sent).is_some() {
                    self.open = Open::Refused(Refusal::Expired);
                }
                self.compact()
            }
            Fault::Restore(version) => self.restore(version),
            Fault::Fail(class) => {
                self.open = Open::None;
                self.input(Input::Failed(class, None), None)
            }
            Fault::Stall => {
                self.open = Open::Stalled;
                Ok(())
            }
            Fault::Repeat(version) => self.repeat(version),
            Fault::LoseEvent => self.lose(),
            Fault::ItemWithoutName => {
                let Open::List { request, .. } = &self.open else { return Ok(()) };
                let Ok(pages) = open::pages(&self.server, request) else { return Ok(()) };
                pages.first().map_or(Ok(()), |page| self.page(page, false))
            }
        }
    }

    fn compact(&mut self) -> Outcome {
        self.server.compact();
        self.judge.observe(Observation::Compacted { version: self.server.version() })
    }

    fn page(&mut self, page: &Page, complete: bool) -> Outcome {
        let Open::List { fresh, sent, .. } = &mut self.open else { return Ok(()) };
        let reuse = Reuse::listing(*fresh);
        *sent = Some(page.clone());
        let named = page.items.iter().skip(usize::from(!complete));
        let items = named.map(|item| match self.decode(*item, reuse) {
            Ok(entry) => Listed::Object(entry),
            Err(id) => Listed::Undecodable(id),
        });
        let items = items.collect();
        match page.items.is_empty() {
            true => self.page_end(),
            false => self.input(Input::Items { complete }, Some(Delta::Page(items))),
        }
    }

    fn page_end(&mut self) -> Outcome {
        let Open::List { sent: Some(page), .. } = &self.open else { return Ok(()) };
        let Page { version, next, .. } = page.clone();
        self.open = Open::None;
        self.input(Input::PageEnd { version: &version.into(), next: next.as_deref() }, None)
    }

    fn refuse(&mut self) -> Outcome {
        let refusal = match &self.open {
            Open::Refused(refusal) => Some(*refusal),
            Open::List { request, .. } => open::pages(&self.server, request).err(),
            _ => None,
        };
        let Some(refusal) = refusal else { return Ok(()) };
        self.open = Open::None;
        self.input(Input::Failed(refusal.class(), None), None)
    }

    fn event(&mut self) -> Outcome {
        let (write, reuse) = match &mut self.open {
            Open::Stream { initial, fresh, .. } if !initial.is_empty() => {
                let stored = initial.remove(0);
                (Write::Put { stored, created: true }, Reuse::listing(*fresh))
            }
            Open::Stream { sent, fresh, .. } => {
                let Some((version, write)) = self.server.next(*sent) else { return Ok(()) };
                *sent = version;
                (write, Reuse::listing(*fresh))
            }
            Open::Watch { sent, reuse, .. } => {
                let Some((version, write)) = self.server.next(*sent) else { return Ok(()) };
                *sent = version;
                (write, *reuse)
            }
            _ => return Ok(()),
        };
        self.send(write, reuse)
    }

    fn send(&mut self, write: Write, reuse: Reuse) -> Outcome {
        let (kind, version, delta) = match write {
            Write::Elsewhere => return Ok(()),
            Write::Put { stored, created } => {
                let kind = if created { EventKind::Added } else { EventKind::Changed };
                (kind, stored.object.version, self.delta(stored, reuse))
            }
            Write::Deleted { last } => {
                let Stored { object, decodable } = last;
                let last = decodable.then(|| super::test_object::decoded(object));
                let delta = Delta::Remove { id: super::test_object::id(&object), last };
                (EventKind::Changed, object.version, delta)
            }
        };
        let version: ResourceVersion = version.into();
        self.input(Input::Event { kind, version: &version }, Some(delta))
    }

    fn repeat(&mut self, version: u64) -> Outcome {
        let Open::Watch { reuse, .. } = &self.open else { return Ok(()) };
        let reuse = *reuse;
        match self.server.write(version) {
            Some(write) => self.send(write, reuse),
            None => Ok(()),
        }
    }

    fn lose(&mut self) -> Outcome {
        if let Open::Watch { sent, .. } | Open::Stream { sent, .. } = &mut self.open
            && let Some((version, _)) = self.server.next(*sent)
        {
            *sent = version;
        }
        self.lost = CacheGap::Until(self.begins_waiting());
        self.unasked = true;
        Ok(())
    }

    fn initial_end(&mut self) -> Outcome {
        let Open::Stream { sent, fresh, .. } = &self.open else { return Ok(()) };
        let (sent, reuse) = (*sent, Reuse::listing(*fresh));
        self.open = Open::Watch { sent, bookmarked: sent, reuse };
        let version: ResourceVersion = sent.into();
        let input = Input::Event { kind: EventKind::InitialEnd, version: &version };
        self.input(input, Some(Delta::Bookmark(version.clone())))
    }

    fn bookmark(&mut self) -> Outcome {
        let version = self.server.version();
        let Open::Watch { sent, bookmarked, .. } = &mut self.open else { return Ok(()) };
        (*sent, *bookmarked) = (version, version);
        let version: ResourceVersion = version.into();
        let input = Input::Event { kind: EventKind::Bookmark, version: &version };
        self.input(input, Some(Delta::Bookmark(version.clone())))
    }
}
