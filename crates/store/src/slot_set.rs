//! `SlotSet`: the slots that share one value of an index, ascending.
//!
//! Most have a handful of slots, some have all of them: small ones are one sorted list, larger ones
//! sorted chunks that are copied one at a time.

use std::sync::Arc;

/// A set that outgrows this is cut into chunks; a chunk that does is cut in two.
const CHUNK: usize = 512;

#[derive(Clone)]
pub(crate) enum SlotSet {
    Few(Vec<u32>),
    /// No chunk is empty; all of one lie below all of the next.
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

    /// The length, once the invariants are found to hold; for tests.
    pub(crate) fn check(&self) -> usize {
        let slots: Vec<u32> = self.iter().collect();
        assert!(slots.is_sorted_by(|a, b| a < b), "a posting is out of order");
        assert_eq!(slots.len(), self.len(), "a posting has lost count");
        assert!(!slots.is_empty(), "an empty posting was kept");
        slots.len()
    }
}

/// The chunk in which this slot is or belongs.
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
        fn it_is_a_sorted_set_at_any_size(
            first in prop::collection::btree_set(0u32..4000, 0..2500),
            steps in prop::collection::vec((0u32..4000, prop::bool::weighted(0.3)), 0..3000),
        ) {
            let mut model = BTreeSet::new();
            let mut real = SlotSet::default();
            let steps = first.into_iter().map(|slot| (slot, true)).chain(steps);
            for (slot, add) in steps {
                match add {
                    true => { real.insert(slot); model.insert(slot); }
                    false => { real.remove(slot); model.remove(&slot); }
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
