//! The steps of a field path in FieldsV1: `f:spec`, `k:{"name":"web"}`, `v:"x.test/1"`.

use std::cmp::Ordering;

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
        ListType::Set => Some(format!("v:{}", json(item))),
        ListType::Map(keys) => keyed(keys, item.as_object()?),
    }
}

fn keyed(keys: &[MapKey], item: &Map<String, Value>) -> Option<String> {
    let mut known: Vec<(&str, &Value)> = keys
        .iter()
        .filter_map(|key| Some((&*key.name, item.get(&*key.name).or(key.default.as_ref())?)))
        .collect();
    known.sort_by_key(|(name, _)| *name);
    (!known.is_empty()).then(|| key_step(known.into_iter()))
}

fn key_step<'a>(pairs: impl Iterator<Item = (&'a str, &'a Value)>) -> String {
    let mut step = String::from("k:{");
    for (name, value) in pairs {
        if !step.ends_with('{') {
            step.push(',');
        }
        if name.bytes().all(is_plain) {
            step.extend(["\"", name, "\":"]);
        } else {
            step.extend([&Value::from(name).to_string(), ":"]);
        }
        match value.as_str() {
            Some(text) if text.bytes().all(is_plain) => step.extend(["\"", text, "\""]),
            _ => step.push_str(&json(value)),
        }
    }
    step.push('}');
    step
}

/// Returns whether JSON contains the byte of a text without an escape.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&')
}

/// Formats JSON like Go, which also escapes `<`, `>` and `&`.
fn json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    text.chars().fold(String::with_capacity(text.len() + 8), |mut out, c| {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
        out
    })
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

/// Returns the canonical form of a step. Returns `None` for an invalid step.
pub(crate) fn canonical(step: &str) -> Option<String> {
    match parse(step)? {
        Parsed::Field(name) => Some(field(name)),
        Parsed::Key(fields) => Some(key_step(fields.iter().map(|(name, value)| (name.as_str(), value)))),
        Parsed::Value(value) => Some(format!("v:{}", json(&value))),
        Parsed::Index(index) => Some(format!("i:{index}")),
    }
}

/// Formats a step for messages: `.spec`, `[name="web"]`, `[="x.test/1"]`, `[3]`.
pub fn step_path(step: &str) -> String {
    match parse(step) {
        None => step.to_owned(),
        Some(Parsed::Field(name)) => format!(".{name}"),
        Some(Parsed::Key(fields)) => {
            let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", pairs.join(","))
        }
        Some(Parsed::Value(value)) => format!("[={value}]"),
        Some(Parsed::Index(index)) => format!("[{index}]"),
    }
}

/// Compares two steps of one level in the order of the real server.
pub(crate) fn order(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(Parsed::Field(a)), Some(Parsed::Field(b))) => a.cmp(b),
        (Some(Parsed::Key(a)), Some(Parsed::Key(b))) => order_keys(&a, &b),
        (Some(Parsed::Value(a)), Some(Parsed::Value(b))) => order_values(&a, &b),
        (Some(Parsed::Index(a)), Some(Parsed::Index(b))) => a.cmp(&b),
        (a, b) => rank(a.as_ref()).cmp(&rank(b.as_ref())),
    }
}

fn rank(step: Option<&Parsed<'_>>) -> u8 {
    match step {
        Some(Parsed::Field(_)) => 0,
        Some(Parsed::Key(_)) => 1,
        Some(Parsed::Value(_)) => 2,
        Some(Parsed::Index(_)) => 3,
        None => 4,
    }
}

fn order_keys(a: &Map<String, Value>, b: &Map<String, Value>) -> Ordering {
    let pairs = a.iter().zip(b).map(|((a, x), (b, y))| a.cmp(b).then_with(|| order_values(x, y)));
    pairs.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Orders numbers by value. Values of different types are ordered by their JSON.
fn order_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (a, b) => a.to_string().cmp(&b.to_string()),
    }
}

enum Parsed<'a> {
    Field(&'a str),
    Key(Map<String, Value>),
    Value(Value),
    Index(i64),
}

fn parse(step: &str) -> Option<Parsed<'_>> {
    let (kind, text) = step.split_once(':')?;
    match kind {
        "f" => Some(Parsed::Field(text)),
        "k" => serde_json::from_str(text).ok().map(Parsed::Key),
        "v" => serde_json::from_str(text).ok().map(Parsed::Value),
        "i" => text.parse().ok().map(Parsed::Index),
        _ => None,
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
        assert_eq!(item_step(&set, &json!("a<b")).unwrap(), "v:\"a\\u003cb\"");
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

    #[test]
    fn steps_of_clients_are_converted_to_canonical_form() {
        assert_eq!(canonical(r#"k:{ "b": 1, "a" : "x"}"#).unwrap(), r#"k:{"a":"x","b":1}"#);
        assert_eq!(canonical("x:y"), None);
        assert_eq!(canonical("k:[]"), None);
    }

    #[test]
    fn keys_are_ordered_by_value_not_by_text() {
        let mut steps = vec!["v:1", r#"k:{"p":100}"#, "f:b", r#"k:{"p":20}"#, "f:a"];
        steps.sort_by(|a, b| order(a, b));
        assert_eq!(steps, ["f:a", "f:b", r#"k:{"p":20}"#, r#"k:{"p":100}"#, "v:1"]);
    }
}
