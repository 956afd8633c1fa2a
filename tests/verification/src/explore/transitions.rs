//! The execution of actions.

use kube_listwatch::{Decoded, ErrorClass};
use kube_object::{Delta, Listed};
use kube_reflector::{Deadline, EventKind, Input, WatchEnd, separate_nameless};

use super::{
    action::{Action, Change, Fault},
    cache_gap::CacheGap,
    open::{self, Open, Page, Refusal, Reuse},
    server::Write,
    test_object,
    world::{Outcome, World},
};
use crate::properties::{Observation, Violation};

impl World {
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
            Action::Accept => self.accept(),
            Action::Version => {
                (self.check, self.unchecked) = (false, false);
                let version = self.left.versions.of_list(self.server.version());
                self.input(Input::ServerVersion(&version), None)
            }
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
            Action::Stop => self.stop(),
            Action::Save => self.save(),
            Action::Restart => self.restart(),
            Action::Verify(how) => self.verify(*how),
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
        let (stuck, silent) = (self.is_stuck(), self.needs_list());
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
            Action::Stop => {
                left.stops = false;
                false
            }
            Action::Restart => {
                left.restarts -= 1;
                true
            }
            Action::Relist if self.unasked => true,
            Action::Fire(Deadline::Backoff) => false,
            Action::End(WatchEnd::Full) if stuck || silent => false,
            Action::Fire(_) if stuck => false,
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

    fn change(&mut self, change: Change) -> Outcome {
        match change {
            Change::Put(key) => {
                let object = self.server.put(key, true);
                self.observe_server(Observation::Written { object, decodable: true })?;
            }
            Change::Delete(key) => {
                let version = self.server.delete(key);
                self.observe_server(Observation::Deleted { key, version })?;
            }
            Change::OtherType => self.server.elsewhere(),
        }
        self.written()
    }

    fn fault(&mut self, fault: Fault) -> Outcome {
        match fault {
            Fault::WriteUndecodable(key) => {
                let object = self.server.put(key, false);
                self.observe_server(Observation::Written { object, decodable: false })?;
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
            Fault::Restore(version) => self.restore(version, false),
            Fault::RestoreBehindWatch(version) => self.restore(version, true),
            Fault::Fail(class) => {
                self.failed = matches!(class, ErrorClass::Overloaded | ErrorClass::Broken);
                self.open = Open::None;
                self.input(Input::Failed(class, None), None)
            }
            Fault::Stall => {
                self.open = Open::Stalled;
                Ok(())
            }
            Fault::Repeat(version) => self.repeat(version),
            Fault::LoseEvent => self.lose(),
            Fault::SwapEvents => self.swap(),
            Fault::ItemWithoutName => {
                let Open::List { request, .. } = &self.open else { return Ok(()) };
                let Ok(pages) = open::pages(&self.server, request, self.left.versions) else { return Ok(()) };
                pages.first().map_or(Ok(()), |page| self.page(page, false))
            }
        }
    }

    fn compact(&mut self) -> Outcome {
        self.server.compact();
        self.observe_server(Observation::Compacted { version: self.server.version() })
    }

    fn page(&mut self, page: &Page, complete: bool) -> Outcome {
        let Open::List { fresh, sent, .. } = &mut self.open else { return Ok(()) };
        let reuse = Reuse::listing(*fresh);
        *sent = Some(page.clone());
        let mut items: Vec<_> = page.items.iter().map(|item| self.decode(*item, reuse)).collect();
        if let Some(first) = items.first_mut().filter(|_| !complete) {
            *first = test_object::without_name(first);
        }
        let mut nameless = Vec::new();
        separate_nameless(&mut items, &mut nameless);
        let listed = items.into_iter().map(|item| match item {
            Decoded::Object(entry) => Listed::Object(entry),
            Decoded::Undecodable { id, .. } => Listed::Undecodable(id),
        });
        let listed = listed.collect();
        match page.items.is_empty() {
            true => self.page_end(),
            false => self.input(Input::Items { complete: nameless.is_empty() }, Some(Delta::Page(listed))),
        }
    }

    fn page_end(&mut self) -> Outcome {
        let Open::List { sent: Some(page), .. } = &self.open else { return Ok(()) };
        let Page { version, next, .. } = page.clone();
        self.open = Open::None;
        let version = self.left.versions.of_list(version);
        self.input(Input::PageEnd { version: &version, next: next.as_deref() }, None)
    }

    fn refuse(&mut self) -> Outcome {
        let refusal = match &self.open {
            Open::Refused(refusal) => Some(*refusal),
            Open::List { request, .. } => open::pages(&self.server, request, self.left.versions).err(),
            _ => None,
        };
        let Some(refusal) = refusal else { return Ok(()) };
        self.open = Open::None;
        self.input(Input::Failed(refusal.class(), None), None)
    }

    fn accept(&mut self) -> Outcome {
        if let Open::Stream { accepted, .. } = &mut self.open {
            *accepted = true;
        }
        self.input(Input::Opened, None)
    }

    /// Stops the informer: the store is closed, and the handlers are removed. Queued deltas are applied
    /// to the closed store, as if the task of the informer were a step behind.
    fn stop(&mut self) -> Outcome {
        let before = self.client.shown();
        self.client.store.close();
        self.open = Open::None;
        for id in self.client.members.iter().map(|member| member.id).collect::<Vec<_>>() {
            self.remove(id)?;
        }
        self.client.outgoing.clear();
        while !self.client.fifo.is_empty() {
            let batch = self.client.pop();
            if !self.client.store.apply(batch).is_empty() {
                return Err(Violation { property: 20, how: "a closed store reports changes".to_owned() });
            }
        }
        self.client.store.check();
        if self.client.shown() != before {
            return Err(Violation { property: 20, how: "a closed store changes".to_owned() });
        }
        self.stopped = true;
        self.judge.observe(Observation::Stopped { tasks: 0, sockets: 0, timers: 0 })
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
            Open::Watch { initial, reuse, .. } if !initial.is_empty() => {
                let stored = initial.remove(0);
                (Write::Put { stored, created: true }, *reuse)
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

    pub(super) fn send(&mut self, write: Write, reuse: Reuse) -> Outcome {
        let (kind, version, delta) = match write {
            Write::Elsewhere => return Ok(()),
            Write::Put { stored, created } => {
                let kind = if created { EventKind::Added } else { EventKind::Changed };
                (kind, self.id(stored).version, self.delta(stored, reuse))
            }
            Write::Deleted { last } => {
                let id = self.id(last);
                let version = id.version.clone();
                let last = last.decodable.then(|| super::test_object::decoded(last.object, id.clone()));
                (EventKind::Changed, version, Delta::Remove { id, last })
            }
        };
        self.note_order(kind, &version);
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
        self.open = Open::Watch { initial: Vec::new(), sent, bookmarked: sent, reuse };
        let version = self.left.versions.of_bookmark(sent);
        let input = Input::Event { kind: EventKind::InitialEnd, version: &version };
        self.input(input, Some(Delta::Bookmark(version.clone())))
    }

    fn bookmark(&mut self) -> Outcome {
        let version = self.server.version();
        match &mut self.open {
            Open::Watch { sent, bookmarked, .. } => (*sent, *bookmarked) = (version, version),
            Open::Stream { sent, .. } => *sent = version,
            _ => return Ok(()),
        }
        let version = self.left.versions.of_bookmark(version);
        self.note_order(EventKind::Bookmark, &version);
        let input = Input::Event { kind: EventKind::Bookmark, version: &version };
        self.input(input, Some(Delta::Bookmark(version.clone())))
    }
}
