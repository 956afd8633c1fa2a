//! Cells that a test on the real server cannot produce, and the table of columns.

use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::constant(1_000_000_000, 0);

/// Returns the cell of a column.
fn cell(resource: (&str, &str), column: &str, object: &Value) -> Value {
    let columns = builtin_columns(resource.0, resource.1);
    let column = columns.columns.iter().find(|of| of.name == column).unwrap();
    column.cell(object, NOW)
}

#[test]
fn every_line_of_the_table_of_columns_is_valid() {
    let count = include_str!("columns.txt").lines().map(|line| line.matches(" | ").count()).sum::<usize>();
    let entries = include_str!("columns.txt").lines().filter(|line| !line.starts_with(' ')).count();
    let kinds = crate::schemas::kinds::builtin::kinds();
    let named = |line: &str| {
        let key = line.split_once(": ").map_or("", |(key, _)| key).to_owned();
        key.ends_with("/scales") || kinds.iter().any(|kind| format!("{}/{}", kind.group, kind.plural) == key)
    };
    let lines = include_str!("columns.txt").lines().filter(|line| !line.starts_with(' '));
    assert_eq!(lines.filter(|line| !named(line)).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(builtin::parsed(), (entries, entries + count), "entries and columns");
}

#[test]
fn object_that_is_being_deleted_has_its_own_status() {
    let deleted = |kind: (&str, &str), column, mut object: Value| {
        object["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z".into();
        cell(kind, column, &object)
    };
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    assert_eq!(deleted(("", "pods"), "Status", phase("Running")), "Terminating");
    assert_eq!(deleted(("", "pods"), "Status", phase("Failed")), "Failed");
    let lost = json!({"status": {"phase": "Running", "reason": "NodeLost"}});
    assert_eq!(cell(("", "pods"), "Status", &lost), "NodeLost");
    assert_eq!(deleted(("", "pods"), "Status", lost), "Unknown");
    assert_eq!(deleted(("", "persistentvolumes"), "Status", phase("Bound")), "Terminating");
    assert_eq!(deleted(("batch", "jobs"), "Status", json!({})), "Terminating");
}

#[test]
fn objects_of_wrong_types_have_cells() {
    let wrong = json!({"metadata": [], "spec": "x", "status": 1, "data": null, "rules": {}, "series": []});
    for kind in crate::schemas::kinds::builtin::kinds() {
        let columns = builtin_columns(&kind.group, &kind.plural);
        for object in [&Value::Null, &wrong] {
            let row = TableFormat::new(columns.clone(), IncludeObject::None).row(object, b"null", NOW);
            assert!(serde_json::from_slice::<Value>(&row).is_ok());
        }
    }
}

#[test]
fn paths_are_parsed_like_in_kubernetes() {
    use jsonpath::Path;
    for good in [".a", "$.a", "@.a", ".a[0]", ".a['b']", ".a[?(@.b)]", "'x'", "-1.5", "true", ""] {
        assert!(Path::parse(good).is_some(), "{good}");
    }
    for bad in [
        ".a[",
        ".a[x]",
        ".a[?(@.b]",
        ".a[?(@.b) ]",
        "..a",
        "'x",
        "#",
        "1.2.3",
        ".a[-]",
        "a",
        ".a[1:]",
        ".a[?(@.b<2)]",
    ] {
        assert!(Path::parse(bad).is_none(), "{bad}");
    }
    let object = json!({"a": [{"b": 1, "c": "x"}, {"b": 2.5}, {"b": null}], "d": {"e": true}});
    let find = |path: &str| json!(Path::parse(path).unwrap().find(&object));
    assert_eq!(find(".a[*].b"), json!([1, 2.5, null]));
    assert_eq!(find(".a[-1].b"), json!([null]));
    assert_eq!((find(".a[9].b"), find(".a[-9].b"), find(".d[0]")), (json!([]), json!([]), json!([])));
    assert_eq!(find(".a[0].c.x"), json!([]));
    assert_eq!(find(".a[?(@.b!=2.5)].c"), json!(["x"]));
    assert_eq!(find(".a[?(@.c==\"x\")].b"), json!([1]));
    assert_eq!(find(".d.*"), json!([true]));
    assert_eq!(find("'x'"), json!(["x"]));
}
