//! `Redaction`: replaces the values of fields in a recording.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::Value;

use crate::{changes::Pattern, output::counted};

/// The annotation with a copy of the object. The copy would contain the replaced values.
const COPY: &str = "metadata.annotations[\"kubectl.kubernetes.io/last-applied-configuration\"]";
/// The text in place of a replaced text.
const REDACTED: &str = "redacted";

/// The rules of `--redact`, and the number of values that each rule has replaced. A clone shares the numbers.
#[derive(Clone, Debug)]
pub(super) struct Redaction(Arc<[(Pattern, AtomicUsize)]>);

impl Redaction {
    /// Creates the rules for these fields. Also replaces the copy of an object in an annotation.
    pub(super) fn new(fields: &[Pattern]) -> Self {
        let copy = COPY.parse().ok().filter(|_| !fields.is_empty());
        Self(fields.iter().cloned().chain(copy).map(|field| (field, AtomicUsize::new(0))).collect())
    }

    /// Replaces the values of all fields. A replaced value has the same type, so programs can decode the
    /// object.
    pub(super) fn apply(&self, object: &mut Value) {
        for (field, count) in self.0.iter() {
            field.for_each_mut(object, &mut |value| {
                count.fetch_add(replace(value), Ordering::Relaxed);
            });
        }
    }

    /// Returns a line for each rule. `hidden` is the number of values of Secrets.
    pub(super) fn summary(&self, hidden: u64) -> String {
        let mut lines = format!(
            "replaced: {} of Secrets and tokens\n",
            counted(usize::try_from(hidden).unwrap_or(usize::MAX), "value")
        );
        for (field, count) in self.0.iter() {
            lines.push_str(&format!(
                "replaced: {} of {field}\n",
                counted(count.load(Ordering::Relaxed), "value")
            ));
        }
        lines + "all other values are in the file; read it before you share it\n"
    }
}

/// Replaces all texts, numbers and booleans. Returns their number.
fn replace(value: &mut Value) -> usize {
    match value {
        Value::Null => return 0,
        Value::String(text) => REDACTED.clone_into(text),
        Value::Number(number) => *number = 0.into(),
        Value::Bool(flag) => *flag = false,
        Value::Array(items) => return items.iter_mut().map(replace).sum(),
        Value::Object(fields) => return fields.values_mut().map(replace).sum(),
    }
    1
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_replaced_and_counted() {
        let redaction = Redaction::new(&["spec.env.value".parse().unwrap(), "spec.n".parse().unwrap()]);
        let copy = "kubectl.kubernetes.io/last-applied-configuration";
        let mut object = json!({
            "metadata": {"annotations": {copy: "private", "other": "kept"}},
            "spec": {"env": [{"name": "A", "value": "private"}, {"name": "B"}], "n": {"a": 1, "b": [true, null]}},
        });
        redaction.apply(&mut object);
        let expected = json!({
            "metadata": {"annotations": {copy: "redacted", "other": "kept"}},
            "spec": {"env": [{"name": "A", "value": "redacted"}, {"name": "B"}], "n": {"a": 0, "b": [false, null]}},
        });
        assert_eq!(object, expected);
        let summary = redaction.summary(7);
        for line in
            ["7 values of Secrets", "1 value of spec.env.value", "2 values of spec.n", "1 value of metadata"]
        {
            assert!(summary.contains(line), "{summary}");
        }
    }

    #[test]
    fn no_rule_leaves_objects_unchanged() {
        let mut object = json!({"metadata": {"annotations": {"a": "b"}}});
        Redaction::new(&[]).apply(&mut object);
        assert_eq!(object, json!({"metadata": {"annotations": {"a": "b"}}}));
    }
}
