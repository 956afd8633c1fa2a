//! A process that starts with the snapshot of an earlier process.
//!
//! The snapshot is written in any state of the cache, and the process crashes at any time after. Between the
//! crash and the check of the server's version, the server can change, lose its history or be restored.

use std::hash::{Hash, Hasher};

use kube_object::{Delta, Entry};
use kube_reflector::Input;

use super::{
    action::{Action, Verification},
    bounds::Versions,
    cache_gap::CacheGap,
    test_object::{self, TestObject},
    world::{Outcome, World, known},
};
use crate::properties::{Cause, Judge, Mark, Observation};

/// The contents of a snapshot.
#[derive(Clone)]
pub struct SavedState {
    entries: Vec<Entry<TestObject>>,
    pub(super) version: u64,
    /// False if the last state of an object could not be decoded.
    is_complete: bool,
    /// A restore of the server has undone writes up to this version.
    is_lost: bool,
    /// The judge at this time, which observes all later writes of the server.
    judge: Judge,
}

impl Hash for SavedState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut objects: Vec<_> = self.entries.iter().map(|entry| entry.0).collect();
        objects.sort_unstable();
        (objects, self.version, self.is_complete, self.is_lost).hash(state);
        self.judge.past().server.lives.hash(state);
    }
}

impl World {
    /// Adds the write of a snapshot, and a restart with this snapshot.
    pub(super) fn restarts(&self, actions: &mut Vec<Action>) {
        if self.left.restarts == 0 {
            return;
        }
        if self.saved.is_some() {
            return actions.push(Action::Restart);
        }
        // A lost event is a fault that no client detects. The next process would also miss it.
        let has_gap = self.lost != CacheGap::None || self.incomplete || self.disordered;
        let watermark = self.client.store.watermark();
        let is_saved = watermark.synced && watermark.version.is_some() && !has_gap;
        if is_saved && self.left.versions == Versions::OneHistory {
            actions.push(Action::Save);
        }
    }

    /// Adds the possible results of the check of the server's version.
    pub(super) fn verifications(&self, actions: &mut Vec<Action>) {
        let Some(saved) = &self.verifying else { return };
        actions.push(Action::Verify(Verification::Old));
        actions.push(Action::Verify(Verification::Fails));
        // A watch does not recognize a restored server that has passed the version. The documentation
        // describes this limit, and how to turn off resumed watches.
        let is_lower = self.server.version() < saved.version;
        if !is_lower && saved.is_complete && !saved.is_lost {
            actions.push(Action::Verify(Verification::Young));
        }
    }

    /// Reports an observation of the server to this process and to the next process.
    pub(super) fn observe_server(&mut self, observation: Observation<'_>) -> Outcome {
        if let Some(saved) = &mut self.saved {
            saved.judge.observe(observation)?;
        }
        self.judge.observe(observation)
    }

    /// Records a restore of the server to this version.
    pub(super) fn lose_saved(&mut self, version: u64) {
        for saved in self.saved.iter_mut().chain(&mut self.verifying) {
            saved.is_lost |= saved.version > version;
        }
    }

    pub(super) fn save(&mut self) -> Outcome {
        let snapshot = self.client.store.snapshot();
        let Some(version) = snapshot.watermark().version.as_ref().and_then(known) else { return Ok(()) };
        let entries = snapshot.iter().filter(|entry| !snapshot.is_stale(entry.key())).cloned();
        self.saved = Some(SavedState {
            entries: entries.collect(),
            version,
            is_complete: snapshot.stale_len() == 0,
            is_lost: self.restored != CacheGap::None || self.passed,
            judge: self.judge.clone(),
        });
        Ok(())
    }

    pub(super) fn restart(&mut self) -> Outcome {
        let Some(saved) = self.saved.take() else { return Ok(()) };
        *self = Self::before_start(self.left, self.server.clone(), saved.judge.clone().restarted());
        self.client.is_restored = self.client.store.restore(saved.entries.clone());
        self.verifying = Some(saved);
        self.judge.observe(Observation::Position { mark: Mark::default(), cause: Cause::Changes })?;
        (0..self.left.handlers).try_for_each(|handler| self.join(handler))
    }

    /// Verifies the restored contents, by the table in docs/warm-restarts.md.
    pub(super) fn verify(&mut self, how: Verification) -> Outcome {
        let Some(saved) = self.verifying.take() else { return Ok(()) };
        if how == Verification::Fails {
            return self.input(Input::Start, None);
        }
        if self.server.version() < saved.version {
            self.client.apply(vec![Delta::Clear]);
            return self.input(Input::Start, None);
        }
        if how == Verification::Old {
            return self.input(Input::Start, None);
        }
        self.position.version = Some(saved.version);
        self.judge.observe(Observation::Position { mark: self.position, cause: Cause::Changes })?;
        self.client.store.confirm_restored(saved.version.into());
        let adds = self.client.deliver_verified();
        let adds: Vec<_> = adds.iter().map(test_object::seen).collect();
        self.show(&adds, Cause::Relist { fresh: false })?;
        self.judge.observe(Observation::InformerSynced)?;
        self.show_synced()?;
        self.input(Input::Resume(&saved.version.into()), None)
    }
}
