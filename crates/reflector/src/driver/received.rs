//! Turns the received data of lists and watches into inputs of the state machine.

use kube_listwatch::{Decoded, ListPart, ListWatchError, Target, Verb, WatchEvent};
use kube_object::{DecodeError, Delta, Listed};

use super::Driver;
use crate::{EventKind, Input, Sink, State, separate_nameless, slots::Route};

/// The error of a source whose list does not end.
pub(super) const NO_LIST_END: &str = "the stream of the list closed before ListPart::End";

impl<T: Send + Sync + 'static, S: Sink<T>> Driver<T, S> {
    pub(super) fn part(&mut self, part: Option<Result<ListPart<T>, ListWatchError>>) {
        match part {
            Some(Ok(ListPart::Items { mut items, mut nameless })) => {
                separate_nameless(&mut items, &mut nameless);
                if items.is_empty() && nameless.is_empty() {
                    return;
                }
                let complete = nameless.is_empty();
                self.unreadable.nameless(nameless);
                if let Some(sharding) = &self.sharding {
                    items.retain(|item| sharding.lists(item.id()));
                }
                let listed: Vec<_> = items.into_iter().map(|item| self.listed(item)).collect();
                self.report_unreadable();
                let all_other = self.sharding.is_some() && listed.is_empty();
                self.step(Input::Items { complete }, || (!all_other).then_some(Delta::Page(listed)));
            }
            Some(Ok(ListPart::OtherSlots { .. })) => self.step(Input::Items { complete: true }, || None),
            Some(Ok(ListPart::End(end))) => {
                self.succeeded();
                let input = Input::PageEnd { version: &end.version, next: end.next.as_deref() };
                self.step(input, || None);
            }
            Some(Err(error)) => self.failed(&error),
            None => {
                self.failed(&ListWatchError::list_function(NO_LIST_END));
            }
        }
    }

    pub(super) fn abandon_pages(&self, pages: u32) {
        let target = Target { verb: Verb::List, url: self.reflector.source.path() };
        self.reflector.reports.failed(&ListWatchError::EndlessPages { target, pages }, false);
    }

    pub(super) fn events(&mut self, events: Option<Result<Vec<WatchEvent<T>>, ListWatchError>>) {
        match events {
            Some(Ok(events)) => {
                let only_opened = events.iter().all(|event| matches!(event, WatchEvent::Opened));
                let success = !(only_opened && self.failed_after_open);
                self.failed_after_open &= !success;
                let bookmarks = events.iter().any(|event| matches!(event, WatchEvent::Bookmark { .. }));
                let is_object = |event: &WatchEvent<T>| match event {
                    WatchEvent::OtherSlot { .. } => true,
                    event => event.object_id().is_some(),
                };
                let objects = events.iter().filter(|event| is_object(event)).count();
                self.reflector.reports.events_received(objects, bookmarks, success);
                let request = self.requests;
                for event in events {
                    self.event(event);
                    // The next events belong to a watch that is no longer open.
                    if self.requests != request {
                        break;
                    }
                }
                self.report_unreadable();
            }
            Some(Err(error)) => self.failed(&error),
            None => self.watch_ended(),
        }
    }

    fn event(&mut self, event: WatchEvent<T>) {
        let id = event.object_id();
        if id.is_some_and(|id| !id.has_name()) {
            let target = Target { verb: Verb::Watch, url: self.reflector.source.path() };
            return self.failed(&ListWatchError::Nameless { target, reason: DecodeError::NoName });
        }
        let route = match (&self.sharding, event.object_id()) {
            (Some(sharding), Some(id)) => sharding.route(id),
            _ => Route::Deliver,
        };
        let (kind, version) = match &event {
            WatchEvent::Opened => return self.step(Input::Opened, || None),
            WatchEvent::Bookmark { version, initial_events_end: false } => (EventKind::Bookmark, version),
            WatchEvent::Bookmark { version, initial_events_end: true } => (EventKind::InitialEnd, version),
            WatchEvent::Added(object) => (EventKind::Added, &object.id().version),
            WatchEvent::Modified(object) => (EventKind::Changed, &object.id().version),
            WatchEvent::Deleted { id, .. } => (EventKind::Changed, &id.version),
            WatchEvent::OtherSlot { added: true, version } => (EventKind::Added, version),
            WatchEvent::OtherSlot { added: false, version } => (EventKind::Changed, version),
        };
        let version = version.clone();
        let delta = match event {
            WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted { .. }
                if route == Route::Skip =>
            {
                Delta::Bookmark(version.clone())
            }
            WatchEvent::Added(object) | WatchEvent::Modified(object) => self.put(object),
            WatchEvent::Deleted { id, last } => Delta::Remove { id, last },
            _ => Delta::Bookmark(version.clone()),
        };
        let input = Input::Event { kind, version: &version };
        if route != Route::Collect {
            return self.step(input, || Some(delta));
        }
        let mut collected = None;
        self.step(input, || {
            collected = Some(delta);
            Some(Delta::Bookmark(version.clone()))
        });
        if let (Some(delta), Some(sharding)) = (collected, &mut self.sharding) {
            sharding.gain.add_event(delta);
        }
    }

    fn put(&mut self, object: Decoded<T>) -> Delta<T> {
        match object {
            Decoded::Object(entry) => Delta::Put(entry),
            Decoded::Undecodable { id, error } => {
                if matches!(self.machine, State::Streaming(_)) {
                    self.unreadable.listed(&id, &error);
                } else {
                    self.unreadable.event(&id, &error);
                }
                Delta::Undecodable(id)
            }
        }
    }

    pub(super) fn listed(&mut self, item: Decoded<T>) -> Listed<T> {
        match item {
            Decoded::Object(entry) => Listed::Object(entry),
            Decoded::Undecodable { id, error } => {
                self.unreadable.listed(&id, &error);
                Listed::Undecodable(id)
            }
        }
    }

    pub(super) fn report_unreadable(&mut self) {
        let counts = self.unreadable.take_counts();
        self.reflector.reports.unreadable(counts);
    }
}
