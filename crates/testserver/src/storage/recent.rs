//! A cache of the parsed objects of recent writes. Many objects are soon written again, and parsing
//! takes most of the time of an update. A parsed tree needs several times the memory of its bytes, so
//! the cache is small.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::schemas::kinds::kind::Kind;
use crate::storage::entry::{Entry, Parsed};

/// The limits of the cache: the number of parsed objects, and the total size of their JSON.
const OBJECTS: usize = 1024;
const BYTES: usize = 4 * 1024 * 1024;

/// The recent writes whose states may still hold parsed trees, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<(Weak<Entry>, usize)>,
    bytes: usize,
}

impl Recent {
    /// Caches the tree from which `entry` was made. Custom kinds are not cached, because they have several
    /// versions.
    pub(crate) fn keep(&self, kind: &Kind, entry: &Arc<Entry>, mut parsed: Parsed) {
        if kind.rules.custom {
            return;
        }
        parsed.object.insert("apiVersion".into(), kind.api_version().into());
        parsed.object.insert("kind".into(), kind.kind.as_str().into());
        let size = entry.size();
        entry.keep_object(parsed);
        let dropped = self.0.lock().push(Arc::downgrade(entry), size);
        // The trees are dropped outside the lock.
        for entry in dropped.iter().filter_map(Weak::upgrade) {
            entry.forget_object();
        }
    }
}

impl Ring {
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
