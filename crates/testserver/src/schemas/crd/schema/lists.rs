//! `x-kubernetes-list-type`: the values of a set and the keys of a map are unique.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::schemas::crd::schema::node;
use crate::schemas::crd::schema::path::{Path, visit};
use crate::status::Cause;

/// Returns a cause for each repeated item in all sets and maps of an object.
pub(crate) fn duplicates(object: &Value, schema: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    visit(object, schema, &Path::default(), &mut |value, schema, path| match (
        value,
        node::text(schema, "x-kubernetes-list-type"),
    ) {
        (Value::Array(list), "set") => repeated(list.iter().cloned(), path, &mut causes),
        (Value::Array(list), "map") => keyed(list, schema, path, &mut causes),
        _ => {}
    });
    causes
}

fn keyed(list: &[Value], schema: &Value, path: &Path, causes: &mut Vec<Cause>) {
    if let Some(index) = list.iter().position(|item| !item.is_object() && !item.is_null()) {
        let text = "must be an object for an array of list-type map";
        let shown = list.get(index).map(Value::to_string).unwrap_or_default();
        causes.push(Cause::invalid(path.item(index).text(), &shown, text));
        return;
    }
    repeated(list.iter().map(|item| key_of(item, schema)), path, causes);
}

pub(crate) fn key_of(item: &Value, schema: &Value) -> Value {
    let keys = node::texts(schema, "x-kubernetes-list-map-keys");
    keys.filter_map(|key| Some((key.to_owned(), item.get(key)?.clone()))).collect::<Map<_, _>>().into()
}

/// Adds one cause for each repeated value, at its second occurrence.
fn repeated(values: impl Iterator<Item = Value>, path: &Path, causes: &mut Vec<Cause>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, value) in values.enumerate() {
        let shown = value.to_string();
        let times = seen.entry(shown.clone()).or_default();
        *times += 1;
        if *times == 2 {
            causes.push(Cause::duplicate(path.item(index).text(), &shown));
        }
    }
}
