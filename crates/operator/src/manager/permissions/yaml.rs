//! Writes objects as YAML, as kubectl formats them.

use std::fmt::{Result, Write};

use serde_json::{Map, Value};

/// Texts that YAML 1.1 or 1.2 reads as another type.
const RESERVED: [&str; 9] = ["false", "n", "no", "null", "off", "on", "true", "y", "yes"];

/// Writes a map in block style. Arrays without maps are in flow style.
pub(super) fn write_map(out: &mut impl Write, map: &Map<String, Value>, indent: usize) -> Result {
    for (number, (key, value)) in map.iter().enumerate() {
        // The caller has written the indentation of the first line.
        if number > 0 {
            write!(out, "{:indent$}", "")?;
        }
        scalar(out, &Value::from(key.as_str()))?;
        out.write_char(':')?;
        match value {
            Value::Object(map) if !map.is_empty() => {
                write!(out, "\n{:1$}", "", indent + 2)?;
                write_map(out, map, indent + 2)?;
            }
            Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
                out.write_char('\n')?;
                for item in items {
                    write!(out, "{:indent$}- ", "")?;
                    match item {
                        Value::Object(map) if !map.is_empty() => write_map(out, map, indent + 2)?,
                        other => writeln!(out, "{other}")?, // JSON is YAML
                    }
                }
            }
            Value::Array(items) => {
                out.write_str(" [")?;
                for (number, item) in items.iter().enumerate() {
                    out.write_str(if number > 0 { ", " } else { "" })?;
                    scalar(out, item)?;
                }
                out.write_str("]\n")?;
            }
            other => {
                out.write_char(' ')?;
                scalar(out, other)?;
                out.write_char('\n')?;
            }
        }
    }
    Ok(())
}

/// Writes a text without quotation marks if YAML reads it as the same text.
fn scalar(out: &mut impl Write, value: &Value) -> Result {
    let is_plain = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.chars().all(|char| char.is_ascii_alphanumeric() || "-_./".contains(char))
            && !RESERVED.contains(&text.to_lowercase().as_str())
    };
    match value {
        Value::String(text) if is_plain(text) => out.write_str(text),
        other => write!(out, "{other}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(value: &Value) -> String {
        let mut text = String::new();
        write_map(&mut text, value.as_object().unwrap(), 0).unwrap();
        text
    }

    #[test]
    fn maps_are_blocks_and_other_texts_have_no_quotation_marks() {
        let value = json!({
            "kind": "Role", "metadata": {"name": "a-b.c", "labels": {}},
            "rules": [{"apiGroups": [""], "verbs": ["get", "no"]}, {"verbs": []}], "count": 1,
        });
        let expected = "count: 1\nkind: Role\nmetadata:\n  labels: {}\n  name: a-b.c\nrules:\n\
                        - apiGroups: [\"\"]\n  verbs: [get, \"no\"]\n- verbs: []\n";
        assert_eq!(text(&value), expected);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-zA-Z0-9:#\\-./ \"'\n]{0,6}".prop_map(Value::from),
            prop::sample::select(&RESERVED[..]).prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-zA-Z0-9/.]{1,5}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn yaml_is_read_as_the_same_value(value in values()) {
            let value = json!({"value": value});
            let read: Value = serde_saphyr::from_str(&text(&value)).unwrap();
            prop_assert_eq!(read, value);
        }
    }
}
