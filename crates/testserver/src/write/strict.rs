//! `fieldValidation`: unknown and repeated fields are ignored, reported in warnings, or rejected.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use crate::schemas::kinds::kind::Kind;
use crate::status::{Cause, Named, Status};
use crate::write::options::{FieldValidation, WriteOptions};
use crate::write::{Object, Via};

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
        .map_err(|detail| unreadable(kind, via, object, &detail.to_string()))?;
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

/// Returns a warning for each field that a JSON text contains more than once: `duplicate field
/// "metadata.name"`. Returns no warnings if the text is not JSON.
pub(crate) fn repeated(json: &[u8]) -> Vec<String> {
    if !may_repeat(json) {
        return Vec::new();
    }
    let found = RefCell::new(Vec::new());
    let walk = Walk { path: Path::Root, found: &found };
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    if serde::de::DeserializeSeed::deserialize(walk, &mut deserializer).is_err() {
        return Vec::new();
    }
    // The only lists that clients send are JSON patches.
    let patch = if json.trim_ascii_start().starts_with(b"[") { "json patch " } else { "" };
    found.into_inner().iter().map(|text| format!("{patch}{text}")).collect()
}

/// Returns false if no object of a JSON text contains a field twice. This needs less time than the walk.
fn may_repeat(json: &[u8]) -> bool {
    let (mut starts, mut names) = (Vec::new(), Vec::new());
    let mut rest = json;
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'{' => starts.push(names.len()),
            b'}' => {
                let start = starts.pop().unwrap_or(0);
                let own = names.get_mut(start..).unwrap_or_default();
                own.sort_unstable();
                if own.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
                    return true;
                }
                names.truncate(start);
            }
            b'"' => {
                let (mut name, mut is_escaped) = (0, false);
                let length = rest.iter().take_while(|byte| {
                    let is_end = **byte == b'"' && !is_escaped;
                    is_escaped = **byte == b'\\' && !is_escaped;
                    name = (name ^ u64::from(**byte)).wrapping_mul(0x0100_0000_01b3);
                    !is_end
                });
                let (text, after) = rest.split_at(length.count());
                rest = after.get(1..).unwrap_or_default().trim_ascii_start();
                if rest.starts_with(b":") {
                    if text.contains(&b'\\') {
                        return true;
                    }
                    names.push(name);
                }
            }
            _ => {}
        }
    }
    false
}

/// The position of the walk, formatted only for a finding.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Walks a value without keeping it.
struct Walk<'a> {
    path: Path<'a>,
    found: &'a RefCell<Vec<String>>,
}

/// The name of a field, borrowed from the body unless it contains escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> serde::de::DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            let path = Path::Field(&self.path, &name);
            if !seen.insert(name.clone()) {
                self.found.borrow_mut().push(format!("duplicate field \"{path}\""));
            }
            map.next_value_seed(Walk { path, found: self.found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let path = Path::Item(&self.path, index);
            if list.next_element_seed(Walk { path, found: self.found })?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
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
        assert!(repeated(b"{\"a\":1,\"a\":").is_empty());
        assert_eq!(repeated(br#"{"a" :1,"b":{"a":["a"]},"\u0061": 2}"#), ["duplicate field \"a\""]);
        assert!(!may_repeat(br#"{"a":"\"a\":","b":{"a":[{"x":"\\"},{"a":"a"}]},"c":"\\"}"#));
        assert_eq!(repeated(br#"[{"op":"add","op":"add"}]"#), ["json patch duplicate field \"[0].op\""]);
    }
}
