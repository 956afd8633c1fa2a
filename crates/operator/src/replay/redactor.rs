//! Replaces the contents of sensitive objects by numbered placeholders.
//!
//! Equal values get equal placeholders, so a program that copies or compares values behaves as before.

use std::collections::{BTreeSet, HashMap, HashSet};

use foldhash::quality::RandomState;
use k8s_openapi::ByteString;
use kube_client::core::Status;
use kube_informer::{StatusText, is_sensitive, set_requested_kind};
use serde_json::Value;

/// The redactor replaces shorter values only if they equal an entire string.
const MIN_PART_CHARS: usize = 8;

/// The redactor replaces shorter values only in sensitive objects. Otherwise, the value `1` would change most
/// objects.
const MIN_CHARS: usize = 4;

/// The fields that identify an object.
const IDENTITY: [&str; 9] = [
    "apiVersion",
    "creationTimestamp",
    "generation",
    "kind",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
];

/// Changes an object before it is recorded. The first argument is the plural name of the resource.
pub(super) type Hook = Box<dyn FnMut(&str, &mut Value) + Send>;

/// Stores the values of a recording, to replace them also in other objects.
#[derive(Default)]
pub(super) struct Redactor {
    /// The function of the program that removes further values.
    hook: Option<Hook>,
    /// The number of values of sensitive objects that were replaced.
    hidden: u64,
    placeholders: HashMap<String, String>,
    issued: HashSet<String>,
    /// The values that are replaced within texts, by their first bytes. A recording can contain many values,
    /// so a search for each value would take too long.
    by_start: HashMap<[u8; MIN_PART_CHARS], Vec<String>, RandomState>,
}

impl Redactor {
    pub(super) fn new(hook: Option<Hook>) -> Self {
        Self { hook, ..Self::default() }
    }

    /// Returns the number of values of sensitive objects that were replaced.
    pub(super) fn hidden(&self) -> u64 {
        self.hidden
    }

    /// Returns a body of a response for this resource without contents of sensitive objects. Returns `None`
    /// if the body is not JSON.
    pub(super) fn redact(&mut self, resource: &str, body: &[u8]) -> Option<String> {
        let mut value: Value = serde_json::from_slice(body).ok()?;
        self.redact_value(resource, &mut value);
        Some(value.to_string())
    }

    /// Replaces known values in a body that was redacted before all values were known.
    pub(super) fn redact_again(&self, text: &str) -> Option<String> {
        let mut value: Value = serde_json::from_str(text).ok()?;
        self.replace_known(&mut value);
        let end = if text.ends_with('\n') { "\n" } else { "" };
        Some(value.to_string() + end)
    }

    fn redact_value(&mut self, resource: &str, value: &mut Value) {
        if value["kind"] == "Status" {
            redact_status(resource, value);
            return self.replace_known(value);
        }
        if let Some(object) = value.get_mut("object").filter(|object| object.is_object()) {
            return self.redact_value(resource, object);
        }
        let kind = value["kind"].as_str().unwrap_or_default();
        let is_secret =
            is_sensitive(kind) || is_sensitive(kind.trim_end_matches("List")) || is_sensitive(resource);
        match value.get_mut("items").and_then(Value::as_array_mut) {
            Some(items) => items.iter_mut().for_each(|item| self.redact_object(resource, item, is_secret)),
            None => self.redact_object(resource, value, is_secret),
        }
    }

    fn redact_object(&mut self, resource: &str, object: &mut Value, is_secret: bool) {
        if let Some(hook) = &mut self.hook {
            hook(resource, object);
        }
        let is_token = matches!(object["kind"].as_str(), Some("TokenReview" | "TokenRequest"));
        for (name, part) in object.as_object_mut().into_iter().flatten() {
            match name.as_str() {
                "apiVersion" | "kind" | "type" | "immutable" => {}
                "metadata" => {
                    // kubectl stores a copy of the object in an annotation.
                    if let Some(annotations) = part.get_mut("annotations").filter(|_| is_secret) {
                        self.hide(annotations, false);
                    }
                    self.replace_known(part);
                }
                name if is_secret => {
                    self.hidden += clear_scalars(part);
                    self.hide(part, name == "data");
                }
                _ if is_token => self.hide(part, false),
                _ => self.replace_known(part),
            }
        }
    }

