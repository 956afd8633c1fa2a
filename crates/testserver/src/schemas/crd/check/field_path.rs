//! The `fieldPath` of a rule: field names such as `.spec.x`, and quoted names such as `['a.b']`.

use serde_json::Value;

use crate::schemas::crd::schema::node;

/// Returns the path in the notation of error messages. Returns `None` if the schema has no such field.
pub(crate) fn parse(path: &str, schema: &Value) -> Option<String> {
    let (mut rest, mut schema, mut out) = (path, schema, String::new());
    while !rest.is_empty() {
        let name;
        if let Some(quoted) = rest.strip_prefix("['") {
            let end = quote_end(quoted)?;
            name = unescape(quoted.get(..end)?)?;
            rest = quoted.get(end + 1..)?.strip_prefix(']')?;
        } else {
            let plain = rest.strip_prefix('.')?;
            let end = plain.find(['.', '[', ']']).unwrap_or(plain.len());
            name = plain.get(..end)?.to_owned();
            rest = plain.get(end..)?;
        }
        let is_field = node::properties(schema).next().is_some();
        schema = if is_field { node::property(schema, &name)? } else { node::field(schema, &name)? };
        match (is_field, out.is_empty()) {
            (true, true) => out.push_str(&name),
            (true, false) => out.push_str(&format!(".{name}")),
            (false, _) => out.push_str(&format!("[{name}]")),
        }
    }
    Some(out)
}

/// Returns the index of the quotation mark that ends a quoted name.
fn quote_end(quoted: &str) -> Option<usize> {
    quoted
        .match_indices('\'')
        .map(|(index, _)| index)
        .find(|index| !quoted.get(..*index).unwrap_or("").ends_with('\\'))
}

fn unescape(text: &str) -> Option<String> {
    let mut chars = text.chars();
    let mut out = String::new();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                same @ ('\'' | '\\') => same,
                _ => return None,
            },
            c => c,
        });
    }
    Some(out)
}
