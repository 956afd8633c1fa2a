//! Applies the rules to an object and to all objects in it.

use std::fmt::Display;

use serde_json::{Map, Value, json};

use crate::schemas::rules::table::{Plan, Rule, Table};
use crate::schemas::rules::{autoscaling, network, pods, selectors, services, storage, updates, workloads};
use crate::schemas::types::{Base, Form, Shape, Types};
use crate::status::Cause;
use crate::wire::qualified::{name_complaints, value_complaints};

type Object = Map<String, Value>;

static NULL: Value = Value::Null;

/// An object within the validated object.
pub(super) struct At<'a> {
    pub path: String,
    pub object: &'a Object,
    /// The object at the same path before an update. It is absent within lists.
    pub before: Option<&'a Object>,
}

impl<'a> At<'a> {
    /// Returns the value at a path such as `ports[0].name`.
    pub(super) fn get(&self, path: &str) -> &'a Value {
        find(self.object, path)
    }

    /// Returns the value at the path before an update.
    pub(super) fn old(&self, path: &str) -> &'a Value {
        self.before.map_or(&NULL, |before| find(before, path))
    }

    /// Returns the value of a field.
    fn value(&self, key: &str) -> &'a Value {
        self.object.get(key).unwrap_or(&NULL)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        !self.get(key).is_null()
    }

    pub(super) fn text(&self, key: &str) -> &'a str {
        self.get(key).as_str().unwrap_or("")
    }

    pub(super) fn number(&self, key: &str) -> Option<i64> {
        self.get(key).as_i64()
    }

    pub(super) fn list(&self, key: &str) -> &'a [Value] {
        list(self.get(key))
    }

    pub(super) fn at(&self, key: impl Display) -> String {
        let text = format!("{}.{key}", self.path);
        text.trim_matches('.').to_owned()
    }
}

fn find<'a>(object: &'a Object, path: &str) -> &'a Value {
    let mut steps = path.split(['.', '[']).map(|step| step.trim_end_matches(']'));
    let first = steps.next().and_then(|step| object.get(step)).unwrap_or(&NULL);
    steps.fold(first, |value, step| match value {
        Value::Array(items) => step.parse().ok().and_then(|index: usize| items.get(index)).unwrap_or(&NULL),
        value => &value[step],
    })
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn keys(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Returns whether Go considers the value empty.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => *value == 0,
    }
}

/// Returns whether two objects have the same fields, except for some fields.
pub(super) fn is_same_except(some: &Value, other: &Value, keys: &[&str]) -> bool {
    let fields = |value| self::keys(value).filter(|(key, _)| !keys.contains(&key.as_str()));
    fields(some).eq(fields(other))
}

pub(super) struct Walk {
    pub causes: Vec<Cause>,
    pub is_update: bool,
    pub is_namespaced: bool,
    /// The names of the claim templates of a StatefulSet. Each is also a volume of its pods.
    pub claim_templates: Vec<Value>,
    /// True if an update changes the claim templates, so unchanged pods can become invalid.
    has_new_claims: bool,
}

impl Walk {
    pub(super) fn new(object: &Object, before: Option<&Object>) -> Self {
        fn claims(object: &Object) -> &[Value] {
            list(find(object, "spec.volumeClaimTemplates"))
        }
        let claim_templates = claims(object).iter().map(|claim| claim["metadata"]["name"].clone()).collect();
        Self {
            causes: Vec::new(),
            is_update: before.is_some(),
            is_namespaced: !find(object, "metadata.namespace").is_null(),
            claim_templates,
            has_new_claims: before.is_some_and(|before| claims(before) != claims(object)),
        }
    }

    pub(super) fn bad(&mut self, at: &At<'_>, key: &str, text: &str) {
        self.invalid(at.at(key), at.get(key), text);
    }

    /// Reports an unsupported value of a field.
    pub(super) fn unknown(&mut self, at: &At<'_>, key: &str, supported: &[&str]) {
        self.unsupported(&at.at(key), at.get(key), supported);
    }

    /// Reports that a field must have another value or no value.
    pub(super) fn forbid(&mut self, at: &At<'_>, key: &str, text: &str) {
        self.causes.push(Cause::forbidden(&at.at(key), text));
    }

