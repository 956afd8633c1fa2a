//! The possible actions of a world.

use kube_listwatch::ErrorClass;
use kube_reflector::{AfterBackoff, Deadline, State, WatchEnd};

use super::{
    action::{Action, Change, Fault},
    bounds::Versions,
    open::{self, Open},
    server::Write,
    world::World,
};
use crate::properties::{HandlerId, Violation};

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
        if self.stopped {
            return Ok(Vec::new());
        }
        let mut actions = self.client_actions();
        self.verifications(&mut actions);
        if self.client.outgoing.is_empty() {
            self.answers(&mut actions);
            self.passing_time(&mut actions);
            self.check_restore()?;
        }
        if self.is_quiet() {
            self.quiet()?;
        } else if actions.is_empty() {
            return Err(Violation { property: 2, how: "no further action is possible".to_owned() });
        }
        self.restarts(&mut actions);
        self.changes(&mut actions);
        self.faults(&mut actions);
        self.handler_moves(&mut actions);
        actions.extend(self.left.stops.then_some(Action::Stop));
        Ok(actions)
    }

    pub(super) fn client_actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if !self.client.fifo.is_empty() {
            actions.push(Action::Apply);
        }
        for member in &self.client.members {
            match &member.in_hand {
                Some(_) => actions.push(Action::Return(member.id)),
                None if !member.backlog.is_empty() || member.resync.is_some() => {
                    actions.push(Action::Deliver(member.id));
                }
                None => {}
            }
        }
        actions
    }

    /// After a failure or an event out of order, a watch must not wait in silence for a restored server.
    fn check_restore(&self) -> Result<(), Violation> {
        let is_silent = matches!(self.open, Open::Watch { .. }) && self.is_stuck();
        let how = "a restored server is not detected after a reconnect or an event out of order".to_owned();
        match is_silent && self.unchecked && !self.check {
            true => Err(Violation { property: 2, how }),
            false => Ok(()),
        }
    }

    fn answers(&self, actions: &mut Vec<Action>) {
        if self.check {
            actions.push(Action::Version);
        }
        match &self.open {
            Open::None | Open::Stalled => {}
            Open::Refused(_) => actions.push(Action::Refuse),
            Open::List { sent: Some(_), .. } => actions.push(Action::PageEnd),
            Open::List { request, sent: None, .. } => {
                match open::pages(&self.server, request, self.left.versions) {
                    Ok(pages) => actions.extend(pages.into_iter().map(Action::Page)),
                    Err(_) => actions.push(Action::Refuse),
                }
            }
            Open::Watch { initial, .. } if !initial.is_empty() => actions.push(Action::Event),
            Open::Watch { sent, bookmarked, .. } => {
                let next = self.server.next(*sent).is_some();
                let version = self.server.version();
                if next {
                    actions.push(Action::Event);
                } else if version > *sent.max(bookmarked) && self.left.versions != Versions::PerObject {
                    actions.push(Action::Bookmark);
                }
            }
            Open::Stream { accepted: false, .. } => actions.push(Action::Accept),
            Open::Stream { initial, sent, ends, .. } => {
                if !initial.is_empty() || self.server.next(*sent).is_some() {
                    actions.push(Action::Event);
                }
                if initial.is_empty() && *ends {
                    actions.push(Action::InitialEnd);
                }
                // A server that ignores the parameters sends the bookmarks of a plain watch.
                let news = self.server.next(*sent).is_none() && self.server.version() > *sent;
                if initial.is_empty() && !ends && news && self.left.versions != Versions::PerObject {
                    actions.push(Action::Bookmark);
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
        if watch && (stuck || may || self.needs_list()) {
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
        let restores = self.left.versions == Versions::OneHistory;
        if base < version {
            add(Fault::Compact);
            if restores {
                add(Fault::Restore(base));
            }
        }
        if base + 1 < version && restores {
            add(Fault::Restore(version - 1));
        }
        if !self.client.outgoing.is_empty() || self.open == Open::None {
            return;
        }
        CLASSES.into_iter().map(Fault::Fail).for_each(&mut add);
        if self.open != Open::Stalled {
            add(Fault::Stall);
        }
        self.disorder(&mut add);
        match &self.open {
            Open::Watch { initial, .. } if !initial.is_empty() => {}
            Open::Watch { sent, .. } => {
                let event = |version: &u64| {
                    self.server.write(*version).is_some_and(|write| write != Write::Elsewhere)
                };
                let repeated = (*sent - REPEATED..=*sent).filter(|_| restores);
                repeated.filter(event).map(Fault::Repeat).for_each(&mut add);
                if self.server.next(*sent).is_some() {
                    add(Fault::LoseEvent);
                }
            }
            Open::Stream { initial, sent, .. } if initial.is_empty() && self.server.next(*sent).is_some() => {
                add(Fault::LoseEvent);
            }
            Open::List { request, sent: None, .. } => {
                let pages = open::pages(&self.server, request, self.left.versions).unwrap_or_default();
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
}
