//! `Table`: which member owns each slot. Plain data without I/O.
//!
//! The table is in an object of the server. Members change it only by compare-and-swap of its
//! resourceVersion, so all moves are ordered. A member loses a slot only by its own release, or after its
//! death. Its knowledge of the slots that it owns is therefore never outdated while it lives.

use std::collections::{BTreeMap, BTreeSet};

use kube_object::{ShardKey, Slot, SlotCount, SlotSet};
use serde::{Deserialize, Serialize};

use super::{
    cluster_slots::ClusterSharding,
    written::{Term, Written},
};

/// The version of the format. Members of different formats never own slots at the same time: a member takes
/// no part while the table has another format and an owner.
///
/// All formats have the fields of [`AnyFormat`]. A format without them must not have a field `slots`, so that
/// members of other formats never replace its table.
pub(crate) const FORMAT: u32 = 1;

/// The maximum size of the versions of all slots in the table, in bytes.
const MAX_WRITTEN_SIZE: usize = 96 << 10;

/// The options that all members of a table have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableOptions {
    pub(crate) format: u32,
    pub(crate) key: ShardKey,
    pub(crate) count: SlotCount,
    pub(crate) clusters: ClusterSharding,
}

impl TableOptions {
    /// Returns the options of this version of the program, with the default for many clusters.
    pub(crate) fn new(key: ShardKey, count: SlotCount) -> Self {
        Self { format: FORMAT, key, count, clusters: ClusterSharding::default() }
    }
}

/// Which member owns each slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Table {
    format: u32,
    key: Key,
    /// A table without this field has the default.
    #[serde(default, skip_serializing_if = "is_default")]
    clusters: ClusterSharding,
    /// In the order of the numbers of the slots.
    slots: Vec<Entry>,
}

fn is_default(clusters: &ClusterSharding) -> bool {
    *clusters == ClusterSharding::default()
}

/// The field of an object that determines its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Key {
    Namespace,
    Name,
    Uid,
    /// The table has another format.
    #[serde(skip)]
    Unknown,
}

/// The owner of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The name of the owner. `None` if the slot is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// The number of claims of this slot: a fencing token for other systems.
    pub(crate) epoch: u64,
    /// The versions that the caches of the next owner must contain. Until the release of the slot, the
    /// versions that the caches of the owner must contain.
    #[serde(default)]
    pub(crate) written: Written,
}

/// The reason why a member cannot use a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TableError {
    #[error(
        "the table has format {table}, and this program supports format {program}; this process takes part when all replicas of the other version have stopped"
    )]
    OtherFormat { table: u32, program: u32 },
    #[error(
        "the table has format {0}, which this program cannot read; upgrade this program, or stop all replicas and delete the Lease with the name of the group"
    )]
    UnknownFormat(u32),
    #[error(
        "the table is not readable: {0}; stop all replicas and delete the Lease with the name of the group"
    )]
    Invalid(String),
    #[error(
        "the table has {slots} slots by {key} and the clusters {clusters:?}, and this program has other options; stop the other replicas, or use their `ShardOptions::key`, `ShardOptions::count` and `ShardOptions::clusters`"
    )]
    OtherOptions { slots: usize, key: &'static str, clusters: ClusterSharding },
}

/// The only field in each text.
#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

/// The fields in all formats.
#[derive(Deserialize)]
struct AnyFormat {
    slots: Vec<AnyEntry>,
}

#[derive(Deserialize)]
struct AnyEntry {
    owner: Option<String>,
    epoch: u64,
}

impl Table {
    pub(crate) fn new(TableOptions { format, key, count, clusters }: TableOptions) -> Self {
        Self { format, key: key.into(), clusters, slots: vec![Entry::default(); count.get().into()] }
    }

