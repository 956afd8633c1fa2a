//! The server of a seed with the history of its objects.

use std::collections::BTreeMap;

use fastrand::Rng;
use kube_testserver::{Clock, Server};
use serde_json::json;

use super::super::{
    history::Uids,
    workload::{API, BAD, KEYS, KIND, NAMESPACES, State, body, crd, place},
};
use crate::properties::{Key, Object};

/// The number of versions to which etcd can be restored.
const BACKUPS: usize = 10;

/// A server whose objects are written only by the simulation.
pub(super) struct Cluster {
    pub(super) server: Server,
    pub(super) uids: Uids,
    /// The number of restores of etcd.
    pub(super) restores: u32,
    /// The states of the present history.
    log: Vec<(u64, Key, Option<State>)>,
    now: BTreeMap<Key, State>,
    /// The version before the first object.
    first: u64,
    writes: u64,
}

impl Cluster {
    pub(super) fn new(seed: u64) -> Self {
        let time = "2026-01-01T00:00:00Z".parse().expect("a time");
        let server = Server::builder().seed(seed).clock(Clock::Fixed(time)).field_ownership(false).build();
        for name in NAMESPACES {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            server.create(&namespace).expect("a namespace can be created");
        }
        server.create(&crd()).expect("a CRD can be created");
        let first = server.resource_version();
        Self {
            server,
            uids: Uids::default(),
            restores: 0,
            log: Vec::new(),
            now: BTreeMap::new(),
            first,
            writes: 0,
        }
    }

    /// Writes some objects. Returns their keys.
    pub(super) fn write_some(&mut self, rng: &mut Rng, most: usize) -> Vec<Key> {
        let keys: Vec<Key> = (0..rng.usize(..=most)).map(|_| rng.u32(..KEYS)).collect();
        for key in &keys {
            let is_bad = rng.u8(..10) == 0;
            match (self.now.contains_key(key), rng.u8(..6)) {
                (true, 0 | 1) => self.delete(*key),
                (true, 2) => {
                    self.delete(*key);
                    self.put(*key, is_bad);
                }
                _ => self.put(*key, is_bad),
            }
        }
        keys
    }

    fn put(&mut self, key: Key, is_bad: bool) {
        self.writes += 1;
        let ((namespace, name), mut object) = (place(key), body(self.writes, is_bad, true));
        let written = if self.now.contains_key(&key) {
            self.server.patch_untyped(API, KIND, Some(namespace), name, &object)
        } else {
            object["apiVersion"] = API.into();
            object["kind"] = KIND.into();
            object["metadata"]["name"] = name.into();
            object["metadata"]["namespace"] = namespace.into();
            if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                annotations.retain(|name, value| name != BAD || !value.is_null());
            }
            self.server.create(&object)
        };
        let state = State::read(&written.expect("a valid object can be written"));
        self.log.push((state.version, key, Some(state.clone())));
        self.now.insert(key, state);
    }

    fn delete(&mut self, key: Key) {
        let (namespace, name) = place(key);
        self.server
            .delete_untyped(API, KIND, Some(namespace), name)
            .expect("an existing object can be deleted");
        self.log.push((self.server.resource_version(), key, None));
        self.now.remove(&key);
    }

    /// Makes each object decodable.
    pub(super) fn repair(&mut self) {
        let bad: Vec<Key> = self.now.iter().filter(|(_, state)| state.bad).map(|(key, _)| *key).collect();
        bad.into_iter().for_each(|key| self.put(key, false));
    }

    /// Restores etcd from a random backup. Returns the version of the backup, or `None` if the server has
    /// removed the backup.
    pub(super) fn restore(&mut self, rng: &mut Rng, is_bumped: bool) -> Option<u64> {
        let versions = self.log.iter().rev().map(|(version, ..)| *version).take(BACKUPS);
        let versions: Vec<u64> = versions.chain([self.first]).collect();
        let backup = *rng.choice(&versions)?;
        let restored = match is_bumped {
            true => self.server.restore_bumped(backup, 1_000_000),
            false => self.server.restore(backup),
        };
        restored.ok()?;
        self.restores += 1;
        self.log.retain(|(version, ..)| *version <= backup);
        self.now.clear();
        for (_, key, state) in &self.log {
            match state {
                Some(state) => drop(self.now.insert(*key, state.clone())),
                None => drop(self.now.remove(key)),
            }
        }
        Some(backup)
    }

    fn object(&self, key: Key, state: &State) -> Object {
        let uid = self.uids.number(&state.uid);
        Object { key, uid, version: state.version, value: state.write }
    }

    /// Returns whether the present history contains this state.
    pub(super) fn has_had(&self, object: &Object) -> bool {
        let mut states = self.log.iter().rev().filter(|(_, key, _)| *key == object.key);
        states.any(|(_, key, state)| state.as_ref().is_some_and(|state| self.object(*key, state) == *object))
    }

    /// Returns all objects in the order of keys.
    pub(super) fn objects(&self) -> Vec<Object> {
        self.now.iter().map(|(key, state)| self.object(*key, state)).collect()
    }
}
