//! The server with all its writes, and the informers that observe it.

use std::{collections::BTreeMap, ops::Range};

use fastrand::Rng;
use kube_informer::ReflectorOptions;
use kube_testserver::{Corruption, Replica, Server, StreamingLists};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::{
    fault_coverage::{FaultCoverage, ReflectorState, SimulatedFault},
    history::{HistoryLines, Uids},
    setup::Setup,
    stack::Stack,
    workload::{API, BAD, CRD, KEYS, KIND, State, WRITE, body, crd, place},
};
use crate::properties::Key;

/// An informer and its environment.
pub(super) struct SimulatedInformer {
    pub(super) stack: Box<dyn Stack>,
    pub(super) second_replica: Option<Replica>,
    pub(super) options: ReflectorOptions,
}

pub(super) struct World {
    pub(super) server: Server,
    pub(super) setup: Setup,
    pub(super) watchers: Vec<SimulatedInformer>,
    pub(super) rng: Rng,
    pub(super) lines: HistoryLines,
    pub(super) coverage: FaultCoverage,
    pub(super) began: Instant,
    pub(super) uids: Uids,
    /// An object that the server can't read, until this is dropped.
    pub(super) corrupt: Option<(Key, Corruption)>,
    /// The support for streaming lists, with the start of each setting.
    pub(super) streams: Vec<(Duration, StreamingLists)>,
    /// Events may have been lost.
    pub(super) lost: bool,
    pub(super) served: bool,
    now: BTreeMap<Key, State>,
    log: Vec<(u64, Key, Option<State>)>,
    /// The versions from which the CRD existed or did not exist.
    crds: Vec<(u64, bool)>,
    /// The version ranges of removals of the CRD. etcd is not restored to versions in these ranges.
    removals: Vec<Range<u64>>,
    writes: u64,
}

impl World {
    pub(super) fn new(server: Server, setup: Setup, rng: Rng, lines: HistoryLines, uids: Uids) -> Self {
        let streams = vec![(Duration::ZERO, setup.streaming)];
        Self {
            server,
            setup,
            watchers: Vec::new(),
            rng,
            lines,
            coverage: FaultCoverage::default(),
            began: Instant::now(),
            uids,
            corrupt: None,
            streams,
            lost: false,
            served: false,
            now: BTreeMap::new(),
            log: Vec::new(),
            crds: Vec::new(),
            removals: Vec::new(),
            writes: 0,
        }
    }

    pub(super) fn log(&mut self, line: impl FnOnce() -> String) {
        self.lines.log(self.began.elapsed(), line);
    }

    /// Counts a fault for each informer, in its present state.
    pub(super) fn record_fault(&mut self, fault: SimulatedFault) {
        self.record_fault_in(fault, |_| true);
    }

    /// Records a fault for informers that have an open watch which it can affect.
    pub(super) fn record_fault_if_open(&mut self, fault: SimulatedFault) {
        self.record_fault_in(fault, |state| match state {
            ReflectorState::Watching => true,
            ReflectorState::Streaming => fault != SimulatedFault::LoseNext,
            _ => false,
        });
    }

    pub(super) fn record_fault_in(&mut self, fault: SimulatedFault, can: impl Fn(ReflectorState) -> bool) {
        self.log(|| format!("{fault:?}"));
        for watcher in &self.watchers {
            let recorder = watcher.stack.recorder().lock();
            let (status, scope) = (recorder.status(), recorder.scope);
            let last = match status.phase {
                kube_informer::Phase::Listing => self.server.journal().last(|request| scope.asks(request)),
                _ => None,
            };
            if let Some(state) = ReflectorState::of(&status, last.as_ref()).filter(|state| can(*state)) {
                self.coverage.count(fault, state);
            }
        }
    }

    /// Reports a write to the informers that observe it.
    fn observe(&self, key: Key, after: Option<&State>, version: u64) {
        for watcher in &self.watchers {
            let mut recorder = watcher.stack.recorder().lock();
            let seen = recorder.scope.observes(key, self.now.get(&key), after, version, &self.uids);
            if let Some(observation) = seen {
                recorder.observe(observation);
            }
        }
    }

