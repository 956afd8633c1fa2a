//! `HashedNumbers`: maps hashes to numbers. The owner of the numbers holds the keys.
//!
//! The table uses open addressing in a [`CowVec`]. A bucket stores 32 bits of the hash and the
//! number. The table grows without reading keys, and a lookup rarely compares a wrong key. The
//! hasher is seeded in each process, so that names with colliding hashes cannot be precomputed. The
//! table is never iterated for a list.
//!
//! A growing table moves its buckets in steps, because the caller holds a lock: each insertion and
//! removal moves [`STEP`] buckets to the larger table. A lookup searches both tables until all buckets
//! are moved.

use std::{
    hash::{BuildHasher, Hash},
    sync::LazyLock,
};

use foldhash::quality::RandomState;
use kube_object::KeyRef;

use crate::cow::{Counted, CowVec};

/// The buckets of a leaf, which has 512 bytes. A copy of a leaf does not change reference counts.
const LEAF: usize = 64;

/// The buckets that one insertion or removal moves to a larger table. A table of `n` buckets grows after
/// at least `n * 3 / 8` insertions, which move all buckets of the smaller table.
const STEP: usize = 16;

/// The number of a removed bucket of the smaller table. A search continues with the next bucket.
const REMOVED: u32 = u32::MAX;

static SEEDED: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Returns the hash of the value of an index.
pub(crate) fn hash_of<Q: ?Sized + Hash>(key: &Q) -> u64 {
    SEEDED.hash_one(key)
}

/// Returns the hash of a key. Only the upper half differs, because a bucket stores only the upper half.
pub(crate) fn hash_of_key(key: KeyRef<'_>) -> u64 {
    u64::from(key.short_hash()) << 32
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    /// The upper half of the hash. Its low bits select the first place of a search.
    tag: u32,
    /// The number plus one; zero if the bucket is free.
    number: u32,
}

impl Counted for Bucket {
    fn read_counts(&self) -> usize {
        0
    }
}

/// Invariant: the numbers of `smaller` and `table` are disjoint, and together they are all numbers.
#[derive(Clone, Default)]
pub(crate) struct HashedNumbers {
    table: Table,
    /// The table before its growth, until all its buckets are moved.
    smaller: Option<Moving>,
    len: usize,
}

/// Invariants: `size` is zero or a power of two of at least `LEAF`. At most 3/4 of the buckets are
/// full. No free bucket exists between the first place of a number's search and the number.
#[derive(Clone, Default)]
struct Table {
    buckets: CowVec<Bucket, LEAF>,
    size: usize,
}

/// A table whose first `moved` buckets have moved to a larger table. A search treats them as full.
#[derive(Clone)]
struct Moving {
    table: Table,
    moved: usize,
}

impl Table {
    fn bucket(&self, at: usize) -> Bucket {
        self.buckets.get(at).copied().unwrap_or_default()
    }

    /// Returns the number with this tag that `matches` accepts, and the position of its bucket. The
    /// first `moved` buckets count as full.
    fn search(&self, tag: u32, moved: usize, matches: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let mask = self.size.wrapping_sub(1);
        let mut at = tag as usize & mask;
        // Without a free bucket behind the moved buckets, the search visits all buckets. The first and the
        // last leaf of the search can be the same.
        let mut left = self.size + LEAF;
        while left > 0 {
            at = at.max(moved);
            // Searches one leaf at a time. The length of the table is a multiple of the length of a
            // leaf, so a leaf does not wrap around.
            let leaf = self.buckets.leaf(at);
            if leaf.is_empty() {
                return None;
            }
            for bucket in &leaf[at % LEAF..] {
                if bucket.number == 0 {
                    return None;
                }
                let number = bucket.number - 1;
                if bucket.tag == tag && bucket.number != REMOVED && matches(number) {
                    return Some((at, number));
                }
                at += 1;
            }
            left = left.saturating_sub(LEAF);
            at &= mask;
        }
        None
    }

    fn place(&mut self, bucket: Bucket) {
        let mask = self.size - 1;
        let mut at = bucket.tag as usize & mask;
        while self.bucket(at).number != 0 {
            at = (at + 1) & mask;
        }
        *self.buckets.get_mut(at) = bucket;
    }

    /// Frees a bucket and moves later numbers up, to keep them reachable.
    fn free(&mut self, mut hole: usize) {
        let mask = self.size - 1;
        let mut next = (hole + 1) & mask;
        while self.bucket(next).number != 0 {
            let bucket = self.bucket(next);
            let distance_from_first_place = next.wrapping_sub(bucket.tag as usize) & mask;
            if distance_from_first_place >= next.wrapping_sub(hole) & mask {
                *self.buckets.get_mut(hole) = bucket;
                hole = next;
            }
            next = (next + 1) & mask;
        }
        *self.buckets.get_mut(hole) = Bucket::default();
    }
}

impl HashedNumbers {
    fn search(&self, hash: u64, matches: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = tag_of(hash);
        let in_smaller = || {
            let Moving { table, moved } = self.smaller.as_ref()?;
            table.search(tag, *moved, &matches)
        };
        self.table.search(tag, 0, &matches).or_else(in_smaller).map(|(_, number)| number)
    }

