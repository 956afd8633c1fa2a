//! The `fieldPath` of a rule: field names such as `.spec.x`, and quoted names such as `['a.b']`.

use serde_json::Value;

use crate::schemas::crd::schema::node;

/// Returns the path in the notation of error messages. Returns `None` if the schema has no such field.
pub(crate) fn parse(path: &str, schema: &Value) -> Option<String> {
    let (mut rest, mut schema, mut out) = (path, schema, String::new());
    while !rest.is_empty() {
        let name;
        if let Some(quoted) = rest.strip_prefix("['") {
            (name, rest) = quoted.split_once("']")?;
        } else {
            let plain = rest.strip_prefix('.')?;
            let end = plain.find(['.', '[', ']']).unwrap_or(plain.len());
            (name, rest) = plain.split_at_checked(end)?;
        }
        let is_field = node::properties(schema).next().is_some();
        schema = if is_field { node::property(schema, name)? } else { node::field(schema, name)? };
        match (is_field, out.is_empty()) {
            (true, true) => out.push_str(name),
            (true, false) => out.push_str(&format!(".{name}")),
            (false, _) => out.push_str(&format!("[{name}]")),
        }
    }
    Some(out)
}
