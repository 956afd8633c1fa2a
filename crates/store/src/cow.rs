//! `CowVec`: a growing array in chunks. A copy costs one reference count.
//!
//! The array is a wide tree: a leaf has `LEAF` elements, and an inner node has [`FAN`] children. A
//! write changes an unshared chunk in place. If a copy shares the chunk, the write first copies the
//! chunk and its path from the root. A read of an unwritten element returns `None`.

use std::{hint::black_box, iter::repeat_with, sync::Arc};

use crate::touches::touch;

/// The number of children of an inner node. It is small, because a copy of a node increments the
/// reference count of each child.
const FAN: usize = 1 << FAN_BITS;
const FAN_BITS: u32 = 4;

#[derive(Clone)]
pub(crate) struct CowVec<E, const LEAF: usize> {
    root: Node<E>,
    /// Inner levels above the leaves.
    height: u32,
}

#[derive(Clone)]
enum Node<E> {
    /// A node without written elements.
    Empty,
    Leaf(Arc<[E]>),
    Inner(Arc<[Node<E>]>),
}

impl<E, const LEAF: usize> Default for CowVec<E, LEAF> {
    fn default() -> Self {
        Self { root: Node::Empty, height: 0 }
    }
}

impl<E, const LEAF: usize> CowVec<E, LEAF> {
    const LEAF_BITS: u32 = LEAF.trailing_zeros();

    /// Returns the number of low bits of an index that select a place in this tree.
    fn bits(&self) -> u32 {
        Self::LEAF_BITS + FAN_BITS * self.height
    }

    /// Returns the leaf that contains this index. Returns an empty slice if the leaf was not
    /// written.
    pub(crate) fn leaf(&self, at: usize) -> &[E] {
        touch();
        let mut bits = self.bits();
        if at >> bits != 0 {
            return &[];
        }
        let mut node = &self.root;
        loop {
            match node {
                Node::Empty => return &[],
                Node::Leaf(items) => return items,
                Node::Inner(children) => {
                    bits -= FAN_BITS;
                    node = &children[(at >> bits) % FAN];
                }
            }
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<&E> {
        self.leaf(at).get(at % LEAF)
    }

    /// Iterates over the leaves up to the first leaf that was not written.
    pub(crate) fn leaves(&self) -> Leaves<'_, E, LEAF> {
        Leaves { array: self, nodes: [].iter(), next: 0 }
    }

    /// Returns the leaves beside the leaf that contains this index. Returns `None` if these leaves were not
    /// written.
    fn siblings(&self, at: usize) -> Option<&[Node<E>]> {
        touch();
        let mut bits = self.bits();
        if at >> bits != 0 {
            return None;
        }
        let mut siblings = std::slice::from_ref(&self.root);
        let mut node = &self.root;
        while let Node::Inner(children) = node {
            bits -= FAN_BITS;
            siblings = children;
            node = &children[(at >> bits) % FAN];
        }
        Some(siblings)
    }
}

/// Iterates over the leaves of a [`CowVec`]. Searches the tree once for several leaves.
pub(crate) struct Leaves<'a, E, const LEAF: usize> {
    array: &'a CowVec<E, LEAF>,
    /// The rest of the current siblings.
    nodes: std::slice::Iter<'a, Node<E>>,
    /// The first index after the current siblings.
    next: usize,
}

impl<E, const LEAF: usize> Clone for Leaves<'_, E, LEAF> {
    fn clone(&self) -> Self {
        Self { nodes: self.nodes.clone(), ..*self }
    }
}

impl<'a, E, const LEAF: usize> Iterator for Leaves<'a, E, LEAF> {
    type Item = &'a [E];

    #[inline]
    fn next(&mut self) -> Option<&'a [E]> {
        if self.nodes.len() == 0 {
            let siblings = self.array.siblings(self.next)?;
            self.next += siblings.len() * LEAF;
            self.nodes = siblings.iter();
        }
        match self.nodes.next() {
            Some(Node::Leaf(items)) => Some(items),
            _ => None,
        }
    }
}

/// A value whose clone increments reference counts.
pub(crate) trait Counted: Clone {
    /// Reads the reference counts that a clone increments. Returns a number that depends on them.
    fn read_counts(&self) -> usize;
}

