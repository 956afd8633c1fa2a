//! Compares field sets with plain sets of paths.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;

type Path = Vec<&'static str>;
type Model = BTreeSet<Path>;

const STEPS: [&str; 4] = ["a", "b", "c", "d"];

fn model() -> impl Strategy<Value = Model> {
    let path = proptest::collection::vec(proptest::sample::select(STEPS.as_slice()), 1..4);
    proptest::collection::btree_set(path, 0..12)
}

fn set(model: &Model) -> FieldSet {
    let paths: Vec<&[&str]> = model.iter().map(Vec::as_slice).collect();
    FieldSet::from_paths(&paths)
}

/// Returns the members of a set as dotted paths.
fn members(set: &FieldSet) -> BTreeSet<String> {
    set.paths().into_iter().collect()
}

fn dotted(model: &Model) -> BTreeSet<String> {
    model.iter().map(|path| path.iter().map(|step| format!(".{step}")).collect()).collect()
}

/// Checks the invariant of a set. Each step is a member or has nested steps, and the steps are in order.
fn is_tidy(set: &FieldSet) -> bool {
    set.0.is_sorted_by(|a, b| a.step < b.step)
        && set.0.iter().all(|node| node.is_used() && is_tidy(&node.below))
}

proptest! {
    #[test]
    fn set_contains_the_added_members(a in model()) {
        let set = set(&a);
        prop_assert_eq!(members(&set), dotted(&a));
        prop_assert!(is_tidy(&set));
        prop_assert_eq!(FieldSet::from_json(&set.to_json()), Some(set));
    }

    #[test]
    fn set_operations_equal_operations_on_path_sets(a in model(), b in model()) {
        let mut union = set(&a);
        union.add(set(&b));
        prop_assert_eq!(members(&union), dotted(&a.union(&b).cloned().collect()));
        let mut difference = set(&a);
        difference.subtract(&set(&b));
        prop_assert_eq!(members(&difference), dotted(&a.difference(&b).cloned().collect()));
        let both = set(&a).intersection(&set(&b));
        prop_assert_eq!(members(&both), dotted(&a.intersection(&b).cloned().collect()));
        prop_assert_eq!(set(&a).overlaps(&set(&b)), !both.is_empty());
        prop_assert_eq!(set(&a).contains(&set(&b)), b.is_subset(&a));
        for set in [&union, &difference, &both] {
            prop_assert!(is_tidy(set), "{:?}", set);
        }
    }

    #[test]
    fn subtract_nested_removes_members_and_nested_paths(a in model(), b in model()) {
        let mut left = set(&a);
        left.subtract_nested(&set(&b));
        let expected = a.iter().filter(|path| !b.iter().any(|taken| path.starts_with(taken)));
        prop_assert_eq!(members(&left), dotted(&expected.cloned().collect()));
        prop_assert!(is_tidy(&left), "{:?}", left);
    }
}

#[test]
fn serialised_set_equals_the_real_server() {
    let set = FieldSet::from_paths(&[&["data"], &["data", "a"], &["metadata", "labels", "x"]]);
    let written = json!({
        "f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {"f:x": {}}}
    });
    assert_eq!(set.to_json(), written);
    assert_eq!(set.paths(), [".data", ".data.a", ".metadata.labels.x"]);
}

#[test]
fn invalid_set_is_rejected() {
    assert_eq!(FieldSet::from_json(&json!([])), None);
    assert_eq!(FieldSet::from_json(&json!({"f:a": 1})), None);
    assert_eq!(FieldSet::from_json(&json!({"a": {}})), None);
}