    /// Returns the first number with the tag of this hash. The number most likely belongs to this
    /// hash.
    pub(crate) fn likely(&self, hash: u64) -> Option<u32> {
        self.search(hash, |_| true)
    }

    /// Returns the number with this hash that `matches` accepts.
    pub(crate) fn find(&self, hash: u64, matches: impl Fn(u32) -> bool) -> Option<u32> {
        self.search(hash, matches)
    }

    /// Stores a number that is not stored yet.
    pub(crate) fn insert(&mut self, hash: u64, number: u32) {
        self.move_buckets();
        if (self.len + 1) * 4 > self.table.size * 3 {
            self.grow();
        }
        self.table.place(Bucket { tag: tag_of(hash), number: number + 1 });
        self.len += 1;
    }

    /// Starts to move all buckets to a table of twice the size.
    fn grow(&mut self) {
        while self.smaller.is_some() {
            self.move_buckets(); // never needed, see `STEP`
        }
        let larger = Table { size: (self.table.size * 2).max(LEAF), ..Table::default() };
        let table = std::mem::replace(&mut self.table, larger);
        self.smaller = (table.size > 0).then_some(Moving { table, moved: 0 });
    }

    fn move_buckets(&mut self) {
        let Some(Moving { table, moved }) = &mut self.smaller else { return };
        for at in *moved..*moved + STEP {
            let bucket = table.bucket(at);
            if bucket.number != 0 && bucket.number != REMOVED {
                self.table.place(bucket);
            }
        }
        *moved += STEP;
        if moved.is_multiple_of(LEAF) {
            table.buckets.drop_leaf(*moved - LEAF);
        }
        if *moved == table.size {
            self.smaller = None;
        }
    }

    /// Removes a number.
    pub(crate) fn remove(&mut self, hash: u64, number: u32) {
        self.move_buckets();
        let tag = tag_of(hash);
        let same = |other| other == number;
        if let Some((at, _)) = self.table.search(tag, 0, same) {
            self.table.free(at);
            self.len -= 1;
        } else if let Some(Moving { table, moved }) = &mut self.smaller
            && let Some((at, _)) = table.search(tag, *moved, same)
        {
            *table.buckets.get_mut(at) = Bucket { tag, number: REMOVED };
            self.len -= 1;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn empty_place_finds_no_number() {
        let mut numbers = HashedNumbers::default();
        assert_eq!((0..200).find_map(|tag| numbers.find(tag << 32, |_| true)), None);
        (0..100).for_each(|number| numbers.insert(7 << 32, number));
        assert_eq!((107..200).find_map(|tag| numbers.find(tag << 32, |_| true)), None);
    }

    /// Each write moves a bounded number of buckets, and a growing table is complete before it grows
    /// again.
    #[test]
    fn growth_is_spread_over_insertions() {
        let mut numbers = HashedNumbers::default();
        let hash = |number: u32| hash_of(&number);
        for number in 0..200_000 {
            let moved = |numbers: &HashedNumbers| numbers.smaller.as_ref().map_or(0, |smaller| smaller.moved);
            let (before, size) = (moved(&numbers), numbers.table.size);
            numbers.insert(hash(number), number);
            let after = moved(&numbers);
            if numbers.table.size == size {
                assert!(after == 0 || after == before + STEP, "{before} {after}");
            } else {
                assert_eq!((before, after), (0, 0), "the table grows while it moves its buckets");
            }
            if number % 1009 == 0 {
                assert!(
                    (0..=number).all(|number| numbers.find(hash(number), |other| other == number).is_some())
                );
            }
        }
        assert_eq!(numbers.len(), 200_000);
    }

    /// All buckets of the smaller table are full or removed. A search therefore finds no free bucket.
    #[test]
    fn search_without_free_bucket_returns() {
        let mut numbers = HashedNumbers::default();
        (0..48).for_each(|number| numbers.insert(7 << 32, number));
        numbers.insert(7 << 32, 48);
        assert!(numbers.smaller.is_some());
        (0..48).for_each(|number| numbers.remove(7 << 32, number));
        assert_eq!((numbers.likely(7 << 32), numbers.likely(60 << 32)), (Some(48), None));
        assert_eq!(numbers.len(), 1);
    }

    proptest! {
        /// The hashes have few different tags, so that many buckets collide, wrap around and move.
        #[test]
        fn find_returns_only_stored_numbers(
            steps in prop::collection::vec((0u32..400, prop::bool::weighted(0.7)), 0..900),
            spread in 1u64..40,
            start in 0u64..64,
        ) {
            let hash = |number: u32| (u64::from(number) % spread * 5 + start) << 32;
            let mut real = HashedNumbers::default();
            let mut model = BTreeSet::new();
            for (number, add) in steps {
                match (add, model.contains(&number)) {
                    (true, false) => { real.insert(hash(number), number); model.insert(number); }
                    (false, true) => { real.remove(hash(number), number); model.remove(&number); }
                    (false, false) => real.remove(hash(number), number),
                    (true, true) => {}
                }
                prop_assert_eq!(real.len(), model.len());
                for number in (0..400).step_by(7).chain([number]) {
                    let found = real.find(hash(number), |other| other == number);
                    prop_assert_eq!(found.is_some(), model.contains(&number));
                }
            }
        }
    }
}