impl<E: Counted + Default, const LEAF: usize> CowVec<E, LEAF> {
    /// Returns the element for writing, and creates it if it is absent. Copies the shared chunks on
    /// its path.
    pub(crate) fn get_mut(&mut self, at: usize) -> &mut E {
        touch();
        while at >> self.bits() != 0 {
            self.grow();
        }
        let mut bits = self.bits();
        let mut node = &mut self.root;
        loop {
            match node {
                Node::Empty if bits == Self::LEAF_BITS => *node = Node::Leaf(filled(LEAF, E::default)),
                Node::Empty => *node = Node::Inner(filled(FAN, || Node::Empty)),
                Node::Leaf(items) => return &mut unshare(items)[at % LEAF],
                Node::Inner(children) => {
                    bits -= FAN_BITS;
                    node = &mut unshare(children)[(at >> bits) % FAN];
                }
            }
        }
    }

    /// Drops the leaf that contains this index. The elements of the leaf are then absent.
    pub(crate) fn drop_leaf(&mut self, at: usize) {
        let mut bits = self.bits();
        let mut node = &mut self.root;
        if at >> bits != 0 {
            return;
        }
        loop {
            match node {
                Node::Empty => return,
                Node::Leaf(_) => {
                    *node = Node::Empty;
                    return;
                }
                Node::Inner(children) => {
                    bits -= FAN_BITS;
                    node = &mut unshare(children)[(at >> bits) % FAN];
                }
            }
        }
    }

    /// Returns the first index of each leaf that differs from an older copy of this array. Returns `None` if
    /// more than `limit` leaves differ.
    ///
    /// Shared chunks are skipped, so the cost depends only on the number of changed leaves.
    pub(crate) fn changed_leaves(&self, older: &Self, limit: usize) -> Option<Vec<usize>> {
        let mut older = older.clone();
        while older.height < self.height {
            older.grow();
        }
        let mut leaves = Vec::new();
        collect_changed(&self.root, &older.root, 0, self.bits(), limit, &mut leaves);
        (leaves.len() <= limit).then_some(leaves)
    }

    fn grow(&mut self) {
        self.height += 1;
        if !matches!(self.root, Node::Empty) {
            let mut old = Some(std::mem::replace(&mut self.root, Node::Empty));
            self.root = Node::Inner(filled(FAN, || old.take().unwrap_or(Node::Empty)));
        }
    }
}

/// Returns a chunk for writing. Copies the chunk if it is shared.
///
/// A copy increments counts that are scattered in memory, and each increment waits for its memory. The counts
/// are therefore read first, because the processor waits for several reads concurrently.
pub(crate) fn unshare<C: Counted>(chunk: &mut Arc<[C]>) -> &mut [C] {
    if Arc::strong_count(chunk) > 1 {
        black_box(chunk.iter().fold(0, |all, element| all ^ element.read_counts()));
    }
    Arc::make_mut(chunk)
}

impl<E: Clone> Counted for Node<E> {
    fn read_counts(&self) -> usize {
        match self {
            Node::Empty => 0,
            Node::Leaf(items) => Arc::strong_count(items),
            Node::Inner(children) => Arc::strong_count(children),
        }
    }
}

/// Collects the changed leaves of two nodes of the same height, until there are more than `limit`. `start` is
/// the first index of the nodes, and `bits` selects an index in them.
fn collect_changed<E>(
    node: &Node<E>,
    older: &Node<E>,
    start: usize,
    bits: u32,
    limit: usize,
    leaves: &mut Vec<usize>,
) {
    match (node, older) {
        _ if leaves.len() > limit => {}
        (Node::Empty, Node::Empty) => {}
        (Node::Leaf(one), Node::Leaf(other)) if Arc::ptr_eq(one, other) => {}
        (Node::Inner(one), Node::Inner(other)) if Arc::ptr_eq(one, other) => {}
        (Node::Leaf(_), _) | (_, Node::Leaf(_)) => leaves.push(start),
        _ => {
            let bits = bits - FAN_BITS;
            for child in 0..FAN {
                let start = start + (child << bits);
                collect_changed(node.child(child), older.child(child), start, bits, limit, leaves);
            }
        }
    }
}

impl<E> Node<E> {
    fn child(&self, at: usize) -> &Self {
        match self {
            Node::Inner(children) => &children[at],
            Node::Empty | Node::Leaf(_) => &Node::Empty,
        }
    }
}

