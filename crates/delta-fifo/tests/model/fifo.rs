//! Compares `DeltaFifo` with a plain list of the pushed deltas.

use std::collections::HashSet;

use kube_delta_fifo::DeltaFifo;
use kube_object::{Delta, Listed, ResourceVersion};
use proptest::prelude::*;

use crate::world::entry;

#[derive(Debug, Clone)]
enum Step {
    Push(DeltaKind),
    Pop { max: usize },
    Close,
}

#[derive(Debug, Clone)]
enum DeltaKind {
    Begin,
    Page(usize),
    End,
    Put(usize),
    Remove(usize),
    Undecodable(usize),
    Bookmark,
    Clear,
}

fn kind() -> impl Strategy<Value = DeltaKind> {
    prop_oneof![
        1 => Just(DeltaKind::Begin),
        1 => (0..12usize).prop_map(DeltaKind::Page),
        1 => Just(DeltaKind::End),
        8 => (0..6usize).prop_map(DeltaKind::Put),
        3 => (0..6usize).prop_map(DeltaKind::Remove),
        1 => (0..6usize).prop_map(DeltaKind::Undecodable),
        3 => Just(DeltaKind::Bookmark),
        1 => Just(DeltaKind::Clear),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        60 => kind().prop_map(Step::Push),
        20 => (0..10usize).prop_map(|max| Step::Pop { max }),
        1 => Just(Step::Close),
    ]
}

/// Returns a delta whose text is unique in the sequence.
fn delta(kind: &DeltaKind, version: u64) -> Delta<()> {
    let object = |key: &usize| entry(*key, 1, version);
    match kind {
        DeltaKind::Begin => Delta::Begin { without_reuse: version.is_multiple_of(2) },
        DeltaKind::Page(size) => Delta::Page((0..*size).map(|key| Listed::Object(object(&key))).collect()),
        DeltaKind::End => Delta::End { version: version.into(), complete: true },
        DeltaKind::Put(key) => Delta::Put(object(key)),
        DeltaKind::Remove(key) => Delta::Remove { id: object(key).id, last: None },
        DeltaKind::Undecodable(key) => Delta::Undecodable(object(key).id),
        DeltaKind::Bookmark => Delta::Bookmark(ResourceVersion::from(version)),
        DeltaKind::Clear => Delta::Clear,
    }
}

/// Returns whether these deltas can form one batch.
fn may_be_a_batch(deltas: &[Delta<()>]) -> bool {
    let is_separate = |delta: &Delta<()>| {
        matches!(delta, Delta::Begin { .. } | Delta::Page(_) | Delta::End { .. } | Delta::Clear)
    };
    let mut keys = HashSet::new();
    deltas.len() == 1
        || deltas.iter().all(|delta| !is_separate(delta) && delta.key().is_none_or(|key| keys.insert(key)))
}

/// Returns the length of the longest prefix of `queued` that can form a batch.
fn longest_batch(queued: &[Delta<()>], max: usize) -> usize {
    let longest = queued.len().min(max.max(1));
    (1..=longest).rev().find(|len| may_be_a_batch(&queued[..*len])).unwrap_or(0)
}

fn texts(deltas: &[Delta<()>]) -> Vec<String> {
    deltas.iter().map(|delta| format!("{delta:?}")).collect()
}

proptest! {
    /// Properties 14 and 16: batches are prefixes with distinct keys, and the order never changes.
    #[test]
    fn batches_are_longest_prefixes_with_distinct_keys(
        bound in 0..20usize,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut fifo = DeltaFifo::new(bound);
        let mut queued: Vec<Delta<()>> = Vec::new();
        let mut closed = false;
        for (version, step) in (1..).zip(steps) {
            match step {
                Step::Push(kind) => {
                    let delta = delta(&kind, version);
                    let fits = queued.is_empty()
                        || queued.iter().map(Delta::weight).sum::<usize>() + delta.weight() <= bound;
                    prop_assert_eq!(fifo.has_room(&delta), fits);
                    let taken = fifo.push(delta.clone()).is_none();
                    prop_assert_eq!(taken, fits && !closed);
                    if taken {
                        queued.push(delta);
                    }
                }
                Step::Pop { max } => {
                    let expected: Vec<_> = queued.drain(..longest_batch(&queued, max)).collect();
                    prop_assert_eq!(texts(&fifo.pop_batch(max)), texts(&expected));
                }
                Step::Close => {
                    fifo.close();
                    closed = true;
                }
            }
            fifo.check();
            prop_assert_eq!(fifo.len(), queued.len());
            prop_assert_eq!(fifo.weight(), queued.iter().map(Delta::weight).sum::<usize>());
        }
    }
}
