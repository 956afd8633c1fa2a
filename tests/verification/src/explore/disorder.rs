//! Events out of order: swapped events, and watches that continue after a restore.

use kube_object::ResourceVersion;
use kube_reflector::{EventKind, State};

use super::{
    action::Fault,
    cache_gap::CacheGap,
    open::{Open, Refusal, Reuse},
    server::Write,
    world::{Outcome, World, known},
};
use crate::properties::Observation;

impl World {
    /// Adds the faults of a server that sends events out of order.
    pub(super) fn disorder(&self, add: &mut impl FnMut(Fault)) {
        if !self.left.unordered {
            return;
        }
        if self.next_two().is_some() {
            add(Fault::SwapEvents);
        }
        let (base, version) = (self.server.base, self.server.version());
        if matches!(self.open, Open::Watch { .. }) && base < version {
            add(Fault::RestoreBehindWatch(base));
            if base + 1 < version {
                add(Fault::RestoreBehindWatch(version - 1));
            }
        }
    }

    /// Returns the next two events of the watch or streaming list with their versions, if they concern
    /// different objects.
    fn next_two(&self) -> Option<[(u64, Write); 2]> {
        let (Open::Watch { initial, sent, .. } | Open::Stream { initial, sent, .. }) = &self.open else {
            return None;
        };
        let first = self.server.next(*sent).filter(|_| initial.is_empty())?;
        let second = self.server.next(first.0)?;
        (first.1.key() != second.1.key()).then_some([first, second])
    }

    /// Sends the second of the next two events, and then the first.
    ///
    /// The reflector discards the first event during a watch, so the cache misses a change until a list.
    /// No event is missing in a streaming list, in which events have no order.
    pub(super) fn swap(&mut self) -> Outcome {
        let Some([(_, first), (version, second)]) = self.next_two() else { return Ok(()) };
        let reuse = match &mut self.open {
            Open::Watch { sent, reuse, .. } => {
                *sent = version;
                *reuse
            }
            Open::Stream { sent, fresh, .. } => {
                *sent = version;
                Reuse::listing(*fresh)
            }
            _ => return Ok(()),
        };
        if matches!(self.client.machine, State::Watching(_)) {
            self.lost = CacheGap::Until(self.begins_waiting());
        }
        self.send(second, reuse)?;
        self.prompt()?;
        self.send(first, reuse)
    }

    /// Records whether the next event of a watch is out of order.
    ///
    /// If the server has lost its history, the first such event after a list must cause a check of its
    /// version. Later ones cause no check, but a list follows the watch.
    pub(super) fn note_order(&mut self, kind: EventKind, version: &ResourceVersion) {
        if !self.left.unordered || !matches!(self.client.machine, State::Watching(_)) {
            return;
        }
        let (version, position) = (known(version), self.position.version);
        let is_repeat = version == position && !matches!(kind, EventKind::Bookmark | EventKind::InitialEnd);
        if version < position || is_repeat {
            self.unchecked |= !self.disordered && Some(self.server.version()) < position;
            self.disordered = true;
        }
    }

    /// Restores the server. An open watch becomes silent, or continues from the restored state.
    pub(super) fn restore(&mut self, version: u64, continues: bool) -> Outcome {
        if self.horizon() > Some(version) {
            self.restored = CacheGap::Until(self.begins_waiting());
        }
        self.server.restore(version);
        self.lose_saved(version);
        self.observe_server(Observation::Restored { version })?;
        match &mut self.open {
            Open::Watch { sent, bookmarked, .. } if continues => {
                (*sent, *bookmarked) = (version.min(*sent), version.min(*bookmarked));
            }
            // The API servers restart, which closes all requests except undetected watches.
            Open::List { .. } | Open::Stream { .. } => self.open = Open::Refused(Refusal::Broken),
            _ => {}
        }
        self.written()
    }
}
