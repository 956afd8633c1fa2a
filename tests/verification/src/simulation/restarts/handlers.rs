//! The handlers of a process. `Mirror` receives the objects of each life again. `Keeper` has a checkpoint,
//! and its data survive the process.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::resume_unwind,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use kube_informer::{CheckpointHandler, Entry, EventHandler, Lister, ObjectId, Removal};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use super::super::{
    history::{HistoryLines, Uids},
    object_forms::ObjectForm,
    workload::{KEYS, number},
};
use super::disk::FolderCopy;
use crate::properties::{Key, Object};

/// The history of a seed, with the time of each line.
#[derive(Clone)]
pub(super) struct Log {
    pub(super) lines: Arc<Mutex<HistoryLines>>,
    pub(super) began: Instant,
    /// The time before this life.
    pub(super) before: Duration,
}

impl Log {
    pub(super) fn now(&self) -> Duration {
        self.before + self.began.elapsed()
    }

    pub(super) fn write(&self, line: impl FnOnce() -> String) {
        self.lines.lock().log(self.now(), line);
    }
}

/// The calls of a `Mirror`.
#[derive(Default)]
pub(super) struct Mirrored {
    pub(super) objects: BTreeMap<Key, Object>,
    /// The calls of the first, initial adds are over.
    is_initial_over: bool,
    pub(super) calls: u64,
    pub(super) violation: Option<String>,
}

/// Checks that it receives the initial adds, and then a consistent history.
pub(super) struct Mirror<T> {
    pub(super) mirrored: Arc<Mutex<Mirrored>>,
    pub(super) cache: Lister<T>,
    pub(super) uids: Uids,
    pub(super) log: Log,
}

impl<T: ObjectForm> Mirror<T> {
    /// Changes the object of a key. `before` must be its state before.
    fn change(&self, call: &str, before: Option<Object>, after: Option<Object>, initial: bool) {
        let Some(key) = before.or(after).map(|object| object.key) else { return };
        self.log.write(|| format!("mirror: {call} {:?}", after.or(before)));
        let mut mirrored = self.mirrored.lock();
        let known = mirrored.objects.get(&key).copied();
        let broken = if !self.cache.snapshot().watermark().synced {
            Some(format!("{call} of {key} before the contents of the cache are verified"))
        } else if !is_same(known, before, after.is_none()) {
            Some(format!("{call} of {key} after the state {known:?}, not {before:?}"))
        } else if initial && mirrored.is_initial_over {
            Some(format!("{call} of {key} is initial, after other calls"))
        } else {
            None
        };
        mirrored.violation = mirrored.violation.take().or(broken);
        mirrored.is_initial_over |= !initial;
        mirrored.calls += 1;
        match after {
            Some(object) => drop(mirrored.objects.insert(key, object)),
            None => drop(mirrored.objects.remove(&key)),
        }
    }
}

/// Returns whether two states are equal. A delete event has the version of the deletion.
fn is_same(known: Option<Object>, before: Option<Object>, is_deleted: bool) -> bool {
    match (known, before) {
        (Some(known), Some(before)) if is_deleted => (known.uid, known.value) == (before.uid, before.value),
        _ => known == before,
    }
}

impl<T: ObjectForm> EventHandler<T> for Mirror<T> {
    fn on_add(&mut self, object: &Entry<T>, initial: bool) {
        self.change("add", None, Some(object.plain(&self.uids)), initial);
    }

    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        self.change("update", Some(old.plain(&self.uids)), Some(new.plain(&self.uids)), false);
    }

    fn on_delete(&mut self, last: &Entry<T>, _: Removal) {
        self.change("delete", Some(last.plain(&self.uids)), None, false);
    }
}

/// The data of a handler with a checkpoint, which survive the process.
#[derive(Default)]
pub(super) struct Kept {
    /// The uid and the value of each object.
    pub(super) objects: BTreeMap<Key, (u64, u64)>,
    /// The key of each call.
    pub(super) calls: Vec<Key>,
    /// The keys whose calls a lie of the disk can hide from the next process.
    pub(super) excused: BTreeSet<Key>,
    pub(super) cold_starts: u64,
    pub(super) missed_updates: u64,
    pub(super) missed_deletes: u64,
}

/// Keeps data as a handler with a checkpoint. The process can crash within a call.
pub(super) struct Keeper {
    pub(super) kept: Arc<Mutex<Kept>>,
    pub(super) uids: Uids,
    pub(super) calls_until_crash: Option<u32>,
    /// Whether the last call has its effect before the crash.
    pub(super) last_call_has_effect: bool,
    pub(super) is_dead: Arc<AtomicBool>,
    pub(super) folder: PathBuf,
    /// The files when the process crashed.
    pub(super) files_at_crash: Arc<Mutex<FolderCopy>>,
    pub(super) log: Log,
}

impl Keeper {
    fn call(&mut self, line: impl FnOnce() -> String, effect: impl FnOnce(&mut Kept)) {
        let dies = self.calls_until_crash == Some(0);
        self.calls_until_crash = self.calls_until_crash.map(|calls| calls.saturating_sub(1));
        let was_dead = self.is_dead.swap(dies, Relaxed);
        if !dies || !was_dead && self.last_call_has_effect {
            self.log.write(|| format!("keeper: {}", line()));
            effect(&mut self.kept.lock());
        }
        if dies && !was_dead {
            *self.files_at_crash.lock() = FolderCopy::of(&self.folder);
        }
        if dies {
            // `resume_unwind` prints no message on standard error.
            resume_unwind(Box::new("the process crashes"));
        }
    }

    fn put<T: ObjectForm>(&mut self, call: &'static str, entry: &Entry<T>) {
        let object = entry.plain(&self.uids);
        self.call(
            || format!("{call} {object:?}"),
            |kept| {
                kept.calls.push(object.key);
                kept.objects.insert(object.key, (object.uid, object.value));
                kept.missed_updates += u64::from(call == "missed update");
            },
        );
    }

    fn remove(&mut self, call: &'static str, id: &ObjectId) {
        let key = number(id.key.namespace(), id.key.name());
        let uid = self.uids.number(&id.uid.to_string());
        self.call(
            || format!("{call} {key} of {uid}"),
            |kept| {
                kept.calls.push(key);
                if kept.objects.get(&key).is_some_and(|(kept, _)| *kept == uid) {
                    kept.objects.remove(&key);
                }
                kept.missed_deletes += u64::from(call == "missed delete");
            },
        );
    }
}

impl<T: ObjectForm> EventHandler<T> for Keeper {
    fn on_add(&mut self, object: &Entry<T>, _: bool) {
        self.put("add", object);
    }

    fn on_update(&mut self, _: &Entry<T>, new: &Entry<T>) {
        self.put("update", new);
    }

    fn on_delete(&mut self, last: &Entry<T>, _: Removal) {
        self.remove("delete", &last.id);
    }
}

impl<T: ObjectForm> CheckpointHandler<T> for Keeper {
    fn on_cold_start(&mut self) {
        self.call(
            || "cold start".to_owned(),
            |kept| {
                kept.objects.clear();
                kept.excused.clear();
                kept.calls.extend(0..KEYS);
                kept.cold_starts += 1;
            },
        );
    }

    fn on_missed_update(&mut self, _: &ObjectId, new: &Entry<T>) {
        self.put("missed update", new);
    }

    fn on_missed_delete(&mut self, last: &ObjectId) {
        self.remove("missed delete", last);
    }
}