    /// Parses the text of a table. If the table has another format, only the owners and the epochs are known.
    pub(crate) fn parse(text: &str) -> Result<Self, TableError> {
        let invalid = |error: serde_json::Error| TableError::Invalid(error.to_string());
        let FormatOnly { format } = serde_json::from_str(text).map_err(invalid)?;
        if format == FORMAT {
            return serde_json::from_str(text).map_err(invalid);
        }
        let AnyFormat { slots } =
            serde_json::from_str(text).map_err(|_| TableError::UnknownFormat(format))?;
        let entry = |AnyEntry { owner, epoch }| Entry { owner, epoch, written: Written::default() };
        let clusters = ClusterSharding::default();
        Ok(Self { format, key: Key::Unknown, clusters, slots: slots.into_iter().map(entry).collect() })
    }

    /// Returns the text of the table.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Checks that the table has these options. A table without owners may have other options, because the
    /// next write replaces it.
    pub(crate) fn check(&self, options: TableOptions) -> Result<(), TableError> {
        if self.has_options(options) || self.slots.iter().all(|entry| entry.owner.is_none()) {
            return Ok(());
        }
        if !self.has_format(options) {
            return Err(TableError::OtherFormat { table: self.format, program: options.format });
        }
        let key = match self.key {
            Key::Namespace => "namespace",
            Key::Name => "name",
            Key::Uid => "uid",
            Key::Unknown => "an unknown key",
        };
        Err(TableError::OtherOptions { slots: self.slots.len(), key, clusters: self.clusters })
    }

    /// Returns the table, or a new table if this one has other options. Epochs never decrease.
    pub(crate) fn with_options(&self, options: TableOptions) -> Self {
        if self.has_options(options) {
            return self.clone();
        }
        let epoch = self.slots.iter().map(|entry| entry.epoch).max().unwrap_or_default();
        let mut table = Self::new(options);
        table.slots.iter_mut().for_each(|entry| entry.epoch = epoch);
        table
    }

    /// Returns whether a member with these options may change the table while it has owners.
    pub(crate) fn has_format(&self, options: TableOptions) -> bool {
        self.format == options.format
    }

    fn has_options(&self, options: TableOptions) -> bool {
        let is_same_key = self.key == Key::from(options.key) && self.clusters == options.clusters;
        self.has_format(options) && is_same_key && self.slots.len() == usize::from(options.count.get())
    }

    /// Returns whether this table can be a later state of `before`. Only a claim changes the owner, and it
    /// increases the epoch. After a restored backup, the result is false.
    pub(crate) fn can_follow(&self, before: &Self) -> bool {
        let options = |table: &Self| (table.format, table.key, table.clusters, table.slots.len());
        if options(self) != options(before) {
            return true; // the options change only without owners, and epochs do not decrease
        }
        self.slots.iter().zip(&before.slots).all(|(after, before)| {
            let is_same_claim = after.owner == before.owner || after.owner.is_none();
            after.epoch > before.epoch || (after.epoch == before.epoch && is_same_claim)
        })
    }

    /// Returns the owner and the epoch of a slot.
    pub(crate) fn entry(&self, Slot(slot): Slot) -> Option<&Entry> {
        self.slots.get(usize::from(slot))
    }

    /// Returns the slots of a member.
    pub(crate) fn slots_of(&self, member: &str) -> SlotSet {
        self.select(|entry| entry.owner.as_deref() == Some(member))
    }

    /// Returns the slots without an owner.
    pub(crate) fn free(&self) -> SlotSet {
        self.select(|entry| entry.owner.is_none())
    }

    /// Returns the members that own a slot.
    pub(crate) fn owners(&self) -> BTreeSet<&str> {
        self.slots.iter().filter_map(|entry| entry.owner.as_deref()).collect()
    }

    /// Returns the slots of each member.
    pub(crate) fn members(&self) -> BTreeMap<String, SlotSet> {
        self.owners().into_iter().map(|owner| (owner.to_owned(), self.slots_of(owner))).collect()
    }

