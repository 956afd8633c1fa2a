//! The conditions of a CRD.

use serde_json::{Map, Value, json};

use crate::wire::object::Object;

/// A condition without its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub kind: &'static str,
    pub is: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Condition {
    pub(crate) fn new(kind: &'static str, is: bool, reason: &'static str, message: &str) -> Self {
        Self { kind, is, reason, message: message.into() }
    }
}

fn status_mut(crd: &mut Object) -> Option<&mut Map<String, Value>> {
    crd.entry("status").or_insert_with(|| json!({})).as_object_mut()
}

fn conditions(crd: &Object) -> impl Iterator<Item = &Value> {
    crd.get("status").and_then(|s| s.get("conditions")).and_then(Value::as_array).into_iter().flatten()
}

/// Returns whether the condition exists and is true.
pub(crate) fn is(crd: &Object, kind: &str) -> bool {
    conditions(crd).any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Sets a condition. Its transition time changes only with its status. Returns whether the CRD has
/// changed.
pub(crate) fn set(crd: &mut Object, condition: &Condition, now: &str) -> bool {
    let before: Option<Value> = conditions(crd).find(|old| old["type"] == condition.kind).cloned();
    let status = if condition.is { "True" } else { "False" };
    let since =
        before.as_ref().filter(|old| old["status"] == status).map(|old| old["lastTransitionTime"].clone());
    let after = json!({
        "type": condition.kind, "status": status, "lastTransitionTime": since.unwrap_or_else(|| now.into()),
        "reason": condition.reason, "message": condition.message,
    });
    if before.as_ref() == Some(&after) {
        return false;
    }
    let Some(all) = status_mut(crd) else { return false };
    let list = all.entry("conditions").or_insert(Value::Null);
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return false };
    match list.iter_mut().find(|old| old["type"] == condition.kind) {
        Some(old) => *old = after,
        None => list.push(after),
    }
    true
}

pub(crate) fn accepted(crd: &Object) -> Value {
    crd.get("status").and_then(|status| status.get("acceptedNames")).cloned().unwrap_or_else(|| json!({}))
}

/// Accepts the names in the spec of a CRD, and sets the two conditions. Returns whether the names have
/// changed.
pub(crate) fn accept_names(crd: &mut Object, now: &str) -> bool {
    let wanted = crd.get("spec").and_then(|spec| spec.get("names")).cloned().unwrap_or_default();
    if wanted == accepted(crd) {
        return false;
    }
    if let Some(status) = status_mut(crd) {
        status.insert("acceptedNames".into(), wanted);
    }
    set(crd, &Condition::new("NamesAccepted", true, "NoConflicts", "no conflicts found"), now);
    if !is(crd, "Established") {
        let message = "the initial names have been accepted";
        set(crd, &Condition::new("Established", false, "Installing", message), now);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let mut crd = Object::new();
        let no = Condition::new("Established", false, "Installing", "soon");
        assert!(set(&mut crd, &no, "1") && !is(&crd, "Established"));
        assert!(!set(&mut crd, &no, "2"));
        assert!(set(&mut crd, &Condition::new("Established", false, "NotAccepted", "no"), "3"));
        assert_eq!(crd["status"]["conditions"][0]["lastTransitionTime"], "1");
        assert!(set(&mut crd, &Condition::new("Established", true, "InitialNamesAccepted", "yes"), "4"));
        assert!(is(&crd, "Established"));
        assert_eq!(crd["status"]["conditions"].as_array().unwrap().len(), 1);
        assert_eq!(crd["status"]["conditions"][0]["lastTransitionTime"], "4");
    }
}
