//! `Shard`: a part of the objects of a type, by the hash of their namespace, name or uid.

use std::{
    fmt::{self, Write as _},
    str::FromStr,
};

use crate::{KeyRef, ObjectIdRef};

/// Selects the field of an object that determines its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardKey {
    /// All objects of a namespace have the same slot, so an owner and the objects that it owns do too. The
    /// slot of a cluster-scoped object depends on its name. A `Namespace` has the slot of its objects. Only
    /// the client filters.
    ///
    /// A server could filter by ranges of the FNV-1a hash of the namespace. But the hashes of `team-1` and
    /// `team-2` differ only in their lower bits, so such namespaces would have the same slot.
    Namespace,
    /// The slot depends on the namespace and the name, so the objects of a namespace have different slots.
    /// An object that is deleted and created again keeps its slot. Only the client filters.
    Name,
    /// The slot depends on the uid, so the objects of a namespace have different slots. A server with the
    /// feature gate `ShardedListAndWatch` filters.
    Uid,
}

/// Contains the number of slots into which the objects of each type are divided. The number is a power of
/// two, and at most 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotCount {
    /// The number of the first bits of a hash that determine the slot.
    bits: u32,
}

/// Reports that a number of slots is not a power of two from 1 to 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} slots are not supported; use a power of two from 1 to 256")]
pub struct SlotCountError(pub u16);

impl SlotCount {
    /// The maximum number of slots.
    pub const MAX: u16 = 256;

    /// Creates a number of slots.
    ///
    /// # Errors
    /// Returns an error if the number is not a power of two from 1 to 256.
    pub fn new(count: u16) -> Result<Self, SlotCountError> {
        if count.is_power_of_two() && count <= Self::MAX {
            Ok(Self { bits: count.trailing_zeros() })
        } else {
            Err(SlotCountError(count))
        }
    }

    /// Returns the number of slots.
    pub fn get(self) -> u16 {
        1 << self.bits
    }

    /// Returns the slot of the object with this key. Returns `None` for [`ShardKey::Uid`], because a key does
    /// not contain the uid.
    pub fn slot_of_key<'k>(self, shard_key: ShardKey, key: impl Into<KeyRef<'k>>) -> Option<Slot> {
        let key = key.into();
        let hash = match (shard_key, key.namespace()) {
            (ShardKey::Uid, _) => return None,
            (ShardKey::Namespace, Some(namespace)) => fnv1a(namespace),
            (ShardKey::Name, Some(namespace)) => add(add(fnv1a(namespace), "/"), key.name()),
            (ShardKey::Namespace | ShardKey::Name, None) => fnv1a(key.name()),
        };
        Some(self.slot_of(mix(hash)))
    }

    /// Returns the slot of a hash: its first bits.
    fn slot_of(self, hash: u64) -> Slot {
        let slot = hash.checked_shr(u64::BITS - self.bits).unwrap_or(0);
        Slot(u8::try_from(slot).unwrap_or(u8::MAX))
    }

    /// Returns the first hash after the slots before `slot`. The result for the last slot plus one is 2^64.
    fn start_of(self, slot: u16) -> u128 {
        u128::from(slot) << (u64::BITS - self.bits)
    }
}

impl Default for SlotCount {
    /// Returns 64 slots.
    fn default() -> Self {
        Self { bits: 6 }
    }
}

/// Identifies a slot by its number, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u8);

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Contains a set of slots.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SlotSet([u64; 4]);

impl SlotSet {
    /// Returns the set of all slots.
    pub fn all(count: SlotCount) -> Self {
        (0..count.get()).filter_map(|slot| u8::try_from(slot).ok()).map(Slot).collect()
    }

    /// Returns whether the set contains this slot.
    pub fn contains(&self, Slot(slot): Slot) -> bool {
        self.0[usize::from(slot / 64)] & (1 << (slot % 64)) != 0
    }

    /// Adds a slot.
    pub fn insert(&mut self, Slot(slot): Slot) {
        self.0[usize::from(slot / 64)] |= 1 << (slot % 64);
    }

    /// Removes a slot.
    pub fn remove(&mut self, Slot(slot): Slot) {
        self.0[usize::from(slot / 64)] &= !(1 << (slot % 64));
    }

    /// Returns whether the set contains no slot.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the number of slots in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|part| part.count_ones() as usize).sum()
    }

    /// Returns the slots of both sets.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|part| self.0[part] | other.0[part]))
    }

    /// Returns the slots that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|part| self.0[part] & other.0[part]))
    }

    /// Returns the slots of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|part| self.0[part] & !other.0[part]))
    }

    /// Returns the slots in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + use<> {
        let set = *self;
        (0..=u8::MAX).map(Slot).filter(move |slot| set.contains(*slot))
    }
}