    fn select(&self, is_selected: impl Fn(&Entry) -> bool) -> SlotSet {
        let numbered = (0..=u8::MAX).map(Slot).zip(&self.slots);
        numbered.filter(|(_, entry)| is_selected(entry)).map(|(slot, _)| slot).collect()
    }

    /// Assigns a free slot to a member.
    pub(crate) fn claim(&mut self, Slot(slot): Slot, member: &str) {
        if let Some(entry) = self.slots.get_mut(usize::from(slot)).filter(|entry| entry.owner.is_none()) {
            entry.owner = Some(member.to_owned());
            entry.epoch += 1;
        }
    }

    /// Forgets what earlier owners wrote for a slot.
    pub(crate) fn forget_written(&mut self, Slot(slot): Slot) {
        if let Some(entry) = self.slots.get_mut(usize::from(slot)) {
            entry.written = Written::default();
        }
    }

    /// Frees a slot of a member. `term` is `None` if the member has not completed its work, for example
    /// after a crash.
    pub(crate) fn release(&mut self, Slot(slot): Slot, member: &str, term: Option<&Term>) {
        // The limit of all annotations of an object is 256 KiB.
        let max_size = MAX_WRITTEN_SIZE / self.slots.len().max(1);
        let is_owner = |entry: &&mut Entry| entry.owner.as_deref() == Some(member);
        if let Some(entry) = self.slots.get_mut(usize::from(slot)).filter(is_owner) {
            entry.owner = None;
            let written = term.map(|term| term.after(&entry.written)).unwrap_or_default();
            let is_small = written.size() <= max_size;
            entry.written = if is_small { written } else { Written::default() };
        }
    }
}

