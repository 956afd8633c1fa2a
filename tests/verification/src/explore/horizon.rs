//! The part of the server's history that a client can still depend on or read.

use kube_listwatch::ListAt;
use kube_reflector::{AfterBackoff, State};

use super::{
    open::Open,
    possible_actions::REPEATED,
    world::{World, known},
};

impl World {
    /// Returns the first version of the history that the client depends on.
    pub(super) fn horizon(&self) -> Option<u64> {
        let planned = |plan: &kube_reflector::ListPlan| match &plan.at {
            ListAt::NotOlderThan(version) => known(version),
            _ => None,
        };
        let machine = match &self.client.machine {
            State::Idle => None,
            State::Listing(list) => list.version.as_ref().and_then(known).max(planned(&list.plan)),
            State::Streaming(stream) => planned(&stream.plan),
            State::Watching(watching) => known(&watching.position.version),
            State::Waiting(waiting) => match &waiting.then {
                AfterBackoff::List { plan, .. } => planned(plan),
                AfterBackoff::Watch(position) => known(&position.version),
            },
        };
        machine.max(self.position.version)
    }

    /// Returns the first version of the history that a client can still read. Only the first list can
    /// request any state, possibly at the base.
    pub(super) fn reads_from(&self) -> u64 {
        let machine = match &self.client.machine {
            State::Idle | State::Streaming(_) => None,
            State::Listing(list) => list.version.as_ref(),
            State::Watching(watching) => Some(&watching.position.version),
            State::Waiting(waiting) => match &waiting.then {
                AfterBackoff::List { .. } => None,
                AfterBackoff::Watch(position) => Some(&position.version),
            },
        };
        let open = match &self.open {
            // Events may be repeated.
            Open::Watch { sent, .. } | Open::Stream { sent, .. } if self.left.faults > 0 => {
                *sent - REPEATED - 1
            }
            Open::Watch { sent, .. } | Open::Stream { sent, .. } => *sent,
            Open::List { .. } | Open::None | Open::Refused(_) | Open::Stalled => u64::MAX,
        };
        // A restore goes back by one version, or to the base.
        let restored = match self.left.faults {
            0 => u64::MAX,
            faults => self.server.version() - u64::from(faults),
        };
        let machine = machine.and_then(known).unwrap_or(u64::MAX);
        let saved = self.saved.iter().chain(&self.verifying).map(|saved| saved.version).min();
        let machine = machine.min(saved.unwrap_or(u64::MAX));
        machine.min(open).min(restored).min(self.server.version())
    }
}