impl Extend<Slot> for SlotSet {
    fn extend<I: IntoIterator<Item = Slot>>(&mut self, slots: I) {
        slots.into_iter().for_each(|slot| self.insert(slot));
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::default();
        set.extend(slots);
        set
    }
}

/// Formats the set as ranges, for example `0-15,17`.
impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (first, last)) in runs(self).into_iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "," })?;
            if first == last { write!(f, "{first}")? } else { write!(f, "{first}-{last}")? }
        }
        Ok(())
    }
}

/// Reports that a text is not a set of slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a set of slots; use numbers and ranges from 0 to 255, for example 0-15,17")]
pub struct ParseSlotSetError(String);

/// Parses the format of [`Display`](fmt::Display). An empty text is an empty set.
impl FromStr for SlotSet {
    type Err = ParseSlotSetError;

    fn from_str(text: &str) -> Result<Self, ParseSlotSetError> {
        let mut set = Self::default();
        for run in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let invalid = |_| ParseSlotSetError(text.to_owned());
            let range = first.parse::<u8>().map_err(invalid)?..=last.parse::<u8>().map_err(invalid)?;
            range.map(Slot).for_each(|slot| set.insert(slot));
        }
        Ok(set)
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Returns the first and the last slot of each run of consecutive slots.
fn runs(set: &SlotSet) -> Vec<(Slot, Slot)> {
    let mut runs: Vec<(Slot, Slot)> = Vec::new();
    for slot in set.iter() {
        match runs.last_mut() {
            Some((_, last)) if last.0.checked_add(1) == Some(slot.0) => *last = slot,
            _ => runs.push((slot, slot)),
        }
    }
    runs
}

/// Selects a part of the objects of a type: the objects whose slot is in a set.
///
/// The first bits of a 64-bit hash are the number of the slot. For [`ShardKey::Uid`] it is the FNV-1a hash,
/// as in KEP-5866, so a run of slots is one `shardRange` of a shard selector. For the other keys, the FNV-1a
/// hash is mixed, so that similar names have different slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    /// The field that is hashed.
    pub key: ShardKey,
    /// The number of all slots.
    pub count: SlotCount,
    /// The slots of this part.
    pub slots: SlotSet,
}

impl Shard {
    /// Returns the slot of an object, also if it is not in this part.
    pub fn slot_of(&self, id: &ObjectIdRef<'_>) -> Slot {
        let by_key = self.count.slot_of_key(self.key, id.key);
        by_key.unwrap_or_else(|| self.count.slot_of(fnv1a(&id.uid.as_str())))
    }

    /// Returns whether an object is in this part.
    pub fn contains(&self, id: &ObjectIdRef<'_>) -> bool {
        self.slots.contains(self.slot_of(id))
    }

    /// Returns whether the object with this key is in this part. Returns `None` if the key does not decide,
    /// because the uid determines the slot, and the part contains only some slots.
    pub fn contains_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<bool> {
        match self.key {
            _ if self.slots.is_empty() => Some(false),
            _ if self.slots == SlotSet::all(self.count) => Some(true),
            _ => self.count.slot_of_key(self.key, key).map(|slot| self.slots.contains(slot)),
        }
    }

    /// Returns a label selector for the objects of this part, if a label with this key contains the slot of
    /// each object. Returns `None` if each slot is in the set.
    pub fn label_selector(&self, label: &str) -> Option<String> {
        if self.slots == SlotSet::all(self.count) {
            return None;
        }
        let slots: Vec<String> = self.slots.iter().map(|slot| slot.to_string()).collect();
        Some(format!("{label} in ({})", slots.join(",")))
    }

    /// Returns the value of the query parameter `shardSelector`, which requests only the objects of this
    /// part. Returns `None` if each slot is in the set, or if only the client filters. If the set is empty,
    /// the value is empty, and a server with the feature gate rejects it. Do not send a request for an
    /// empty set.
    ///
    /// A server without the feature gate `ShardedListAndWatch` ignores the parameter. A client must therefore
    /// check each object with [`Shard::contains`].
    pub fn selector(&self) -> Option<String> {
        if self.slots == SlotSet::all(self.count) || self.key != ShardKey::Uid {
            return None;
        }
        let mut selector = String::new();
        for (first, last) in runs(&self.slots) {
            let start = self.count.start_of(u16::from(first.0));
            let end = self.count.start_of(u16::from(last.0) + 1);
            let separator = if selector.is_empty() { "" } else { " || " };
            // Writing to a String does not fail.
            let _ = write!(
                selector,
                "{separator}shardRange(object.metadata.uid, '0x{start:016x}', '0x{end:016x}')"
            );
        }
        Some(selector)
    }
}

