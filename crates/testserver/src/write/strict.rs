//! `fieldValidation`: unknown and repeated fields are ignored, reported in warnings, or rejected.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::schemas::kinds::kind::Kind;
use crate::status::{Cause, Named, Status};
use crate::write::options::{FieldValidation, WriteOptions};
use crate::write::{Object, Via};

/// The maximum number of repeated fields that are reported, as in Kubernetes.
const MAX_REPEATED: usize = 100;

/// The texts of the `Warning` headers of a response. Clones share the same texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds warnings. Each text is added once, even if the write is retried.
    pub(crate) fn add(&self, texts: impl IntoIterator<Item = String>) {
        let mut said = self.0.lock();
        for text in texts {
            if !said.contains(&text) {
                said.push(text);
            }
        }
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// Ignores, reports or rejects the repeated fields of a body and its `unknown` fields, as
/// `fieldValidation` requires.
///
/// # Errors
/// Returns an error if the write requires strict validation.
pub(crate) fn judge(
    kind: &Kind,
    via: Via,
    object: &Object,
    unknown: Vec<String>,
    options: &WriteOptions,
) -> Result<(), Status> {
    let unknown = unknown.into_iter().map(|path| format!("unknown field \"{path}\""));
    let problems: Vec<String> = options.repeated.iter().cloned().chain(unknown).collect();
    match options.validation {
        _ if problems.is_empty() => Ok(()),
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            options.warnings.add(problems);
            Ok(())
        }
        FieldValidation::Strict => {
            Err(unreadable(kind, via, object, &format!("strict decoding error: {}", problems.join(", "))))
        }
    }
}

/// Decodes an object of a built-in kind by its type, and handles unknown and repeated fields.
///
/// # Errors
/// Returns an error if the object cannot be decoded, or if strict validation fails.
pub(crate) fn read_typed(
    kind: &Kind,
    via: Via,
    object: &mut Object,
    options: &WriteOptions,
) -> Result<(), Status> {
    let sent = (options.validation == FieldValidation::Strict).then(|| object.clone());
    let unknown = crate::schemas::types::read(&kind.api_version(), &kind.kind, object)
        .map_err(|detail| unreadable(kind, via, object, &detail))?;
    judge(kind, via, sent.as_ref().unwrap_or(object), unknown, options)
}

/// The error for an object that cannot be decoded: the body itself, or the result of a patch.
pub(crate) fn unreadable(kind: &Kind, via: Via, object: &Object, detail: &str) -> Status {
    match via {
        Via::Put => {
            let (name, version) = (&kind.kind, &kind.version);
            Status::bad_request(format!(
                "{name} in version \"{version}\" cannot be handled as a {name}: {detail}"
            ))
        }
        Via::Patch => {
            let patched = serde_json::to_string(object).unwrap_or_default();
            let cause = Cause::invalid_text("patch", &patched, detail);
            Status::invalid(Named { group: "", resource: "" }, "", vec![cause])
        }
    }
}

enum Level<'a> {
    /// The names of its fields, and the name of the current field.
    Object(BTreeSet<&'a [u8]>, &'a [u8]),
    /// The position of the current item.
    List(usize),
}

/// Returns warnings for the first fields that a JSON text contains more than once: `duplicate field
/// "metadata.name"`. Names with escapes are compared as they are written.
pub(crate) fn repeated(json: &[u8]) -> Vec<String> {
    let (mut levels, mut found) = (Vec::new(), Vec::new());
    let mut rest = json;
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, levels.last_mut()) {
            (b'{', _) => levels.push(Level::Object(BTreeSet::new(), b"")),
            (b'[', _) => levels.push(Level::List(0)),
            (b'}' | b']', _) => drop(levels.pop()),
            (b',', Some(Level::List(index))) => *index += 1,
            (b'"', level) => {
                let text;
                (text, rest) = string(rest);
                if let Some(Level::Object(names, name)) = level
                    && rest.trim_ascii_start().starts_with(b":")
                {
                    *name = text;
                    if !names.insert(text) && found.len() < MAX_REPEATED {
                        found.push(format!("duplicate field \"{}\"", path(&levels)));
                    }
                }
            }
            _ => {}
        }
    }
    // The only lists that clients send are JSON patches.
    if json.trim_ascii_start().starts_with(b"[") {
        found.iter_mut().for_each(|text| text.insert_str(0, "json patch "));
    }
    found
}

/// Splits a JSON text after the end of a string.
fn string(json: &[u8]) -> (&[u8], &[u8]) {
    let mut is_escaped = false;
    let end = json.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    let (text, rest) = json.split_at(end.unwrap_or(json.len()));
    (text, rest.get(1..).unwrap_or_default())
}

fn path(levels: &[Level<'_>]) -> String {
    let parts = levels.iter().map(|level| match level {
        Level::Object(_, name) => format!(".{}", String::from_utf8_lossy(name)),
        Level::List(index) => format!("[{index}]"),
    });
    parts.collect::<String>().trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_fields_are_found_at_any_depth() {
        let json = br#"{"metadata":{"name":"d","name":"e"},"spec":{"list":[{"a":1},{"b":null,"b":true,"b":1.5}]},"spec":"x"}"#;
        assert_eq!(
            repeated(json),
            [
                "duplicate field \"metadata.name\"",
                "duplicate field \"spec.list[1].b\"",
                "duplicate field \"spec.list[1].b\"",
                "duplicate field \"spec\""
            ]
        );
        assert_eq!(repeated(br#"{"a" :1,"b":{"a":["a"]},"a": 2}"#), ["duplicate field \"a\""]);
        assert!(repeated(br#"{"a":"\"a\":","b":{"a":[{"x":"\\"},{"a":"a"}]},"c":"\\"}"#).is_empty());
        assert!(repeated(br#"{"a":"#).is_empty() && repeated(br#"}]"a"#).is_empty());
        let many = format!("{{{}\"a\":1}}", "\"a\":1,".repeat(1000));
        assert_eq!(repeated(many.as_bytes()).len(), MAX_REPEATED);
        assert_eq!(repeated(br#"[{"op":"add","op":"add"}]"#), ["json patch duplicate field \"[0].op\""]);
    }
}
