//! Validation of single kinds that any program with an event recorder or a lease can encounter.

use serde_json::{Value, json};

use crate::schemas::kinds::kind::Kind;
use crate::state::Shared;
use crate::status::{Cause, Named, Status};
use crate::wire::object::meta;
use crate::wire::qualified::name_complaints;
use crate::write::{Object, config};

/// The maximum length of an event's message, and of its other texts, in bytes.
const MESSAGE_LIMIT: usize = 1024;
const TEXT_LIMIT: usize = 128;

pub(crate) fn check(
    shared: &Shared,
    kind: &Kind,
    object: &Object,
    before: Option<&Object>,
) -> Result<(), Status> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("coordination.k8s.io", "leases") => refuse(kind.named_kind(), object, lease(object)),
        ("", "configmaps") => refuse(kind.named_kind(), object, config::config_map(object, before)),
        ("", "secrets") => refuse(kind.named_kind(), object, config::secret(object, before)),
        ("" | "events.k8s.io", "events") => {
            let causes = event(kind, object, before);
            refuse(Named { group: "", resource: "Event" }, object, causes)
        }
        _ if shared.config.validation => crate::schemas::rules::check(kind, object, before),
        _ => Ok(()),
    }
}

fn refuse(what: Named<'_>, object: &Object, causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid(what, meta(object, "name"), causes)) }
}

fn lease(object: &Object) -> Vec<Cause> {
    let number = |key: &str| object.get("spec").and_then(|spec| spec.get(key)).and_then(Value::as_i64);
    let least = [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ];
    let below = least.into_iter().filter_map(|(key, least, detail)| {
        let value = number(key).filter(|value| *value < least)?;
        Some(Cause::invalid(&format!("spec.{key}"), &value.to_string(), detail))
    });
    below.collect()
}

fn text<'a>(event: &'a Object, key: &str) -> &'a str {
    event.get(key).and_then(Value::as_str).unwrap_or("")
}

/// Validates an event in its stored form. The rules of events.k8s.io are stricter, and its events are
/// nearly immutable.
fn event(kind: &Kind, event: &Object, before: Option<&Object>) -> Vec<Cause> {
    let strict = !kind.group.is_empty();
    let mut causes = match text(event, "eventTime") {
        "" => namespaces(event),
        _ => reported(event, strict),
    };
    match before {
        _ if !strict => {}
        None => causes.extend(fresh(event)),
        Some(before) => causes.extend(changed(before, event)),
    }
    causes
}

fn involved_namespace(event: &Object) -> &str {
    event.get("involvedObject").and_then(|object| object["namespace"].as_str()).unwrap_or("")
}

/// A core event is in the namespace of its object; the event of an object without a namespace is in
/// `default`.
fn namespaces(event: &Object) -> Vec<Cause> {
    let (own, of) = (meta(event, "namespace"), involved_namespace(event));
    let fits = if of.is_empty() { own == "default" } else { own == of };
    if fits { Vec::new() } else { vec![misplaced(of)] }
}

fn misplaced(namespace: &str) -> Cause {
    Cause::invalid_text("involvedObject.namespace", namespace, "does not match event.namespace")
}

/// An event of events.k8s.io must contain the reporter and the action.
fn reported(event: &Object, strict: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let own = meta(event, "namespace");
    if involved_namespace(event).is_empty() && !matches!(own, "default" | "kube-system") {
        causes.push(misplaced(""));
    }
    let by = if strict { "reportingController" } else { "reportingComponent" };
    let controller = text(event, "reportingComponent");
    if controller.is_empty() {
        causes.push(Cause::required(by, ""));
    }
    let complaints = name_complaints(controller);
    causes.extend(complaints.iter().map(|detail| Cause::invalid_text(by, controller, detail)));
    for (key, limit) in [
        ("reportingInstance", TEXT_LIMIT),
        ("action", TEXT_LIMIT),
        ("reason", TEXT_LIMIT),
        ("message", MESSAGE_LIMIT),
    ] {
        let value = text(event, key);
        if value.is_empty() && key != "message" {
            causes.push(Cause::required(key, ""));
        }
        if value.len() > limit {
            causes.push(Cause::invalid(key, "\"\"", &format!("can have at most {limit} characters")));
        }
    }
    causes
}

/// Checks the required and the forbidden fields of a new event of events.k8s.io.
fn fresh(event: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(series) = event.get("series").filter(|series| series.is_object()) {
        if series["count"].as_i64().unwrap_or(0) < 2 {
            causes.push(Cause::invalid("series.count", "\"\"", "should be at least 2"));
        }
        if series["lastObservedTime"].as_str().is_none() {
            causes.push(Cause::required("series.lastObservedTime", ""));
        }
    }
    if text(event, "eventTime").is_empty() {
        causes.push(Cause::required("eventTime", ""));
    }
    let kind = text(event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        causes.push(Cause::invalid("type", "\"\"", &format!("has invalid value: {kind}")));
    }
    for key in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        if event.get(key).is_some_and(|value| ![json!(null), json!({}), json!(0)].contains(value)) {
            causes.push(Cause::invalid(key, "\"\"", "needs to be unset"));
        }
    }
    causes
}

/// Checks a change of an event. In events.k8s.io, only the series of an event can change.
fn changed(before: &Object, after: &Object) -> Vec<Cause> {
    const FIELDS: &str = "involvedObject reason message source firstTimestamp lastTimestamp count type eventTime \
                          action related reportingComponent reportingInstance";
    let differ = FIELDS.split(' ').filter(|key| before.get(*key) != after.get(*key));
    let changed = differ.map(|key| {
        let name = if key == "reportingComponent" { "reportingController" } else { key };
        let shown = after.get(key).unwrap_or(&Value::Null).to_string();
        Cause::invalid(name, &shown, "field is immutable")
    });
    changed.collect()
}
