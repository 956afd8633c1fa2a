//! `KeyTable`: finds the current state of an object by its key, with one hash and one comparison.
//!
//! The trees of [`Root`](crate::root::Root) can also find an object, and snapshots use them. A lookup in the
//! trees reads about seven chunks, and a lookup in this table reads one segment.
//!
//! The table consists of segments, and grows by linear hashing: an insertion grows at most one segment, and
//! splits at most one segment. No insertion therefore moves more entries than two segments contain. A copy
//! of the table shares all segments with the original. A write to a copy clones only the segments that it
//! changes.

use std::{hint::black_box, iter::repeat_with, sync::Arc};

use kube_object::{Event, KeyRef, ObjectKey};

use crate::{
    cow::{Counted, unshare},
    touches::touch,
};

/// The number of buckets of a new segment.
const SMALLEST: usize = 8;

/// Finds objects by their keys. The average number of objects in a segment is at most `AVERAGE`. A segment
/// that is not split yet has about twice as many objects as a segment that is split.
///
/// Invariant: the segment of an entry is `segment_of(hash, segments.len())`.
pub(crate) struct KeyTable<T, const AVERAGE: usize = 192> {
    segments: Vec<Segment<T>>,
    len: usize,
}

/// Invariants: the number of buckets is a power of two. At most 3/4 of the buckets are full. No free bucket
/// exists between the first bucket of an entry's search and the entry.
struct Segment<T> {
    buckets: Arc<[Bucket<T>]>,
    len: usize,
}

type Bucket<T> = Option<KeyedObject<T>>;

struct KeyedObject<T> {
    key: ObjectKey,
    object: Arc<T>,
}

impl<T> Clone for KeyedObject<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), object: Arc::clone(&self.object) }
    }
}

impl<T> Counted for Bucket<T> {
    fn read_counts(&self) -> usize {
        self.as_ref().map_or(0, |entry| entry.key.read_counts() ^ Arc::strong_count(&entry.object))
    }
}

impl<T> Clone for Segment<T> {
    fn clone(&self) -> Self {
        Self { buckets: Arc::clone(&self.buckets), len: self.len }
    }
}

impl<T, const AVERAGE: usize> Clone for KeyTable<T, AVERAGE> {
    fn clone(&self) -> Self {
        Self { segments: self.segments.clone(), len: self.len }
    }
}

impl<T, const AVERAGE: usize> Default for KeyTable<T, AVERAGE> {
    fn default() -> Self {
        Self { segments: vec![Segment::new(SMALLEST)], len: 0 }
    }
}

/// Returns the segment of a hash in a table of `count` segments. If the segment does not exist yet, its
/// entries are in the segment that will be split.
fn segment_of(hash: u32, count: usize) -> usize {
    let mask = count.next_power_of_two() - 1;
    let at = hash as usize & mask;
    if at < count { at } else { at & (mask >> 1) }
}

