//! The valid objects, and the cases that each object generates.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::changes::Change;

/// A valid object.
pub(super) struct Base {
    /// The path of the collection.
    pub(super) collection: String,
    pub(super) name: String,
    pub(super) object: Value,
}

/// The request of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    Update,
}

/// A request with one change of a valid object.
pub(super) struct Case {
    pub(super) verb: Verb,
    pub(super) change: Change,
    /// The JSON pointer of the changed value.
    pub(super) pointer: String,
}

impl Case {
    pub(super) fn name(&self, base: &Base) -> String {
        let verb = match self.verb {
            Verb::Create => "create",
            Verb::Update => "update",
        };
        format!("{} {verb} {} {}", base.name, self.change.name(), self.pointer)
    }
}

/// Reads the objects.
pub(super) fn bases() -> Result<Vec<Base>> {
    let text = std::fs::read_to_string(super::folder().join("objects.txt"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (collection, rest) = line.split_once(' ').context("no name")?;
            let (name, object) = rest.split_once(' ').context("no object")?;
            let object = serde_json::from_str(object).with_context(|| line.to_owned())?;
            Ok(Base { collection: collection.into(), name: name.into(), object })
        })
        .collect()
}

/// Returns the cases of an object.
pub(super) fn cases(base: &Base) -> Vec<Case> {
    let mut cases = Vec::new();
    collect(&base.object, "", true, &mut cases);
    cases
}

fn collect(value: &Value, pointer: &str, is_field: bool, cases: &mut Vec<Case>) {
    if matches!(pointer, "/apiVersion" | "/kind" | "/metadata/name") {
        return;
    }
    if !matches!(pointer, "" | "/metadata") {
        let removal = is_field.then_some(Change::Remove);
        for change in removal.into_iter().chain(Change::for_create(pointer, value)) {
            cases.push(Case { verb: Verb::Create, change, pointer: pointer.into() });
        }
        for change in removal.into_iter().chain(Change::for_update(pointer, value)) {
            cases.push(Case { verb: Verb::Update, change, pointer: pointer.into() });
        }
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect(value, &format!("{pointer}/{key}"), true, cases);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, &format!("{pointer}/{index}"), false, cases);
            }
        }
        _ => {}
    }
}
