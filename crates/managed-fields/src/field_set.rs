//! Sets of fields with union, difference and intersection.
//!
//! A set is a sorted list of steps with nested sets, which needs less memory and time than maps. In
//! FieldsV1, a step with the value `{}` is a member without nested steps. A step with nested steps is a
//! member only if they include `.`.

use serde_json::Value;

use crate::step;

/// Holds a set of fields, as in `fieldsV1` of `metadata.managedFields`.
///
/// The path of a field consists of steps in the notation of `fieldsV1`. For example, `f:spec` is a field,
/// `k:{"name":"web"}` is an item of a list with keys, and `v:"a"` is a value of a set. Each step is a member
/// of the set, or has nested members, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(Vec<Node>);

/// A step of the paths of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    step: Box<str>,
    is_member: bool,
    below: FieldSet,
}

impl Node {
    fn is_used(&self) -> bool {
        self.is_member || !self.below.is_empty()
    }
}

const SELF: &str = ".";

impl FieldSet {
    /// Parses FieldsV1. Returns `None` if the JSON is not valid FieldsV1.
    pub fn from_json(value: &Value) -> Option<Self> {
        read(value).map(|(_, set)| set)
    }

    /// Converts the set to FieldsV1.
    pub fn to_json(&self) -> Value {
        let mut text = Vec::new();
        self.write_json(false, &mut text);
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Writes FieldsV1 to the end of a text.
    pub(crate) fn write_json(&self, is_member: bool, out: &mut Vec<u8>) {
        out.push(b'{');
        if is_member && !self.is_empty() {
            out.extend_from_slice(b"\".\":{}");
        }
        for Node { step, is_member, below } in &self.0 {
            if !out.ends_with(b"{") {
                out.push(b',');
            }
            step::write_text(step, out);
            out.push(b':');
            below.write_json(*is_member, out);
        }
        out.push(b'}');
    }

    /// Returns whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn place(&self, step: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|node| (*node.step).cmp(step))
    }

    fn get(&self, step: &str) -> Option<&Node> {
        self.place(step).ok().and_then(|place| self.0.get(place))
    }

    /// Adds a step with its nested steps. `is_member` marks the step itself as a member. The set must not
    /// contain the step. This is fast if the steps arrive in order.
    pub(crate) fn put(&mut self, step: impl Into<Box<str>>, is_member: bool, below: Self) {
        let node = Node { step: step.into(), is_member, below };
        if !node.is_used() {
            return;
        }
        if self.0.last().is_none_or(|last| last.step < node.step) {
            self.0.push(node);
        } else if let Err(place) = self.place(&node.step) {
            self.0.insert(place, node);
        }
    }

    /// Adds the field at a path of field names.
    pub(crate) fn add_path(&mut self, names: &[&str]) {
        let mut path = Self::default();
        for (depth, name) in names.iter().rev().enumerate() {
            let below = std::mem::take(&mut path);
            path.put(step::field(name), depth == 0, below);
        }
        self.add(path);
    }

    /// Creates a set from paths of field names, such as `&[&["spec", "replicas"]]`.
    pub fn from_paths(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.add_path(path);
        }
        set
    }

    /// Adds all members of another set.
    pub fn add(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        let mut new = Vec::new();
        for node in other.0 {
            match self.place(&node.step).ok().and_then(|place| self.0.get_mut(place)) {
                Some(mine) => {
                    mine.is_member |= node.is_member;
                    mine.below.add(node.below);
                }
                None => new.push(node),
            }
        }
        if !new.is_empty() {
            self.0.extend(new);
            // Linear, because both parts are in order.
            self.0.sort_by(|a, b| a.step.cmp(&b.step));
        }
    }

    /// Removes the members of `other`, but not the nested members.
    pub fn subtract(&mut self, other: &Self) {
        self.reduce(other, |mine, node| {
            mine.is_member &= !node.is_member;
            mine.below.subtract(&node.below);
        });
    }

    /// Removes the members of `other` with all nested members.
    pub fn subtract_nested(&mut self, other: &Self) {
        self.reduce(other, |mine, node| {
            if node.is_member {
                mine.is_member = false;
                mine.below = Self::default();
            } else {
                mine.below.subtract_nested(&node.below);
            }
        });
    }

    /// Changes the common steps of both sets, and removes the steps that are no longer used.
    fn reduce(&mut self, other: &Self, change: impl Fn(&mut Node, &Node)) {
        let mut others = other.0.iter().peekable();
        self.0.retain_mut(|mine| {
            while others.next_if(|node| node.step < mine.step).is_some() {}
            let Some(node) = others.next_if(|node| node.step == mine.step) else { return true };
            change(mine, node);
            mine.is_used()
        });
    }

    /// Returns the common members of both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for mine in &self.0 {
            if let Some(node) = other.get(&mine.step) {
                let below = mine.below.intersection(&node.below);
                both.put(mine.step.clone(), mine.is_member && node.is_member, below);
            }
        }
        both
    }

    /// Returns whether both sets have common members.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        other.0.iter().any(|node| {
            let overlaps = |mine: &Node| mine.is_member && node.is_member || mine.below.overlaps(&node.below);
            self.get(&node.step).is_some_and(overlaps)
        })
    }

    /// Returns whether the set contains all members of `other`.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        other.0.iter().all(|node| {
            let contains =
                |mine: &Node| (mine.is_member || !node.is_member) && mine.below.contains(&node.below);
            self.get(&node.step).is_some_and(contains)
        })
    }

    /// Returns whether the step is a member.
    pub(crate) fn has(&self, step: &str) -> bool {
        self.get(step).is_some_and(|node| node.is_member)
    }

    /// Returns the nested set of a step. Returns `None` if it has no members.
    pub(crate) fn below(&self, step: &str) -> Option<&Self> {
        self.get(step).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// Returns each step, with its membership and its nested set.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (&str, bool, &Self)> {
        self.0.iter().map(|node| (&*node.step, node.is_member, &node.below))
    }

    /// Returns the paths of all members, such as `.spec.containers[name="web"].image`. The notation
    /// equals the messages of kube-apiserver.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    /// Collects the members of a level first, then the nested steps.
    fn collect(&self, prefix: &str, paths: &mut Vec<String>) {
        let at = |node: &Node| format!("{prefix}{}", step::step_path(&node.step));
        paths.extend(self.0.iter().filter(|node| node.is_member).map(at));
        for node in self.0.iter().filter(|node| !node.below.is_empty()) {
            node.below.collect(&at(node), paths);
        }
    }
}

/// Reads the nested steps of a step. Returns whether the step is a member, and its nested set.
fn read(value: &Value) -> Option<(bool, FieldSet)> {
    let (mut is_member, mut set) = (false, FieldSet::default());
    for (step, value) in value.as_object()? {
        let (is_inner_member, below) = read(value)?;
        match step.get(..2) {
            None if step == SELF => is_member = true,
            Some("f:" | "k:" | "v:" | "i:") => set.put(step.as_str(), is_inner_member, below),
            _ => return None,
        }
    }
    Some((is_member || set.is_empty(), set))
}

#[cfg(test)]
mod tests;
