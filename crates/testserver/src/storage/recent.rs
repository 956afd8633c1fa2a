//! The parsed objects of the last writes. Who writes an object often writes it again soon, and to parse it takes most
//! of an update's time. A tree takes several times the memory of its bytes, so few are kept.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::kinds::kind::Kind;
use crate::storage::entry::Entry;
use crate::write::Object;

/// At most so many objects are kept parsed, and of no more JSON than this.
const OBJECTS: usize = 1024;
const BYTES: usize = 2 * 1024 * 1024;

/// The last writes whose states may still hold their trees, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<(Weak<Entry>, usize)>,
    bytes: usize,
}

impl Recent {
    /// Keeps the tree that `entry` was made from. Custom kinds have several versions, so theirs are not kept.
    pub(crate) fn keep(&self, kind: &Kind, entry: &Arc<Entry>, mut object: Object) {
        if kind.rules.custom {
            return;
        }
        object.insert("apiVersion".into(), kind.api_version().into());
        object.insert("kind".into(), kind.kind.as_str().into());
        let size = entry.size();
        entry.keep_object(object);
        let dropped = self.0.lock().push(Arc::downgrade(entry), size);
        // A tree is dropped here, without the lock.
        for entry in dropped.iter().filter_map(Weak::upgrade) {
            entry.forget_object();
        }
    }
}

impl Ring {
    /// Adds an entry; gives those that are too many.
    fn push(&mut self, entry: Weak<Entry>, size: usize) -> Vec<Weak<Entry>> {
        self.entries.push_back((entry, size));
        self.bytes += size;
        let mut dropped = Vec::new();
        while self.entries.len() > OBJECTS || self.bytes > BYTES {
            let Some((entry, size)) = self.entries.pop_front() else { break };
            self.bytes -= size;
            dropped.push(entry);
        }
        dropped
    }
}

#[cfg(test)]
mod tests;
