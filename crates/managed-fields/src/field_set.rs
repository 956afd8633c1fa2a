//! Sets of fields with union, difference and intersection.
//!
//! A set is stored in the format of FieldsV1, so that parsing and serialising are cheap. A step with
//! the value `{}` is a member without nested steps. A step with nested steps is a member only if they
//! include `.`.

use serde_json::{Map, Value};

use crate::step;

/// Holds a set of fields, as in `fieldsV1` of `metadata.managedFields`. Each step of a path is a member or
/// has nested members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(Map<String, Value>);

const SELF: &str = ".";

impl FieldSet {
    /// Parses FieldsV1 that a client sent. Steps of unknown kinds are omitted. Returns `None` if the JSON
    /// is not valid FieldsV1.
    pub fn from_json(value: Value) -> Option<Self> {
        let Value::Object(map) = value else { return None };
        read(map).map(Self)
    }

    /// Creates a set from FieldsV1 that was valid before, for example of a stored object. Returns `None` if
    /// the JSON is not an object.
    pub fn from_json_unchecked(value: Value) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self(map)),
            _ => None,
        }
    }

    /// Converts the set to FieldsV1.
    pub fn into_json(self) -> Value {
        Value::Object(self.0)
    }

    /// Returns whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a step with its nested steps. `member` marks the step itself as a member. The set must not
    /// contain the step.
    pub(crate) fn put(&mut self, step: String, member: bool, below: Self) {
        let mut below = below.0;
        if below.is_empty() && !member {
            return;
        }
        if !below.is_empty() && member {
            below.insert(SELF.into(), Value::Object(Map::new()));
        }
        self.0.insert(step, Value::Object(below));
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
        add(&mut self.0, other.0);
    }

    /// Removes the members of `other`, but not the nested members.
    pub fn subtract(&mut self, other: &Self) {
        subtract(&mut self.0, &other.0);
    }

    /// Removes the members of `other` with all nested members.
    pub fn subtract_nested(&mut self, other: &Self) {
        subtract_nested(&mut self.0, &other.0);
    }

    /// Returns the common members of both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self(intersection(&self.0, &other.0))
    }

    /// Returns whether the step is a member.
    pub(crate) fn has(&self, step: &str) -> bool {
        self.0.get(step).is_some_and(is_member)
    }

    /// Returns the nested set of a step.
    pub(crate) fn below(&self, step: &str) -> Option<Self> {
        let mut below = self.0.get(step)?.as_object()?.clone();
        below.remove(SELF);
        (!below.is_empty()).then_some(Self(below))
    }

    /// Returns each step, with its membership and its nested set.
    pub(crate) fn into_steps(self) -> impl Iterator<Item = (String, bool, Self)> {
        self.0.into_iter().map(|(step, node)| {
            let member = is_member(&node);
            let mut below = match node {
                Value::Object(below) => below,
                _ => Map::new(),
            };
            below.remove(SELF);
            (step, member, Self(below))
        })
    }

    /// Returns the paths of all members, such as `.spec.containers[name="web"].image`. Order and notation
    /// equal the messages of kube-apiserver.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        collect(&self.0, "", &mut paths);
        paths
    }
}

fn is_member(node: &Value) -> bool {
    node.as_object().is_none_or(|below| below.is_empty() || below.contains_key(SELF))
}

fn read(map: Map<String, Value>) -> Option<Map<String, Value>> {
    let mut out = Map::new();
    for (step, node) in map {
        let Value::Object(below) = node else { return None };
        if step == SELF {
            out.insert(step, Value::Object(Map::new()));
        } else if let Some(step) = known_step(step)? {
            out.insert(step, Value::Object(read(below)?));
        }
    }
    Some(out)
}

/// Converts a step to canonical form. Returns `Some(None)` for a step of an unknown kind, and `None`
/// for an invalid step.
fn known_step(step: String) -> Option<Option<String>> {
    match step.get(..2)? {
        "f:" => Some(Some(step)),
        "k:" | "v:" | "i:" => step::canonical(&step).map(Some),
        other => other.ends_with(':').then_some(None),
    }
}

fn add(to: &mut Map<String, Value>, what: Map<String, Value>) {
    if to.is_empty() {
        *to = what;
        return;
    }
    for (step, node) in what {
        let Some(Value::Object(mine)) = to.get_mut(&step) else {
            to.insert(step, node);
            continue;
        };
        let member = mine.is_empty() || mine.contains_key(SELF) || is_member(&node);
        if let Value::Object(below) = node {
            add(mine, below);
        }
        if member && !mine.is_empty() {
            mine.insert(SELF.into(), Value::Object(Map::new()));
        }
    }
}

fn subtract(from: &mut Map<String, Value>, what: &Map<String, Value>) {
    for (step, node) in what {
        let Some(Value::Object(mine)) = from.get_mut(step) else { continue };
        let member = (mine.is_empty() || mine.contains_key(SELF)) && !is_member(node);
        mine.remove(SELF);
        if let Some(below) = node.as_object() {
            subtract(mine, below);
        }
        update_step(from, step, member);
    }
}

/// Updates a step after nested steps were removed. The step stays if it is a member or has nested steps.
fn update_step(map: &mut Map<String, Value>, step: &str, member: bool) {
    let Some(Value::Object(below)) = map.get_mut(step) else { return };
    match (below.is_empty(), member) {
        (true, false) => {
            map.remove(step);
        }
        (false, true) => {
            below.insert(SELF.into(), Value::Object(Map::new()));
        }
        (true, true) | (false, false) => {}
    }
}

fn subtract_nested(from: &mut Map<String, Value>, what: &Map<String, Value>) {
    for (step, node) in what {
        if is_member(node) {
            from.remove(step);
            continue;
        }
        let Some(Value::Object(mine)) = from.get_mut(step) else { continue };
        let member = mine.is_empty() || mine.contains_key(SELF);
        mine.remove(SELF);
        if let Some(below) = node.as_object() {
            subtract_nested(mine, below);
        }
        update_step(from, step, member);
    }
}

fn intersection(a: &Map<String, Value>, b: &Map<String, Value>) -> Map<String, Value> {
    let mut out = FieldSet::default();
    for (step, node) in a {
        let (Some(Value::Object(theirs)), Value::Object(mine)) = (b.get(step), node) else { continue };
        let member = is_member(node) && b.get(step).is_some_and(is_member);
        let mut below = intersection(mine, theirs);
        below.remove(SELF);
        out.put(step.clone(), member, FieldSet(below));
    }
    out.0
}

/// Collects paths in the order of the real server: the members of a level first, then the nested steps.
fn collect(map: &Map<String, Value>, prefix: &str, paths: &mut Vec<String>) {
    let mut steps: Vec<(&String, &Value)> = map.iter().filter(|(step, _)| *step != SELF).collect();
    steps.sort_by(|(a, _), (b, _)| step::order(a, b));
    let at = |step: &str| format!("{prefix}{}", step::step_path(step));
    paths.extend(steps.iter().filter(|(_, node)| is_member(node)).map(|(step, _)| at(step)));
    for (step, node) in steps {
        if let Some(below) = node.as_object().filter(|below| !below.is_empty()) {
            collect(below, &at(step), paths);
        }
    }
}

#[cfg(test)]
mod tests;
