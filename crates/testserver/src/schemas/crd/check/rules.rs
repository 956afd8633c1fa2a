//! Validation of the rules in a schema (`x-kubernetes-validations`), without their expressions.

use serde_json::Value;

use crate::schemas::crd::check::field_path;
use crate::schemas::crd::schema::node::text;
use crate::status::Cause;

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

pub(super) fn check(schema: &Value, at: &str) -> Vec<Cause> {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    rules
        .enumerate()
        .flat_map(|(i, rule)| one(rule, schema, &format!("{at}.x-kubernetes-validations[{i}]")))
        .collect()
}

fn one(rule: &Value, schema: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let field = |key: &str| format!("{at}.{key}");
    let is_blank = |key: &str| !text(rule, key).is_empty() && text(rule, key).trim().is_empty();
    let (source, message, path) = (text(rule, "rule"), text(rule, "message"), text(rule, "fieldPath"));
    if source.trim().is_empty() {
        causes.push(Cause::required(&field("rule"), "rule is not specified"));
    } else if is_blank("message") || message.trim().contains('\n') {
        let detail = "must contain a text without line breaks if specified";
        causes.push(Cause::invalid_text(&field("message"), message, detail));
    } else if source.trim().contains('\n') && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        causes.push(Cause::required(&field("message"), detail));
    }
    if is_blank("messageExpression") {
        let detail = "messageExpression must be non-empty if specified";
        causes.push(Cause::required(&field("messageExpression"), detail));
    }
    let reason = rule.get("reason").and_then(Value::as_str);
    if let Some(reason) = reason.filter(|reason| !REASONS.contains(reason)) {
        causes.push(Cause::unsupported(&field("reason"), reason, &REASONS));
    }
    if !path.is_empty() && field_path::parse(path, schema).is_none() {
        causes.push(Cause::invalid_text(&field("fieldPath"), path, "must be a valid path"));
    }
    causes
}