    /// Reports that another item has the same value of a field.
    pub(super) fn repeated(&mut self, at: &At<'_>, key: &str) {
        self.causes.push(Cause::duplicate(&at.at(key), &at.get(key).to_string()));
    }

    /// Reports that an object with this name does not exist.
    pub(super) fn not_found(&mut self, at: &At<'_>, key: &str) {
        let text = format!("Not found: {}", at.get(key));
        self.causes.push(Cause::new("FieldValueNotFound", text, &at.at(key)));
    }

    pub(super) fn required(&mut self, path: impl AsRef<str>) {
        self.causes.push(Cause::required(path.as_ref(), ""));
    }

    pub(super) fn invalid(&mut self, path: impl AsRef<str>, value: &Value, text: &str) {
        self.causes.push(Cause::invalid(path.as_ref(), &value.to_string(), text));
    }

    fn unsupported(&mut self, path: &str, value: &Value, supported: &[&str]) {
        self.causes.push(Cause::not_supported(path, &value.to_string(), supported));
    }

    /// Removes the errors of a field and of the objects in it.
    pub(super) fn forget(&mut self, at: &At<'_>, key: &str) {
        let path = at.at(key);
        self.causes.retain(|cause| !cause.line().starts_with(&path));
    }

    /// Validates an object of the message, and the objects in it. An object that an update keeps is valid.
    pub(super) fn message(&mut self, message: usize, at: &At<'_>) {
        if at.before == Some(at.object) && !self.has_new_claims {
            return;
        }
        for plan in Table::get().plans(message) {
            self.rules(plan, at);
            if let Base::Message(nested) = plan.field.base {
                self.nested(plan, nested, at);
            }
        }
        let Some(message) = Types::get().message(message) else { return };
        match message.name {
            "LabelSelectorRequirement" => selectors::requirement(self, at, false),
            "ServiceSpec" => services::check(self, at),
            "NodeSelectorRequirement" => selectors::requirement(self, at, true),
            name => {
                pods::check(self, name, at);
                workloads::check(self, name, at);
                network::check(self, name, at);
                autoscaling::check(self, name, at);
                storage::check(self, name, at);
                if self.is_update {
                    updates::check(self, name, at);
                }
            }
        }
    }

    fn nested(&mut self, plan: &Plan, nested: usize, at: &At<'_>) {
        let types = Types::get();
        if types.message(nested).is_none_or(|message| message.form != Form::Object) {
            return;
        }
        let (name, value) = (plan.field.name, at.value(plan.field.name));
        if value.is_null() && plan.field.shape != Shape::Value {
            return;
        }
        let path = match name {
            _ if plan.collapses => at.path.clone(),
            // kube-apiserver reports taints at this path.
            "taints" => "metadata.taints".to_owned(),
            _ => at.at(name),
        };
        match value {
            Value::Object(object) if plan.field.shape == Shape::Map => {
                for (key, value) in object {
                    let Some(object) = value.as_object() else { continue };
                    self.message(nested, &At { path: format!("{path}[{key}]"), object, before: None });
                }
            }
            Value::Object(object) => {
                let before = at.before.and_then(|before| before.get(name)?.as_object());
                self.message(nested, &At { path, object, before });
            }
            Value::Array(items) => {
                for (index, object) in items.iter().enumerate() {
                    let Some(object) = object.as_object() else { continue };
                    let path = if plan.collapses { path.clone() } else { format!("{path}[{index}]") };
                    self.message(nested, &At { path, object, before: None });
                }
            }
            _ if plan.field.shape == Shape::Value => {
                self.message(nested, &At { path, object: &Object::new(), before: at.old(name).as_object() });
            }
            _ => {}
        }
    }