impl From<ShardKey> for Key {
    fn from(key: ShardKey) -> Self {
        match key {
            ShardKey::Namespace => Self::Namespace,
            ShardKey::Name => Self::Name,
            ShardKey::Uid => Self::Uid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(owner: &str, epoch: u64) -> Entry {
        Entry { owner: Some(owner.to_owned()), epoch, written: Written::default() }
    }

    fn options(key: ShardKey, slots: u16) -> TableOptions {
        TableOptions::new(key, SlotCount::new(slots).unwrap())
    }

    #[test]
    fn slot_has_one_owner_and_each_claim_has_its_epoch() {
        let mut table = Table::new(options(ShardKey::Namespace, 2));
        table.claim(Slot(1), "a");
        table.claim(Slot(1), "b");
        table.release(Slot(1), "b", None);
        assert_eq!(table.entry(Slot(1)), Some(&entry("a", 1)));
        table.release(Slot(1), "a", None);
        table.claim(Slot(1), "b");
        assert_eq!(table.entry(Slot(1)), Some(&entry("b", 2)));
        assert_eq!(
            (table.slots_of("b"), table.free()),
            (SlotSet::from_iter([Slot(1)]), SlotSet::from_iter([Slot(0)]))
        );
        assert_eq!(Table::parse(&table.text()), Ok(table));
    }

    #[test]
    fn restored_table_cannot_follow() {
        let mut states = vec![Table::new(options(ShardKey::Uid, 2))];
        for (slot, member) in [(0, "a"), (1, "b")] {
            let mut table = states.last().unwrap().clone();
            table.claim(Slot(slot), member);
            states.push(table.clone());
            table.release(Slot(slot), member, None);
            states.push(table.clone());
            table.claim(Slot(slot), "c");
            states.push(table);
        }
        for (before, state) in states.iter().enumerate() {
            for (after, later) in states.iter().enumerate() {
                let is_later = later.can_follow(state);
                assert_eq!(is_later, after >= before, "state {after} after state {before}");
            }
        }
    }

    /// Replicas of two versions read the same table.
    #[test]
    fn text_is_the_same_in_all_versions() {
        let mut table = Table::new(options(ShardKey::Uid, 2));
        table.claim(Slot(0), "a");
        let mut term = Term::default();
        term.add(Some("pods"), Some(9.into()));
        term.reached("jobs.batch", &8.into());
        table.claim(Slot(1), "b");
        table.release(Slot(1), "b", Some(&term));
        let text = r#"{"format":1,"key":"uid","slots":[{"owner":"a","epoch":1,"written":{}},{"epoch":1,"written":{"jobs.batch":"8","pods":"9"}}]}"#;
        assert_eq!(table.text(), text);
        assert_eq!(Table::parse(text), Ok(table));
    }

    /// A Lease cannot contain a larger annotation.
    #[test]
    fn size_of_a_table_is_limited() {
        let mut table = Table::new(options(ShardKey::Namespace, 256));
        let mut term = Term::default();
        for number in 0..60 {
            term.add(Some(&format!("resources-{number}.example.com")), Some(u64::MAX.into()));
        }
        for slot in 0..=255 {
            table.claim(Slot(slot), "operator-0123456789abcdef");
            table.release(Slot(slot), "operator-0123456789abcdef", Some(&term));
        }
        assert!(table.text().len() < 200 << 10, "{}", table.text().len());
    }

    #[test]
    fn unknown_tables_are_rejected() {
        for text in [r#"{"format":2,"new":[]}"#, r#"{"format":2,"slots":{}}"#, r#"{"format":2,"slots":[{}]}"#]
        {
            assert_eq!(Table::parse(text), Err(TableError::UnknownFormat(2)), "{text}");
        }
        for text in ["", "{}", "null", r#"{"format":1}"#, r#"{"format":1,"key":"owner","slots":[]}"#] {
            assert!(matches!(Table::parse(text), Err(TableError::Invalid(_))), "{text}");
        }
    }

    #[test]
    fn options_change_only_without_owners() {
        let mut table = Table::new(options(ShardKey::Uid, 2));
        table.claim(Slot(0), "a");
        let error = table.check(options(ShardKey::Uid, 4)).unwrap_err();
        assert_eq!(
            error,
            TableError::OtherOptions { slots: 2, key: "uid", clusters: ClusterSharding::ByCluster }
        );
        assert!(table.check(options(ShardKey::Namespace, 2)).is_err());
        let clusters = ClusterSharding::ByKey;
        assert!(table.check(TableOptions { clusters, ..options(ShardKey::Uid, 2) }).is_err());
        let by_key = Table::new(TableOptions { clusters, ..options(ShardKey::Uid, 1) });
        assert_eq!(Table::parse(&by_key.text()), Ok(by_key));
        table.release(Slot(0), "a", None);
        assert_eq!(table.check(options(ShardKey::Uid, 4)), Ok(()));
        let mut changed = table.with_options(options(ShardKey::Uid, 4));
        changed.claim(Slot(3), "b");
        assert_eq!(changed.entry(Slot(3)).map(|entry| entry.epoch), Some(2), "the epoch does not decrease");
    }
    #[test]
    fn table_of_another_format_is_replaced_only_without_owners() {
        for format in [0, 2] {
            let text = |owner: &str| {
                format!(
                    r#"{{"format":{format},"new":7,"slots":[{{{owner}"epoch":5,"more":[]}},{{"epoch":3}}]}}"#
                )
            };
            let mut table = Table::parse(&text(r#""owner":"a","#)).unwrap();
            let options = options(ShardKey::Namespace, 2);
            let error = TableError::OtherFormat { table: format, program: FORMAT };
            assert_eq!((table.owners(), table.check(options)), (BTreeSet::from(["a"]), Err(error)));
            table.release(Slot(0), "a", None);
            assert_eq!(Table::parse(&text("")), Ok(table.clone()));
            assert_eq!(table.check(options), Ok(()));
            let mut replaced = table.with_options(options);
            assert!(replaced.has_options(options) && replaced.can_follow(&table));
            replaced.claim(Slot(1), "b");
            assert_eq!(replaced.entry(Slot(1)), Some(&entry("b", 6)), "epochs do not decrease");
        }
    }
}