    /// An object is like this from this version on.
    fn record(&mut self, key: Key, after: Option<State>, version: u64) {
        self.observe(key, after.as_ref(), version);
        self.log.push((version, key, after.clone()));
        match after {
            Some(state) => self.now.insert(key, state),
            None => self.now.remove(&key),
        };
    }

    fn stored(&mut self, key: Key, object: &Value) {
        let state = State::read(object);
        let version = state.version;
        self.log(|| format!("write {} to {:?} at {version}", state.write.max(state.status), place(key)));
        self.record(key, Some(state), version);
    }

    /// Changes some objects, or an object that no informer watches.
    pub(super) fn write(&mut self) {
        if !self.served || self.rng.u8(..10) == 0 {
            return self.write_elsewhere();
        }
        let key = self.rng.u32(..KEYS);
        if self.corrupt.as_ref().is_some_and(|(corrupt, _)| *corrupt == key) {
            return;
        }
        let Some(state) = self.now.get(&key).cloned() else { return self.create(key) };
        match self.rng.u8(..10) {
            _ if state.held && self.rng.bool() => self.release(key),
            0..=3 => self.patch(key),
            4 | 5 => self.write_status(key),
            6 | 7 => self.delete(key),
            _ => {
                self.delete(key);
                if !self.now.contains_key(&key) {
                    self.create(key);
                }
            }
        }
    }