fn filled<E>(length: usize, element: impl FnMut() -> E) -> Arc<[E]> {
    repeat_with(element).take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Counted for u32 {
        fn read_counts(&self) -> usize {
            0
        }
    }

    impl Counted for usize {
        fn read_counts(&self) -> usize {
            0
        }
    }

    #[test]
    fn unwritten_elements_are_absent() {
        let mut numbers = CowVec::<u32, 4>::default();
        assert_eq!(numbers.get(0), None);
        *numbers.get_mut(1000) = 7;
        assert_eq!((numbers.get(1000), numbers.get(1001)), (Some(&7), Some(&0)));
        assert_eq!((numbers.get(0), numbers.get(999), numbers.get(1_000_000)), (None, None, None));
    }

    #[test]
    fn unshared_chunks_are_written_in_place() {
        let mut numbers = CowVec::<u32, 4>::default();
        *numbers.get_mut(300) = 1;
        let before: *const u32 = numbers.get(300).unwrap();
        *numbers.get_mut(300) = 2;
        assert!(std::ptr::eq(before, numbers.get(300).unwrap()));
    }

    #[test]
    fn dropped_leaf_has_no_elements_and_copies_keep_it() {
        let mut numbers = CowVec::<u32, 4>::default();
        (0..100).for_each(|at| *numbers.get_mut(at) = 1);
        let copy = numbers.clone();
        numbers.drop_leaf(50);
        numbers.drop_leaf(10_000);
        let absent: Vec<usize> = (0..100).filter(|at| numbers.get(*at).is_none()).collect();
        assert_eq!(absent, [48, 49, 50, 51]);
        assert_eq!(copy.get(50), Some(&1));
        *numbers.get_mut(50) = 2;
        assert_eq!((numbers.get(50), numbers.get(51)), (Some(&2), Some(&0)));
    }

    #[test]
    fn only_the_path_to_a_write_is_copied() {
        let mut numbers = CowVec::<u32, 4>::default();
        for at in 0..512 {
            *numbers.get_mut(at) = at as u32;
        }
        let copy = numbers.clone();
        *numbers.get_mut(300) = 0;
        let shared = |at| std::ptr::eq(numbers.get(at).unwrap(), copy.get(at).unwrap());
        assert_eq!((0..512).filter(|at| !shared(*at)).collect::<Vec<_>>(), [300, 301, 302, 303]);
        assert_eq!(copy.get(300), Some(&300));
    }

    proptest! {
        /// Leaves that were not written are not returned.
        #[test]
        fn changed_leaves_are_the_written_leaves(
            before in prop::collection::vec((0usize..5000, any::<u32>()), 0..50),
            after in prop::collection::vec((0usize..20_000, any::<u32>()), 0..50),
        ) {
            let mut older = CowVec::<u32, 4>::default();
            before.iter().for_each(|(at, value)| *older.get_mut(*at) = *value);
            let mut newer = older.clone();
            after.iter().for_each(|(at, value)| *newer.get_mut(*at) = *value);
            let written: std::collections::BTreeSet<usize> = after.iter().map(|(at, _)| at / 4 * 4).collect();
            let count = written.len();
            let written: Vec<usize> = written.into_iter().collect();
            prop_assert_eq!(newer.changed_leaves(&older, count), Some(written));
            if count > 0 {
                prop_assert_eq!(newer.changed_leaves(&older, count - 1), None);
            }
        }

        #[test]
        fn leaves_contain_the_first_elements(len in 0usize..600) {
            let mut numbers = CowVec::<usize, 4>::default();
            (0..len).for_each(|at| *numbers.get_mut(at) = at);
            let found: Vec<usize> = numbers.leaves().flatten().copied().take(len).collect();
            prop_assert_eq!(found, (0..len).collect::<Vec<_>>());
            prop_assert_eq!(numbers.leaves().count(), len.div_ceil(4));
        }

        #[test]
        fn copies_are_immutable_and_reads_see_last_write(
            writes in prop::collection::vec((0usize..5000, any::<u32>(), any::<bool>()), 0..200),
        ) {
            let mut real = CowVec::<u32, 4>::default();
            let mut model = vec![0; 5000];
            let mut copies = Vec::new();
            for (at, value, copy) in writes {
                if copy {
                    copies.push((real.clone(), model.clone()));
                }
                *real.get_mut(at) = value;
                model[at] = value;
            }
            copies.push((real, model));
            for (real, model) in copies {
                let read: Vec<u32> = (0..5000).map(|at| real.get(at).copied().unwrap_or(0)).collect();
                prop_assert_eq!(read, model);
            }
        }
    }
}
