//! `HashedNumbers`: maps hashes to numbers. The owner of the numbers holds the keys.
//!
//! The table uses open addressing in a [`CowVec`]. A bucket stores 32 bits of the hash and the
//! number. The table grows without reading keys, and a lookup rarely compares a wrong key. The
//! hasher is seeded in each process, so that users cannot choose names with colliding hashes. The
//! table is never iterated for a list.

use std::{
    hash::{BuildHasher, Hash},
    sync::LazyLock,
};

use foldhash::quality::RandomState;

use crate::cow::CowVec;

/// The buckets of a leaf, which has 512 bytes. A copy of a leaf does not change reference counts.
const LEAF: usize = 64;

static SEEDED: LazyLock<RandomState> = LazyLock::new(RandomState::default);

pub(crate) fn hash_of<Q: ?Sized + Hash>(key: &Q) -> u64 {
    SEEDED.hash_one(key)
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    /// The upper half of the hash. Its low bits select the first place of a search.
    tag: u32,
    /// The number plus one; zero if the bucket is free.
    number: u32,
}

/// Invariants: `size` is zero or a power of two of at least `LEAF`. At most 3/4 of the buckets are
/// full. No free bucket exists between the first place of a number's search and the number.
#[derive(Clone, Default)]
pub(crate) struct HashedNumbers {
    buckets: CowVec<Bucket, LEAF>,
    size: usize,
    len: usize,
}

impl HashedNumbers {
    fn bucket(&self, at: usize) -> Bucket {
        self.buckets.get(at).copied().unwrap_or_default()
    }

    /// Returns the number with this tag that `matches` accepts, and the position of its bucket.
    fn search(&self, tag: u32, matches: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let mut at = tag as usize & self.size.wrapping_sub(1);
        loop {
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
                if bucket.tag == tag && matches(number) {
                    return Some((at, number));
                }
                at += 1;
            }
            at &= self.size - 1;
        }
    }

    /// Returns the first number with the tag of this hash. The number most likely belongs to this
    /// hash.
    pub(crate) fn likely(&self, hash: u64) -> Option<u32> {
        self.search(tag_of(hash), |_| true).map(|(_, number)| number)
    }

    /// Returns the number with this hash that `matches` accepts.
    pub(crate) fn find(&self, hash: u64, matches: impl Fn(u32) -> bool) -> Option<u32> {
        self.search(tag_of(hash), matches).map(|(_, number)| number)
    }

    /// Stores a number that is not stored yet.
    pub(crate) fn insert(&mut self, hash: u64, number: u32) {
        if (self.len + 1) * 4 > self.size * 3 {
            self.grow();
        }
        self.place(Bucket { tag: tag_of(hash), number: number + 1 });
        self.len += 1;
    }

    fn place(&mut self, bucket: Bucket) {
        let mask = self.size - 1;
        let mut at = bucket.tag as usize & mask;
        while self.bucket(at).number != 0 {
            at = (at + 1) & mask;
        }
        *self.buckets.get_mut(at) = bucket;
    }

    fn grow(&mut self) {
        let larger = Self { size: (self.size * 2).max(LEAF), len: self.len, ..Self::default() };
        let smaller = std::mem::replace(self, larger);
        for bucket in smaller.buckets.iter(smaller.size).filter(|bucket| bucket.number != 0) {
            self.place(*bucket);
        }
    }

    /// Removes a number and moves later numbers up, to keep them reachable.
    pub(crate) fn remove(&mut self, hash: u64, number: u32) {
        let Some((mut hole, _)) = self.search(tag_of(hash), |other| other == number) else { return };
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
        self.len -= 1;
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

    proptest! {
        /// The hashes have few different tags, so that many buckets collide, wrap around and move.
        #[test]
        fn find_returns_only_stored_numbers(
            steps in prop::collection::vec((0u32..60, any::<bool>()), 0..300),
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
                for number in 0..60 {
                    let found = real.find(hash(number), |other| other == number);
                    prop_assert_eq!(found.is_some(), model.contains(&number));
                }
            }
        }
    }
}