    /// Raises the version of the server.
    pub(super) fn write_elsewhere(&mut self) {
        self.writes += 1;
        let name = json!({"name": "elsewhere", "namespace": "default"});
        let count = json!({"count": self.writes.to_string()});
        let written = self.server.create_or_replace(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": count
        }));
        written.expect("a ConfigMap can be written");
    }

    fn next_body(&mut self) -> Value {
        self.writes += 1;
        let (bad, labelled) = (self.rng.u8(..8) == 0, self.rng.u8(..4) > 0);
        body(self.writes, bad, labelled)
    }

    fn create(&mut self, key: Key) {
        let (namespace, name) = place(key);
        let mut object = self.next_body();
        object["apiVersion"] = API.into();
        object["kind"] = KIND.into();
        object["metadata"]["name"] = name.into();
        object["metadata"]["namespace"] = namespace.into();
        if object["metadata"]["annotations"][BAD].is_null()
            && let Some(annotations) = object["metadata"]["annotations"].as_object_mut()
        {
            annotations.remove(BAD);
        }
        if self.rng.u8(..6) == 0 {
            object["metadata"]["finalizers"] = json!(["sim.test/hold"]);
        }
        let created = self.server.create(&object).expect("a missing object can be created");
        self.stored(key, &created);
    }

    fn patch(&mut self, key: Key) {
        let ((namespace, name), patch) = (place(key), self.next_body());
        let patched = self.server.patch_untyped(API, KIND, Some(namespace), name, &patch);
        self.stored(key, &patched.expect("an existing object can be changed"));
    }

    fn write_status(&mut self, key: Key) {
        self.writes += 1;
        let (namespace, name) = place(key);
        let mut object =
            self.server.get_untyped(API, KIND, Some(namespace), name).expect("the object exists");
        object["status"] = json!({"write": self.writes});
        let written = self.server.update_status(&object).expect("a status can be written");
        self.stored(key, &written);
    }

    /// Changes all objects, but no label.
    pub(super) fn write_all_statuses(&mut self) {
        let keys: Vec<Key> = self.now.keys().copied().collect();
        keys.into_iter().for_each(|key| self.write_status(key));
    }

    fn delete(&mut self, key: Key) {
        let (namespace, name) = place(key);
        self.server
            .delete_untyped(API, KIND, Some(namespace), name)
            .expect("an existing object can be deleted");
        self.gone_or_held(key);
    }

    /// Takes the finalizer away, which deletes an object that waits for it.
    fn release(&mut self, key: Key) {
        let (namespace, name) = place(key);
        self.writes += 1;
        let patch =
            json!({"metadata": {"finalizers": null, "annotations": {WRITE: self.writes.to_string()}}});
        self.server
            .patch_untyped(API, KIND, Some(namespace), name, &patch)
            .expect("a finalizer can be removed");
        self.gone_or_held(key);
    }

    fn gone_or_held(&mut self, key: Key) {
        let (namespace, name) = place(key);
        match self.server.get_untyped(API, KIND, Some(namespace), name) {
            // A second delete of an object with a finalizer is not a write.
            Ok(object) if self.now.get(&key) == Some(&State::read(&object)) => {}
            Ok(object) => self.stored(key, &object),
            Err(_) => self.erased(key, self.server.resource_version()),
        }
    }

    fn erased(&mut self, key: Key, version: u64) {
        self.log(|| format!("delete {:?} at {version}", place(key)));
        self.record(key, None, version);
    }

    /// Creates the CRD.
    pub(super) fn serve(&mut self) {
        if !self.served {
            self.server.create(&crd()).expect("a CRD can be created");
            self.log(|| "the CRD is created".to_owned());
            self.served = true;
            self.crds.push((self.server.resource_version(), true));
        }
    }

    /// Removes the CRD with all objects. Returns false if a finalizer blocks the removal.
    pub(super) fn remove_crd(&mut self) -> bool {
        if !self.served || self.corrupt.is_some() || self.now.values().any(|state| state.held) {
            return false;
        }
        let before = self.server.resource_version();
        self.server.delete_untyped(CRD.0, CRD.1, None, CRD.2).expect("a CRD can be deleted");
        assert!(
            self.server.get_untyped(CRD.0, CRD.1, None, CRD.2).is_err(),
            "no finalizer blocks the removal of the CRD"
        );
        self.served = false;
        // Two writes marked the CRD. Then its objects were removed in the order of keys, and then the
        // CRD.
        let gone: Vec<Key> = self.now.keys().copied().collect();
        let latest = self.server.resource_version();
        assert_eq!(latest, before + 2 + gone.len() as u64 + 1, "the writes of a CRD's removal");
        for (key, version) in gone.into_iter().zip(before + 3..) {
            self.erased(key, version);
        }
        self.crds.push((latest, false));
        self.removals.push(before + 1..latest);
        true
    }

    /// Makes an object unreadable for the server.
    pub(super) fn corrupt(&mut self) -> bool {
        let keys: Vec<Key> = self.now.keys().copied().collect();
        if self.corrupt.is_some() || keys.is_empty() {
            return false;
        }
        let key = keys[self.rng.usize(..keys.len())];
        let (namespace, name) = place(key);
        let corruption = self.server.corrupt(API, KIND, Some(namespace), name).expect("the object exists");
        let version = corruption.resource_version();
        self.corrupt = Some((key, corruption));
        let state = self.now.get(&key).map(|state| State { version, ..state.clone() });
        self.record(key, state, version);
        true
    }

    /// Records that caches can miss changes.
    pub(super) fn loses(&mut self) {
        self.lost = true;
        self.watchers.iter().for_each(|watcher| watcher.stack.recorder().lock().lossy = true);
    }

    /// Returns a recent version to which etcd can be restored.
    pub(super) fn backup(&mut self) -> u64 {
        let is_whole = |version: &u64| !self.removals.iter().any(|removal| removal.contains(version));
        let written = self.log.iter().rev().map(|(version, ..)| *version);
        let since = self.crds.iter().rev().map(|(version, _)| *version);
        let versions: Vec<u64> = written.filter(is_whole).take(6).chain(since.take(1)).collect();
        match versions.is_empty() {
            true => self.server.resource_version(),
            false => versions[self.rng.usize(..versions.len())],
        }
    }

    /// All is again as it was at this version.
    pub(super) fn restored(&mut self, to: u64) {
        self.log.retain(|(version, ..)| *version <= to);
        self.crds.retain(|(version, _)| *version <= to);
        self.removals.retain(|removal| removal.end <= to);
        self.served = self.crds.last().is_some_and(|(_, served)| *served);
        self.now.clear();
        for (_, key, state) in &self.log {
            match state {
                Some(state) => self.now.insert(*key, state.clone()),
                None => self.now.remove(key),
            };
        }
        for watcher in &self.watchers {
            watcher.stack.recorder().lock().restored(to);
        }
        self.log(|| format!("etcd is restored to {to}"));
    }
}
