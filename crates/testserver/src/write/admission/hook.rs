//! The stored webhooks, and the requests that they match.

use serde_json::Value;

use crate::schemas::kinds::kind::Kind;
use crate::state::{Served, Shared, State};
use crate::status::Status;
use crate::wire::selector::LabelSelector;
use crate::wire::selector_text::selector_text;
use crate::write::admission::{Admission, Operation};

const GROUP: &str = "admissionregistration.k8s.io";

/// A webhook of a configuration whose rules match a request.
pub(super) struct Hook {
    pub spec: Value,
    /// The version in which the webhook receives objects. It differs from the version of the request if
    /// only a rule for an equivalent version matches.
    pub version: String,
}

/// Returns the webhooks whose rules match, in the order of the names of their configurations.
pub(super) fn matching(
    shared: &Shared,
    plural: &str,
    kind: &Kind,
    operation: Operation,
    subresource: &str,
) -> Vec<Hook> {
    // A webhook could otherwise prevent its own removal.
    if kind.group == GROUP {
        return Vec::new();
    }
    shared.read(|state| {
        let Some(Served { table, .. }) = state.registry.find(GROUP, "v1", plural) else { return Vec::new() };
        let configurations = state.store.table(*table).objects().values();
        let hooks = configurations.flat_map(|entry| match entry.object().remove("webhooks") {
            Some(Value::Array(hooks)) => hooks,
            _ => Vec::new(),
        });
        hooks
            .filter_map(|spec| {
                let version = version(state, &spec, kind, operation, subresource)?;
                Some(Hook { spec, version })
            })
            .collect()
    })
}

/// Returns the version of the resource that a rule of the webhook matches.
fn version(
    state: &State,
    spec: &Value,
    kind: &Kind,
    operation: Operation,
    subresource: &str,
) -> Option<String> {
    let rules = spec.get("rules").and_then(Value::as_array)?;
    let matches =
        |version: &str| rules.iter().any(|rule| is_match(rule, kind, version, operation, subresource));
    if matches(&kind.version) {
        return Some(kind.version.clone());
    }
    let is_same = |other: &&Kind| other.group == kind.group && other.plural == kind.plural;
    let mut others =
        state.registry.kinds().filter(|other| is_same(other) && text(spec, "matchPolicy") != "Exact");
    others.find(|other| matches(&other.version)).map(|other| other.version.clone())
}

fn is_match(rule: &Value, kind: &Kind, version: &str, operation: Operation, subresource: &str) -> bool {
    let contains = |key: &str, wanted: &str| {
        let values = rule.get(key).and_then(Value::as_array).into_iter().flatten();
        values.into_iter().any(|value| value == "*" || value == wanted)
    };
    let mut resources = rule.get("resources").and_then(Value::as_array).into_iter().flatten();
    let is_resource = |resource: &Value| {
        let resource = resource.as_str().unwrap_or_default();
        let (plural, part) = resource.split_once('/').unwrap_or((resource, ""));
        (plural == "*" || plural == kind.plural) && (part == "*" || part == subresource)
    };
    let is_scope = match text(rule, "scope") {
        "Namespaced" => kind.rules.namespaced,
        "Cluster" => !kind.rules.namespaced,
        _ => true,
    };
    is_scope
        && contains("operations", &operation.name())
        && contains("apiGroups", &kind.group)
        && contains("apiVersions", version)
        && resources.any(is_resource)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Hook {
    /// Returns a text of the configuration. Empty if absent.
    pub(super) fn text(&self, key: &str) -> &str {
        text(&self.spec, key)
    }

    /// Returns whether the webhook must be called, by its selectors and conditions. `review` contains the
    /// request.
    ///
    /// # Errors
    /// Returns 403 if a condition has no value, unless the webhook ignores failures.
    pub(super) fn selects(&self, admission: &Admission<'_>, review: &Value) -> Result<bool, Status> {
        let request = &review["request"];
        let objects = [&request["object"], &request["oldObject"]];
        let is_selected = match self.selector("objectSelector") {
            Some(selector) => {
                let mut existing = objects.into_iter().filter(|object| object.is_object());
                existing.any(|object| selects_labels(&selector, &object["metadata"]))
            }
            None => true,
        };
        if !is_selected || !self.selects_namespace(admission, objects[0]) {
            return Ok(false);
        }
        let conditions = self.spec.get("matchConditions").and_then(Value::as_array).into_iter().flatten();
        let variables = [("object", objects[0]), ("oldObject", objects[1]), ("request", request)];
        let results: Vec<_> =
            conditions.map(|condition| evaluate(text(condition, "expression"), &variables)).collect();
        if results.contains(&Ok(false)) {
            return Ok(false);
        }
        match results.into_iter().find_map(Result::err) {
            Some(_) if self.text("failurePolicy") == "Ignore" => Ok(false),
            Some(error) => Err(Status::forbidden(admission.target.kind().named(), &admission.name, &error)),
            None => Ok(true),
        }
    }

    fn selects_namespace(&self, admission: &Admission<'_>, object: &Value) -> bool {
        let Some(selector) = self.selector("namespaceSelector") else { return true };
        let kind = admission.target.kind();
        if kind.is_namespace() && object.is_object() && admission.subresource.is_empty() {
            return selects_labels(&selector, &object["metadata"]);
        }
        let name = match &admission.target.namespace {
            Some(namespace) => namespace,
            None if kind.is_namespace() => &admission.name,
            None => return true,
        };
        admission.shared.read(|state| {
            let namespace = state.store.table(state.namespaces.table).get(name.as_str());
            namespace.is_some_and(|namespace| selector.matches(&namespace.essentials.labels))
        })
    }

    fn selector(&self, key: &str) -> Option<LabelSelector> {
        let selector = LabelSelector::parse(&selector_text(self.spec.get(key)?)).ok()?;
        Some(selector).filter(|selector| !selector.is_everything())
    }
}

fn selects_labels(selector: &LabelSelector, metadata: &Value) -> bool {
    let metadata = metadata.as_object().cloned().unwrap_or_default();
    selector.matches(&crate::storage::entry::read_labels(&metadata))
}

#[cfg(feature = "cel")]
fn evaluate(source: &str, variables: &[(&'static str, &Value)]) -> Result<bool, String> {
    crate::schemas::crd::cel::condition(source, variables)
        .map_err(|error| format!("expression '{source}' resulted in error: {error}"))
}

#[cfg(not(feature = "cel"))]
fn evaluate(source: &str, _: &[(&'static str, &Value)]) -> Result<bool, String> {
    Err(format!("expression '{source}' resulted in error: kube-testserver needs the feature cel"))
}
