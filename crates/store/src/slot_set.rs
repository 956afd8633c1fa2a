//! `SlotSet`: the slots with one value of an index, ascending.
//!
//! Most sets are small, but some contain all slots. A small set is one sorted list. A larger set
//! consists of sorted chunks, which are copied separately.

use std::sync::Arc;

/// The maximum number of slots in a chunk. A larger set is stored in several chunks. A larger chunk
/// is divided into two chunks.
const CHUNK: usize = 512;

#[derive(Clone)]
pub(crate) enum SlotSet {
    Few(Vec<u32>),
    /// Invariant: no chunk is empty, and all slots of a chunk are below the slots of the next
    /// chunk.
    Many {
        chunks: Vec<Arc<Vec<u32>>>,
        len: usize,
    },
}

impl Default for SlotSet {
    fn default() -> Self {
        SlotSet::Few(Vec::new())
    }
}

impl SlotSet {
    pub(crate) fn len(&self) -> usize {
        match self {
            SlotSet::Few(slots) => slots.len(),
            SlotSet::Many { len, .. } => *len,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let (few, many): (&[u32], &[Arc<Vec<u32>>]) = match self {
            SlotSet::Few(slots) => (slots, &[]),
            SlotSet::Many { chunks, .. } => (&[], chunks),
        };
        few.iter().chain(many.iter().flat_map(|chunk| chunk.iter())).copied()
    }

    pub(crate) fn insert(&mut self, slot: u32) {
        match self {
            SlotSet::Few(slots) => {
                insert_sorted(slots, slot);
                if slots.len() > CHUNK {
                    let chunks = vec![Arc::new(std::mem::take(slots))];
                    *self = SlotSet::Many { chunks, len: CHUNK + 1 };
                }
            }
            SlotSet::Many { chunks, len } => {
                let at = chunk_of(chunks, slot);
                let chunk = Arc::make_mut(&mut chunks[at]);
                *len += usize::from(insert_sorted(chunk, slot));
                if chunk.len() > CHUNK {
                    let upper = chunk.split_off(CHUNK / 2);
                    chunks.insert(at + 1, Arc::new(upper));
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        match self {
            SlotSet::Few(slots) => {
                remove_sorted(slots, slot);
            }
            SlotSet::Many { chunks, len } => {
                let at = chunk_of(chunks, slot);
                let chunk = Arc::make_mut(&mut chunks[at]);
                *len -= usize::from(remove_sorted(chunk, slot));
                if chunk.is_empty() {
                    chunks.remove(at);
                }
                if *len == 0 {
                    *self = SlotSet::default();
                }
            }
        }
    }

    /// Returns the length. Panics unless the invariants hold. For tests.
    pub(crate) fn check(&self) -> usize {
        let slots: Vec<u32> = self.iter().collect();
        assert!(slots.is_sorted_by(|a, b| a < b), "the slots of a posting are not sorted");
        assert_eq!(slots.len(), self.len(), "a posting has a wrong length");
        assert!(!slots.is_empty(), "an empty posting was not removed");
        slots.len()
    }
}

/// Returns the chunk that contains or would contain this slot.
fn chunk_of(chunks: &[Arc<Vec<u32>>], slot: u32) -> usize {
    chunks.partition_point(|chunk| chunk.first().is_some_and(|first| *first <= slot)).saturating_sub(1)
}

fn insert_sorted(slots: &mut Vec<u32>, slot: u32) -> bool {
    match slots.binary_search(&slot) {
        Ok(_) => false,
        Err(at) => {
            slots.insert(at, slot);
            true
        }
    }
}

fn remove_sorted(slots: &mut Vec<u32>, slot: u32) -> bool {
    match slots.binary_search(&slot) {
        Ok(at) => {
            slots.remove(at);
            true
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn slot_set_matches_sorted_set(
            first in prop::collection::btree_set(0u32..4000, 0..2500),
            steps in prop::collection::vec((0u32..4000, prop::bool::weighted(0.3)), 0..3000),
        ) {
            let mut model = BTreeSet::new();
            let mut real = SlotSet::default();
            let steps = first.into_iter().map(|slot| (slot, true)).chain(steps);
            for (slot, add) in steps {
                if add {
                    real.insert(slot);
                    model.insert(slot);
                } else {
                    real.remove(slot);
                    model.remove(&slot);
                }
                prop_assert_eq!(real.len(), model.len());
            }
            prop_assert!(real.iter().eq(model.iter().copied()));
            for slot in model {
                real.remove(slot);
            }
            prop_assert_eq!(real.iter().count(), 0);
        }
    }
}
