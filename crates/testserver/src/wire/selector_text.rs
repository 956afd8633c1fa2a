//! The text of a selector in an object, as in the field `selector` of a Scale.

use serde_json::Value;

/// Formats a selector as text: the text of a custom resource, a map of labels, or labels and expressions.
pub(crate) fn selector_text(selector: &Value) -> String {
    let Value::Object(selector) = selector else { return selector.as_str().unwrap_or("").to_owned() };
    let structured = selector.contains_key("matchLabels") || selector.contains_key("matchExpressions");
    let labels =
        if structured { selector.get("matchLabels").and_then(Value::as_object) } else { Some(selector) };
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let mut parts: Vec<(String, String)> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or(""))))
        .chain(expressions.filter(|_| structured).into_iter().flatten().map(expression))
        .collect();
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    let parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    parts.join(",")
}

fn expression(expression: &Value) -> (String, String) {
    let text = |key: &str| expression.get(key).and_then(Value::as_str).unwrap_or("");
    let key = text("key").to_owned();
    let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
    let mut values: Vec<&str> = values.filter_map(Value::as_str).collect();
    values.sort_unstable();
    let values = values.join(",");
    let shown = match text("operator") {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "DoesNotExist" => format!("!{key}"),
        _ => key.clone(),
    };
    (key, shown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selector_text_is_sorted_by_key() {
        let deployment = json!({
            "matchLabels": {"c": "d", "a": "b"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["q", "b"]}, {"key": "z", "operator": "Exists"},
                {"key": "y", "operator": "DoesNotExist"}, {"key": "x", "operator": "NotIn", "values": ["1"]}],
        });
        assert_eq!(selector_text(&deployment), "a=b,a in (b,q),c=d,x notin (1),!y,z");
        assert_eq!(selector_text(&json!({"z": "1", "a": "b"})), "a=b,z=1");
        assert_eq!(selector_text(&json!("a=b")), "a=b");
        assert_eq!(selector_text(&json!(7)), "");
    }
}