/// Returns the 64-bit FNV-1a hash of a text.
fn fnv1a(text: &str) -> u64 {
    add(0xcbf2_9ce4_8422_2325, text)
}

/// Adds a text to an FNV-1a hash.
fn add(hash: u64, text: &str) -> u64 {
    text.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Returns a hash each bit of which depends on all bits of `hash`. This is the last step of MurmurHash3.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shard(key: ShardKey, count: u16, slots: &[u8]) -> Shard {
        let slots = slots.iter().copied().map(Slot).collect();
        Shard { key, count: SlotCount::new(count).unwrap(), slots }
    }

    #[test]
    fn slot_is_determined_by_the_first_bits_of_the_hash() {
        // The reference values of FNV-1a.
        assert_eq!(
            (fnv1a(""), fnv1a("a"), fnv1a("foobar")),
            (0xcbf29ce484222325, 0xaf63dc4c8601ec8c, 0x85944171f73967e8)
        );
        let id = ObjectIdRef::new(Some("a"), "web", "foobar", "1");
        let namespace = mix(0xaf63dc4c8601ec8c).to_be_bytes()[0];
        for (bits, by_uid) in [(0, 0), (1, 1), (4, 0x8), (8, 0x85)] {
            let (count, by_namespace) = (1 << bits, namespace.checked_shr(8 - bits).unwrap_or(0));
            assert_eq!(shard(ShardKey::Namespace, count, &[]).slot_of(&id), Slot(by_namespace), "{count}");
            assert_eq!(shard(ShardKey::Uid, count, &[]).slot_of(&id), Slot(by_uid), "{count}");
        }
    }

    #[test]
    fn slot_of_a_name_depends_on_the_namespace_and_the_name() {
        let slot = |key, namespace: Option<&str>, name: &str| {
            shard(key, 256, &[]).slot_of(&ObjectIdRef::new(namespace, name, "", ""))
        };
        // The reference value of FNV-1a for the text "foo/bar" is that of its parts.
        let hash = mix(fnv1a("foo/bar")).to_be_bytes()[0];
        assert_eq!(slot(ShardKey::Name, Some("foo"), "bar"), Slot(hash));
        let names = (0..100).map(|number| slot(ShardKey::Name, Some("shop"), &format!("web-{number}")));
        assert!(names.collect::<SlotSet>().len() > 60, "the objects of a namespace have different slots");
        let namespace = slot(ShardKey::Namespace, Some("shop"), "web");
        assert_eq!(slot(ShardKey::Namespace, None, "shop"), namespace, "a Namespace and its objects agree");
        assert_eq!(slot(ShardKey::Name, None, "shop"), namespace);
        let nodes = (0..100).map(|number| slot(ShardKey::Namespace, None, &format!("node-{number}")));
        assert!(nodes.collect::<SlotSet>().len() > 60, "cluster-scoped objects have different slots");
    }

    /// Replicas of two versions divide the objects in the same way, so the result must never change.
    #[test]
    fn similar_namespaces_have_different_slots() {
        let shard = shard(ShardKey::Namespace, 64, &[]);
        let slot =
            |number: u32| shard.slot_of(&ObjectIdRef::new(Some(&format!("team-{number}")), "web", "", ""));
        let first: Vec<u8> = (0..8).map(|number| slot(number).0).collect();
        assert_eq!(first, [16, 3, 4, 9, 28, 26, 27, 31]);
        assert!((0..100).map(slot).collect::<SlotSet>().len() > 40);
        // Ranges of the FNV-1a hash would put all of them into few slots.
        let range = |number: u32| shard.count.slot_of(fnv1a(&format!("team-{number}")));
        assert!((0..100).map(range).collect::<SlotSet>().len() < 5);
    }

    #[test]
    fn adjacent_slots_are_one_range_of_the_selector() {
        let selector = shard(ShardKey::Uid, 16, &[15, 1, 2, 14, 4]).selector().unwrap();
        let ranges: Vec<_> = selector.split(" || ").collect();
        assert_eq!(
            ranges,
            [
                "shardRange(object.metadata.uid, '0x1000000000000000', '0x3000000000000000')",
                "shardRange(object.metadata.uid, '0x4000000000000000', '0x5000000000000000')",
                "shardRange(object.metadata.uid, '0xe000000000000000', '0x10000000000000000')",
            ]
        );
        let half = shard(ShardKey::Uid, 256, &(0..128).collect::<Vec<_>>()).selector().unwrap();
        assert_eq!(half, "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')");
        assert_eq!(shard(ShardKey::Namespace, 16, &[1]).selector(), None, "only the client filters");
        assert_eq!(shard(ShardKey::Name, 16, &[1]).selector(), None, "only the client filters");
        assert_eq!(shard(ShardKey::Uid, 4, &[0, 1, 2, 3]).selector(), None, "all objects");
        assert_eq!(shard(ShardKey::Uid, 1, &[0]).selector(), None, "all objects");
        assert_eq!(shard(ShardKey::Uid, 4, &[]).selector().as_deref(), Some(""), "not all objects");
    }

    #[test]
    fn key_does_not_decide_for_uids_unless_slots_are_equal() {
        let key = KeyRef::new(Some("a"), "web");
        let Slot(slot) =
            shard(ShardKey::Namespace, 16, &[]).slot_of(&ObjectIdRef::new(Some("a"), "web", "", ""));
        let verdict = |key_of: ShardKey, slots: &[u8]| shard(key_of, 16, slots).contains_key(key);
        assert_eq!(verdict(ShardKey::Namespace, &[slot]), Some(true));
        assert_eq!(verdict(ShardKey::Namespace, &[(slot + 1) % 16]), Some(false));
        assert_eq!(verdict(ShardKey::Uid, &[slot]), None);
        for by in [ShardKey::Namespace, ShardKey::Name, ShardKey::Uid] {
            assert_eq!(verdict(by, &[]), Some(false));
            assert_eq!(verdict(by, &(0..16).collect::<Vec<_>>()), Some(true));
        }
    }

    #[test]
    fn count_is_a_power_of_two_up_to_256() {
        let valid: Vec<_> = (0..=1024).filter(|count| SlotCount::new(*count).is_ok()).collect();
        assert_eq!(valid, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(SlotCount::default().get(), 64);
        assert_eq!(
            SlotCount::new(3).unwrap_err().to_string(),
            "3 slots are not supported; use a power of two from 1 to 256"
        );
    }

    #[test]
    fn set_is_formatted_as_ranges() {
        let set: SlotSet = [0, 1, 2, 5, 254, 255].map(Slot).into_iter().collect();
        assert_eq!((set.to_string(), set.len()), ("0-2,5,254-255".to_owned(), 6));
        assert_eq!(SlotSet::default().to_string(), "");
        for set in [set, SlotSet::default(), SlotSet::all(SlotCount::default())] {
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        for text in ["a", ",", "1,", "-1", "256", "1-2-3", " 1"] {
            assert!(text.parse::<SlotSet>().is_err(), "{text}");
        }
    }

    proptest! {
        /// Each object is in exactly one slot, and the hash of the object is in the range of this slot.
        #[test]
        fn each_object_is_in_one_slot(uid in "[a-f0-9-]{0,36}", bits in 0_u32..=8) {
            let count = SlotCount::new(1 << bits).unwrap();
            let id = ObjectIdRef::new(None, "web", &uid, "1");
            let holds = |slot: &Slot| {
                Shard { key: ShardKey::Uid, count, slots: SlotSet::from_iter([*slot]) }.contains(&id)
            };
            let slots: Vec<_> = SlotSet::all(count).iter().filter(holds).collect();
            prop_assert_eq!(slots.len(), 1);
            let slot = u16::from(slots[0].0);
            let range = count.start_of(slot)..count.start_of(slot + 1);
            prop_assert!(range.contains(&u128::from(fnv1a(&uid))));
        }

        #[test]
        fn sets_agree_with_a_model(one in prop::collection::btree_set(any::<u8>(), 0..20), other in prop::collection::btree_set(any::<u8>(), 0..20)) {
            let set = |slots: &std::collections::BTreeSet<u8>| slots.iter().copied().map(Slot).collect::<SlotSet>();
            let numbers = |set: SlotSet| set.iter().map(|slot| slot.0).collect::<std::collections::BTreeSet<_>>();
            prop_assert_eq!(numbers(set(&one).union(&set(&other))), &one | &other);
            prop_assert_eq!(numbers(set(&one).intersection(&set(&other))), &one & &other);
            prop_assert_eq!(numbers(set(&one).difference(&set(&other))), &one - &other);
            prop_assert_eq!(set(&one).is_empty(), one.is_empty());
            prop_assert_eq!(set(&one).len(), one.len());
        }
    }
}