/// Returns the first bucket of a search. All keys of a segment have equal low bits, so this function uses the
/// product of all bits.
fn first_bucket(hash: u32, mask: usize) -> usize {
    (u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask
}

impl<T> Segment<T> {
    fn new(buckets: usize) -> Self {
        Self { buckets: repeat_with(|| None).take(buckets).collect(), len: 0 }
    }

    /// Returns the bucket of the entry with this key, or else the free bucket at the end of the search.
    fn find(&self, key: KeyRef<'_>) -> usize {
        let mask = self.buckets.len() - 1;
        let mut at = first_bucket(key.short_hash(), mask);
        while let Some(entry) = &self.buckets[at]
            && key != entry.key
        {
            at = (at + 1) & mask;
        }
        at
    }

    /// Stores a new entry, whose key is not in the segment.
    fn insert(&mut self, entry: KeyedObject<T>) {
        if (self.len + 1) * 4 > self.buckets.len() * 3 {
            let mut larger = Self::new(self.buckets.len() * 2);
            unshare(&mut self.buckets)
                .iter_mut()
                .filter_map(Option::take)
                .for_each(|entry| larger.insert(entry));
            *self = larger;
        }
        let at = self.find(entry.key.as_ref());
        unshare(&mut self.buckets)[at] = Some(entry);
        self.len += 1;
    }

    /// Frees a bucket and moves later entries up, to keep them reachable.
    fn free(&mut self, mut hole: usize) {
        let mask = self.buckets.len() - 1;
        let buckets = unshare(&mut self.buckets);
        buckets[hole] = None;
        self.len -= 1;
        let mut next = (hole + 1) & mask;
        while let Some(entry) = &buckets[next] {
            let distance = next.wrapping_sub(first_bucket(entry.key.short_hash(), mask)) & mask;
            if distance >= next.wrapping_sub(hole) & mask {
                buckets.swap(hole, next);
                hole = next;
            }
            next = (next + 1) & mask;
        }
    }
}

impl<T, const AVERAGE: usize> KeyTable<T, AVERAGE> {
    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<&Arc<T>> {
        touch();
        let segment = &self.segments[segment_of(key.short_hash(), self.segments.len())];
        segment.buckets[segment.find(key)].as_ref().map(|entry| &entry.object)
    }

    /// Applies the changes of the events, in their order.
    pub(crate) fn apply(&mut self, events: &[Event<T>]) {
        if events.len() > 1 {
            // Lookups do not depend on each other, so the processor waits for several of them concurrently.
            let found = events.iter().filter(|event| self.get(event.key().as_ref()).is_some());
            black_box(found.count());
        }
        for event in events {
            match event {
                Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                    self.put(object.key(), &object.object);
                }
                Event::Deleted { last, .. } => self.remove(last.key()),
            }
        }
    }

    fn segment_mut(&mut self, key: &ObjectKey) -> &mut Segment<T> {
        touch();
        let at = segment_of(key.short_hash(), self.segments.len());
        &mut self.segments[at]
    }

    fn put(&mut self, key: &ObjectKey, object: &Arc<T>) {
        let segment = self.segment_mut(key);
        let at = segment.find(key.as_ref());
        if let Some(entry) = &mut unshare(&mut segment.buckets)[at] {
            entry.object = Arc::clone(object);
            return;
        }
        segment.insert(KeyedObject { key: key.clone(), object: Arc::clone(object) });
        self.len += 1;
        if self.len > self.segments.len() * AVERAGE {
            self.split();
        }
    }

    /// Adds a segment, and moves the entries that belong to it from another segment.
    fn split(&mut self) {
        touch();
        let added = self.segments.len();
        let source = &mut self.segments[added - (1 << added.ilog2())];
        // Each part contains about half of the entries.
        let buckets = (source.buckets.len() / 2).max(SMALLEST);
        let mut parts = [(); 2].map(|()| Segment::new(buckets));
        for entry in unshare(&mut source.buckets).iter_mut().filter_map(Option::take) {
            let is_added = segment_of(entry.key.short_hash(), added + 1) == added;
            parts[usize::from(is_added)].insert(entry);
        }
        let [kept, moved] = parts;
        *source = kept;
        self.segments.push(moved);
    }

    fn remove(&mut self, key: &ObjectKey) {
        let segment = self.segment_mut(key);
        let at = segment.find(key.as_ref());
        if segment.buckets[at].is_some() {
            segment.free(at);
            self.len -= 1;
        }
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Panics unless each entry is in its segment. For tests.
    pub(crate) fn check(&self) {
        let mut len = 0;
        for (at, segment) in self.segments.iter().enumerate() {
            for (bucket, entry) in segment.buckets.iter().enumerate() {
                let Some(KeyedObject { key, .. }) = entry else { continue };
                assert_eq!(segment_of(key.short_hash(), self.segments.len()), at, "the segment of {key}");
                assert_eq!(segment.find(key.as_ref()), bucket, "the bucket of {key}");
            }
            assert_eq!(segment.len, segment.buckets.iter().flatten().count());
            assert!(segment.len * 4 <= segment.buckets.len() * 3, "a segment is too full");
            len += segment.len;
        }
        assert_eq!(self.len, len);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use kube_object::{Entry, ObjectId, Removal, ResourceVersion, Uid};
    use proptest::prelude::*;

    use super::*;

    type Table = KeyTable<u32, 4>;

    fn key(number: u16) -> ObjectKey {
        ObjectKey::new(Some("n"), &number.to_string())
    }

    fn entry(number: u16, value: u32) -> Entry<u32> {
        let id = ObjectId { key: key(number), uid: Uid::new(""), version: ResourceVersion::new("") };
        Entry::new(id, Arc::new(value))
    }

    fn assert_contains(table: &Table, model: &HashMap<u16, u32>, keys: u16) {
        table.check();
        assert_eq!(table.len(), model.len());
        for number in 0..keys {
            let found = table.get(key(number).as_ref()).map(|value| **value);
            assert_eq!(found, model.get(&number).copied(), "{number}");
        }
    }

    proptest! {
        /// A copy also does not change if the table grows.
        #[test]
        fn lookups_see_last_write_and_copies_are_immutable(
            writes in prop::collection::vec((0..200u16, prop::bool::weighted(0.7), prop::bool::weighted(0.05)), 0..400),
        ) {
            let (mut table, mut model, mut copies) = (Table::default(), HashMap::new(), Vec::new());
            for (value, (number, exists, copied)) in (0..).zip(writes) {
                if copied {
                    copies.push((table.clone(), model.clone()));
                }
                let object = entry(number, value);
                table.apply(&[match (exists, model.contains_key(&number)) {
                    (true, false) => Event::Added { object, initial: false },
                    (true, true) => Event::Updated { old: object.clone(), new: object },
                    (false, _) => Event::Deleted { last: object, removal: Removal::Deleted },
                }]);
                if exists { model.insert(number, value) } else { model.remove(&number) };
            }
            copies.push((table, model));
            for (table, model) in copies {
                assert_contains(&table, &model, 200);
            }
        }
    }

    /// The caller holds a lock, so the size of the largest segment bounds the work of an insertion.
    #[test]
    fn segments_stay_small_while_table_grows() {
        let mut table = Table::default();
        let mut largest = 0;
        for number in 0..5000 {
            table.apply(&[Event::Added { object: entry(number, 0), initial: false }]);
            largest = largest.max(table.segments.iter().map(|segment| segment.len).max().unwrap_or(0));
        }
        table.check();
        assert!(table.segments.len() * 4 >= 5000, "{} segments", table.segments.len());
        assert!(largest <= 8 * 4, "a segment had {largest} objects");
    }
}