    fn rules(&mut self, plan: &Plan, at: &At<'_>) {
        let value = at.value(plan.field.name);
        if plan.rules.is_empty() || (value.is_null() && !self.is_update && !plan.applies_to_null()) {
            return;
        }
        let (mut path, mut whole, mut invalid) = (at.at(plan.field.name), false, false);
        let mut is_missing = false;
        let old = at.old(plan.field.name);
        // An update may change the same message within a list or a template.
        let is_changed = self.is_update && matches!(at.path.as_str(), "" | "spec") && value != old;
        for rule in &plan.rules {
            match rule {
                Rule::AtParent => path.clone_from(&at.path),
                Rule::Whole => whole = true,
                Rule::Invalid => invalid = true,
                Rule::Required => {
                    is_missing = value.is_null() || (is_empty(value) && plan.field.shape != Shape::Pointer);
                    if is_missing {
                        self.required(&path);
                    }
                }
                _ if is_missing && !matches!(rule, Rule::Immutable) => {}
                Rule::Immutable if is_changed => self.invalid(&path, value, "field is immutable"),
                Rule::Once if is_changed && !is_empty(old) => {
                    self.forbid(at, plan.field.name, "may not be changed in an update");
                }
                Rule::Mutable(keys) if is_changed && !is_same_except(value, old, keys) => {
                    // Only the spec of a StatefulSet has this rule.
                    let (last, others) = keys.split_last().unwrap_or((&"", &[]));
                    let others = others.join("', '");
                    let text = format!(
                        "updates to statefulset spec for fields other than '{others}' and '{last}' are forbidden"
                    );
                    self.forbid(at, plan.field.name, &text);
                }
                Rule::Immutable | Rule::Once | Rule::Mutable(_) => {}
                Rule::Labels => self.labels(&path, value),
                Rule::Unique(key) => self.unique(&path, value, key),
                Rule::Min(_) | Rule::Max(_) | Rule::Enum(_) | Rule::Is(_) => match value {
                    Value::Array(items) => {
                        for (index, item) in items.iter().enumerate() {
                            let path = if whole { path.clone() } else { format!("{path}[{index}]") };
                            self.scalar(rule, &path, item, invalid);
                        }
                    }
                    Value::Null if plan.field.shape == Shape::Value => {
                        let is_text = plan.field.base == Base::String;
                        if is_text && !plan.is_optional {
                            self.scalar(rule, &path, &json!(""), invalid);
                        } else if !is_text && !matches!(rule, Rule::Is(_)) {
                            self.scalar(rule, &path, &json!(0), invalid);
                        }
                    }
                    Value::String(text) if text.is_empty() && plan.is_optional => {}
                    value => self.scalar(rule, &path, value, invalid),
                },
            }
        }
    }

    fn scalar(&mut self, rule: &Rule, path: &str, value: &Value, invalid: bool) {
        match (rule, value) {
            (Rule::Min(min), Value::Number(number))
                if number.as_i64().is_some_and(|number| number < *min) =>
            {
                self.invalid(path, value, &format!("must be greater than or equal to {min}"));
            }
            (Rule::Max(max), Value::Number(number))
                if number.as_i64().is_some_and(|number| number > *max) =>
            {
                self.invalid(path, value, &format!("must be less than or equal to {max}"));
            }
            (Rule::Enum(permitted), Value::String(text)) if !permitted.contains(&text.as_str()) => {
                if invalid {
                    self.invalid(path, value, &format!("must be one of {}", permitted.join(", ")));
                } else {
                    self.unsupported(path, value, permitted);
                }
            }
            (Rule::Is(format), value) if !format.matches(value) => self.invalid(path, value, format.text),
            _ => {}
        }
    }

    fn unique(&mut self, path: &str, value: &Value, key: &str) {
        let mut seen: Vec<&Value> = Vec::new();
        for (index, item) in list(value).iter().enumerate() {
            let item = if key.is_empty() { item } else { &item[key] };
            if is_empty(item) {
                continue;
            }
            if seen.contains(&item) {
                let dot = if key.is_empty() { "" } else { "." };
                let path = format!("{path}[{index}]{dot}{key}");
                self.causes.push(Cause::duplicate(&path, &item.to_string()));
            }
            seen.push(item);
        }
    }

    pub(super) fn labels(&mut self, path: &str, labels: &Value) {
        for (key, value) in keys(labels) {
            let complaints = name_complaints(key);
            complaints.iter().for_each(|text| self.invalid(path, &key.as_str().into(), text));
            let complaints = value_complaints(value.as_str().unwrap_or(""));
            complaints.iter().for_each(|text| self.invalid(path, value, text));
        }
    }
}
