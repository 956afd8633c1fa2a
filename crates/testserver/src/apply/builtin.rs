//! The merge rules of the built-in kinds: one line for each type, in a compact notation. A test
//! compares them with the OpenAPI document of the real server.
//!
//! These symbols can follow the name of a field:
//!
//! - `{}`: an atomic object, or a list of atomic objects.
//! - `[k,l]`: a list with the key fields `k` and `l`. Patches merge it by the first key. `k=v` sets the
//!   default of a key, which is otherwise empty. `k?` means that a key has no default.
//! - `[]`: a set.
//! - `<k>`: an atomic list that patches merge by `k`.
//! - `!`: patches replace the value.
//! - `^`: the real server always adds the value.
//! - `:T`: the type of the value or of its items.
//!
//! Fields without symbols are omitted, and also the `metadata` of the kinds.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::apply::schema::{Key, List, Schema, Strategy};

const TYPES: &str = include_str!("builtin.txt");

type Lines = HashMap<&'static str, &'static str>;
type Built = HashMap<&'static str, Arc<Schema>>;

static SCHEMAS: LazyLock<Built> = LazyLock::new(|| {
    let lines = lines();
    let mut built = Built::new();
    for name in lines.keys() {
        build(name, &lines, &mut built);
    }
    built
});

/// Returns the lines of the table by type. A line that starts with a space continues the previous line.
fn lines() -> Lines {
    let mut lines = Lines::new();
    let mut rest = TYPES.trim();
    while let Some((name, after)) = rest.split_once(": ") {
        let end = after.match_indices('\n').find(|(at, _)| !after[at + 1..].starts_with(' '));
        let end = end.map_or(after.len(), |(at, _)| at);
        lines.insert(name.trim(), &after[..end]);
        rest = &after[end..];
    }
    lines
}

/// Returns the merge rules of a built-in kind.
pub(crate) fn schema(group: &str, kind: &str) -> Arc<Schema> {
    let full = format!("{group}/{kind}");
    let found = SCHEMAS.get(full.as_str()).or_else(|| SCHEMAS.get(kind));
    with_metadata(found.map(|schema| schema.fields.clone()).unwrap_or_default())
}

fn with_metadata(mut fields: BTreeMap<Box<str>, Arc<Schema>>) -> Arc<Schema> {
    fields.insert("metadata".into(), metadata(true));
    Arc::new(Schema { fields, ..Schema::default() })
}

/// Returns the merge rules of the metadata of all kinds. The server does not add metadata to custom
/// resources.
pub(crate) fn metadata(always: bool) -> Arc<Schema> {
    let fields = SCHEMAS.get("ObjectMeta").map(|schema| schema.fields.clone()).unwrap_or_default();
    Arc::new(Schema { fields, always, ..Schema::default() })
}

/// Builds the rules of a type. The types of the table have no reference cycles.
fn build(name: &'static str, lines: &Lines, built: &mut Built) -> Option<Arc<Schema>> {
    if let Some(schema) = built.get(name) {
        return Some(schema.clone());
    }
    let mut fields = BTreeMap::new();
    for word in lines.get(name)?.split_whitespace() {
        let (name, schema) = field(word, lines, built);
        fields.insert(name.into(), Arc::new(schema));
    }
    let schema = Arc::new(Schema { fields, ..Schema::default() });
    built.insert(name, schema.clone());
    Some(schema)
}

/// Parses one word of a line.
fn field(word: &'static str, lines: &Lines, built: &mut Built) -> (&'static str, Schema) {
    let (word, of) = match word.split_once(':') {
        Some((word, of)) => (word, build(of, lines, built)),
        None => (word, None),
    };
    let end = word.find(|c: char| !c.is_alphanumeric() && c != '-').unwrap_or(word.len());
    let (name, marks) = word.split_at(end);
    let replaced = marks.contains('!');
    let mut schema = Schema {
        atomic: marks.contains("{}"),
        always: marks.contains('^'),
        patch: if replaced { Strategy::Replace } else { Strategy::Plain },
        ..Schema::default()
    };
    if let Some(keys) = between(marks, '[', ']') {
        let keys: Vec<Key> = keys.split(',').filter(|key| !key.is_empty()).map(key).collect();
        if !replaced {
            schema.patch = keys.first().map_or(Strategy::Values, |key| Strategy::Key(key.name.clone()));
        }
        schema.list = if keys.is_empty() { List::Set } else { List::Keyed(keys) };
    }
    if let Some(key) = between(marks, '<', '>') {
        schema.patch = Strategy::Key(key.into());
    }
    match of {
        _ if schema.atomic && schema.list != List::Atomic => {
            schema.atomic = false;
            schema.items = Some(Arc::new(Schema { atomic: true, ..Schema::default() }));
        }
        Some(of) if marks.contains(['[', '<']) => schema.items = Some(of),
        Some(of) => schema.fields = of.fields.clone(),
        None => {}
    }
    (name, schema)
}

fn between(text: &str, open: char, close: char) -> Option<&str> {
    let (_, after) = text.split_once(open)?;
    Some(after.split_once(close)?.0)
}

fn key(text: &str) -> Key {
    let (name, default) = match text.split_once('=') {
        Some((name, default)) => (name, Some(Value::from(default))),
        None if text.ends_with('?') => (text.trim_end_matches('?'), None),
        None if matches!(text, "containerPort" | "port") => (text, Some(Value::from(0))),
        None => (text, Some(Value::from(""))),
    };
    Key { name: name.into(), default }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_parsed_completely() {
        let lines = lines();
        assert_eq!(lines.len(), TYPES.trim().lines().filter(|line| !line.starts_with(' ')).count());
        let words: Vec<&str> = lines.values().flat_map(|line| line.split_whitespace()).collect();
        let types: Vec<&str> = words.iter().filter_map(|word| Some(word.split_once(':')?.1)).collect();
        assert!(types.iter().all(|name| lines.contains_key(name)), "a type is missing");
    }

    #[test]
    fn container_key_is_name_and_port_keys_are_number_and_protocol() {
        let pod = schema("", "Pod");
        let containers = pod.field("spec").field("containers");
        assert_eq!(containers.patch, Strategy::Key("name".into()));
        let ports = containers.item().field("ports");
        let key = |name: &str, default: Value| Key { name: name.into(), default: Some(default) };
        assert_eq!(
            ports.list,
            List::Keyed(vec![key("containerPort", 0.into()), key("protocol", "TCP".into())])
        );
        assert_eq!(ports.patch, Strategy::Key("containerPort".into()));
        assert!(pod.field("spec").field("nodeSelector").atomic);
        assert_eq!(pod.field("metadata").field("finalizers").list, List::Set);
    }

    #[test]
    fn deployments_contain_pod_rules_and_both_event_groups_have_rules() {
        let deployment = schema("apps", "Deployment");
        let volumes = deployment.field("spec").field("template").field("spec").field("volumes");
        assert!(volumes.patch == Strategy::Key("name".into()));
        assert!(schema("", "Event").field("involvedObject").atomic);
        assert!(schema("events.k8s.io", "Event").field("regarding").atomic);
    }
}