    /// Replaces each text by a placeholder.
    fn hide(&mut self, value: &mut Value, is_base64: bool) {
        match value {
            Value::String(text) => {
                self.hidden += 1;
                *text = self.placeholder(text, is_base64);
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide(item, is_base64)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.hide(field, is_base64)),
            _ => {}
        }
    }

    fn placeholder(&mut self, text: &str, is_base64: bool) -> String {
        if text.is_empty() || self.issued.contains(text) {
            return text.to_owned();
        }
        if let Some(known) = self.placeholders.get(text) {
            return known.clone();
        }
        let plain = format!("redacted-{}", self.placeholders.len());
        if !is_base64 {
            self.insert(base64(text.as_bytes()), base64(plain.as_bytes()));
            self.insert_text(text, &plain);
            return plain;
        }
        let encoded = base64(plain.as_bytes());
        self.insert(text.to_owned(), encoded.clone());
        if let Some(decoded) = from_base64(text).and_then(|bytes| String::from_utf8(bytes).ok()) {
            self.insert_text(&decoded, &plain);
        }
        encoded
    }

    /// Inserts a value, and the forms in which programs copy it: without a line break at the end, and within
    /// JSON.
    fn insert_text(&mut self, text: &str, placeholder: &str) {
        self.insert(text.to_owned(), placeholder.to_owned());
        for form in [text, text.trim()] {
            let json = Value::from(form).to_string();
            for form in [form, &json[1..json.len() - 1]] {
                if !form.is_empty() && !self.placeholders.contains_key(form) {
                    self.insert(form.to_owned(), placeholder.to_owned());
                }
            }
        }
    }

    fn insert(&mut self, value: String, placeholder: String) {
        if let Some(start) = value.as_bytes().first_chunk() {
            let values = self.by_start.entry(*start).or_default();
            if !self.placeholders.contains_key(&value) {
                values.push(value.clone());
            }
        }
        self.issued.insert(placeholder.clone());
        self.placeholders.insert(value, placeholder);
    }

    /// Returns the values within a text, the longest first.
    fn values_within(&self, text: &str) -> Vec<&str> {
        let mut found = BTreeSet::new();
        for at in 0..text.len() {
            let rest = &text.as_bytes()[at..];
            let values = rest.first_chunk().and_then(|start| self.by_start.get(start));
            let within = values.into_iter().flatten().filter(|value| rest.starts_with(value.as_bytes()));
            found.extend(within.map(String::as_str));
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|value| std::cmp::Reverse(value.len()));
        found
    }

    /// Replaces known values in an object that is not sensitive.
    fn replace_known(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(placeholder) = self.placeholders.get(text).filter(|_| text.len() >= MIN_CHARS) {
                    placeholder.clone_into(text);
                    return;
                }
                for value in self.values_within(text) {
                    *text = text.replace(value, &self.placeholders[value]);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace_known(item)),
            Value::Object(fields) => {
                let fields = fields.iter_mut().filter(|(name, _)| !IDENTITY.contains(&&***name));
                fields.for_each(|(_, field)| self.replace_known(field));
            }
            _ => {}
        }
    }
}

/// Replaces each number by 0, and each boolean by false, so that programs can still decode the object.
/// Returns how many values it has replaced.
fn clear_scalars(value: &mut Value) -> u64 {
    match value {
        Value::Null | Value::String(_) => return 0,
        Value::Number(number) => *number = 0.into(),
        Value::Bool(flag) => *flag = false,
        Value::Array(items) => return items.iter_mut().map(clear_scalars).sum(),
        Value::Object(fields) => return fields.values_mut().map(clear_scalars).sum(),
    }
    1
}

/// Replaces the message of an error response, which may contain parts of an object.
fn redact_status(resource: &str, value: &mut Value) {
    let Ok(mut status) = serde_json::from_value::<Status>(value.clone()) else {
        *value = serde_json::json!({"kind": "Status", "apiVersion": "v1", "code": value["code"]});
        return;
    };
    if !resource.is_empty() {
        set_requested_kind(&mut status, resource);
    }
    let text = StatusText(&status);
    if !text.is_complete() {
        value["message"] = text.to_string().into();
        if let Some(details) = value["details"].as_object_mut() {
            details.remove("causes");
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    let encoded = serde_json::to_value(ByteString(bytes.to_vec())).unwrap_or_default();
    encoded.as_str().unwrap_or_default().to_owned()
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    Some(serde_json::from_value::<ByteString>(text.into()).ok()?.0)
}
