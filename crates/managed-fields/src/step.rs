//! The steps of a field path in FieldsV1: `f:spec`, `k:{"name":"web"}`, `v:"x.test/1"`.

use serde_json::{Map, Value};

use crate::schema::{ListType, MapKey, Schema};

/// Returns the step of a field.
pub(crate) fn field(name: &str) -> String {
    ["f:", name].concat()
}

/// Returns the step of an item of a set or a list with keys, such as `k:{"name":"web"}`. Returns `None` if
/// the item has no valid key.
pub fn item_step(schema: &Schema, item: &Value) -> Option<String> {
    match &schema.list {
        ListType::Atomic => None,
        ListType::Set if item.is_object() || item.is_array() || item.is_null() => None,
        ListType::Set => Some(format!("v:{item}")),
        ListType::Map(keys) => keyed(keys, item.as_object()?),
    }
}

fn keyed(keys: &[MapKey], item: &Map<String, Value>) -> Option<String> {
    let value = |key: &MapKey| item.get(&*key.name).or(key.default.as_ref()).cloned();
    let known: Map<String, Value> =
        keys.iter().filter_map(|key| Some((key.name.to_string(), value(key)?))).collect();
    (!known.is_empty()).then(|| format!("k:{}", Value::Object(known)))
}

/// Writes a step as a JSON string to the end of a text.
pub(crate) fn write_text(step: &str, out: &mut Vec<u8>) {
    if step.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(step.as_bytes());
        out.push(b'"');
    } else {
        // A string, written to memory, always serialises.
        let _ = serde_json::to_writer(out, step);
    }
}

/// Formats a step for messages: `.spec`, `[name="web"]`, `[="x.test/1"]`, `[3]`.
pub fn step_path(step: &str) -> String {
    match step.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("k", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let pairs: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", pairs.join(","))
        }
        Some(("v", value)) => format!("[={value}]"),
        Some(("i", index)) => format!("[{index}]"),
        _ => step.to_owned(),
    }
}

/// Returns the field name of a step, if it is a field step.
pub(crate) fn field_name(step: &str) -> Option<&str> {
    step.strip_prefix("f:")
}

/// Returns whether a step selects a list item by its keys.
pub(crate) fn is_key(step: &str) -> bool {
    step.starts_with("k:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ports() -> Schema {
        let key = |name: &str, default: Value| MapKey { name: name.into(), default: Some(default) };
        let keys = vec![key("containerPort", json!(0)), key("protocol", json!("TCP"))];
        Schema { list: ListType::Map(keys), ..Schema::default() }
    }

    #[test]
    fn item_steps_contain_keys_and_their_defaults() {
        let step = item_step(&ports(), &json!({"protocol": "UDP", "containerPort": 80, "name": "x"}));
        assert_eq!(step.unwrap(), r#"k:{"containerPort":80,"protocol":"UDP"}"#);
        let step = item_step(&ports(), &json!({"containerPort": 80}));
        assert_eq!(step.unwrap(), r#"k:{"containerPort":80,"protocol":"TCP"}"#);
        let set = Schema { list: ListType::Set, ..Schema::default() };
        assert_eq!(item_step(&set, &json!("a")).unwrap(), "v:\"a\"");
        assert_eq!(item_step(&set, &json!({})), None);
    }

    #[test]
    fn notation_of_steps_equals_the_real_server() {
        assert_eq!(step_path("f:spec"), ".spec");
        assert_eq!(
            step_path(r#"k:{"containerPort":80,"protocol":"TCP"}"#),
            r#"[containerPort=80,protocol="TCP"]"#
        );
        assert_eq!(step_path("v:\"x\""), "[=\"x\"]");
        assert_eq!(step_path("i:3"), "[3]");
    }
}
