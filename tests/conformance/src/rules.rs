//! The CEL rules of a custom kind: their evaluation for objects, and their check when the definition is
//! written.
//!
//! The files in the folder `rules` contain the cases, with the causes that the real server returns.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};

use super::custom::{CRDS, Custom};
use super::place::Place;
use super::raw::Reply;
use super::schemas::{causes, warnings};

checks! {
    "A rule judges each value of its field, when the object is created and when it is updated.":
        rules_judge_objects;
    "A rule with a syntax error or an unknown name is rejected with the definition.":
        invalid_rules_are_rejected_with_their_definition;
    "An update tolerates failed rules of values that it did not change, with a warning.":
        failed_rules_of_unchanged_values_are_tolerated;
    "A write of the status evaluates the rules of the entire object.":
        status_writes_evaluate_rules;
}

/// A field of `spec` with rules, and the values for this field. A line of the field comes before the
/// lines of its values.
const OBJECTS: &str = include_str!("../rules/objects.jsonl");
/// Definitions with rules.
const DEFINITIONS: &str = include_str!("../rules/definitions.jsonl");

fn lines(text: &str) -> Result<Vec<Value>> {
    text.lines().map(|line| serde_json::from_str(line).context(line.to_owned())).collect()
}

fn expected(case: &Value) -> Vec<&str> {
    case["causes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns the causes of a rejected write, or no causes.
fn outcome(reply: &Reply) -> Result<Vec<String>> {
    if matches!(reply.status, 200 | 201) { Ok(Vec::new()) } else { causes(reply) }
}

fn schema(fields: &Value, status: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}, "status": status}})
}

/// Returns the reason and the field of a cause.
fn field_of(cause: &str) -> &str {
    cause.split_once(": ").map_or(cause, |(start, _)| start)
}

async fn rules_judge_objects(place: Place) -> Result<()> {
    let lines = lines(OBJECTS)?;
    let fields =
        lines.iter().filter_map(|line| Some((line["field"].as_str()?.into(), line["schema"].clone())));
    let fields: Map<String, Value> = fields.collect();
    let kind = Custom::install(&place, schema(&fields.into(), &json!({"type": "object"})), json!({})).await?;
    let mut field = "";
    let mut wrong = Vec::new();
    for (index, case) in lines.iter().enumerate() {
        if let Some(next) = case["field"].as_str() {
            field = next;
            continue;
        }
        let name = format!("w{index}");
        let spec = |key: &str| json!({field: case[key]});
        let reply = if case.get("old").is_some() {
            let mut object = kind.create(&name, spec("old")).await?;
            object["spec"] = spec("value");
            place.admin().put(&kind.one(&name), &object).await?
        } else {
            kind.try_create(&name, &spec("value")).await?
        };
        let found = outcome(&reply)?;
        if found != expected(case) {
            wrong.push(format!("{field}: {case}: {found:?}"));
        }
    }
    ensure!(wrong.is_empty(), "{} cases: {}", wrong.len(), wrong.join("\n"));
    Ok(())
}

async fn invalid_rules_are_rejected_with_their_definition(place: Place) -> Result<()> {
    let kind = Custom { place: &place, group: format!("{}.test", place.namespace) };
    let mut wrong = Vec::new();
    for case in lines(DEFINITIONS)? {
        let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": case["schema"]}});
        let definition = kind.definition("widgets", "Widget", json!([version]));
        let found = outcome(&place.admin().post(&format!("{CRDS}?dryRun=All"), &definition).await?)?;
        // The messages contain the rule in the notation of Go.
        let fields =
            |causes: &[&str]| causes.iter().map(|cause| field_of(cause)).collect::<Vec<_>>().join(" ");
        let texts: Vec<&str> = found.iter().map(String::as_str).collect();
        if fields(&texts) != fields(&expected(&case)) {
            wrong.push(format!("{}: {found:?}", case["name"]));
        }
    }
    ensure!(wrong.is_empty(), "{} cases: {}", wrong.len(), wrong.join("\n"));
    Ok(())
}

/// The fields of [`failed_rules_of_unchanged_values_are_tolerated`], with or without rules.
fn fields(with_rules: bool) -> Value {
    let rules = |rule: &str| if with_rules { json!([{"rule": rule, "message": "small"}]) } else { json!([]) };
    let number = || json!({"type": "integer", "x-kubernetes-validations": rules("self > 9")});
    let item = json!({"type": "object", "required": ["k"], "x-kubernetes-validations": rules("self.v > 9"),
        "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}});
    json!({
        "free": {"type": "string"},
        "a": number(), "b": number(),
        "list": {"type": "array", "items": number()},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item},
        "map": {"type": "object", "additionalProperties": number()},
        "whole": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "x-kubernetes-validations": rules("self.x > 9")},
    })
}

async fn failed_rules_of_unchanged_values_are_tolerated(place: Place) -> Result<()> {
    let kind = Custom::install(&place, schema(&fields(false), &json!({"type": "object"})), json!({})).await?;
    let spec = json!({"free": "1", "a": 1, "b": 2, "list": [3, 10], "keyed": [{"k": "a", "v": 4}, {"k": "b", "v": 10}],
        "map": {"a": 5}, "whole": {"x": 6, "y": 7}});
    let created = kind.create("w", spec).await?;
    kind.change_schema(&created, schema(&fields(true), &json!({"type": "object"}))).await?;
    let all = ["spec.a", "spec.b", "spec.keyed[0]", "spec.list[0]", "spec.map[a]", "spec.whole"];
    // The change, and the fields whose failed rule is tolerated. The other rules of `all` reject it.
    for (change, fails) in [
        (json!({"free": "2"}), &[][..]),
        (json!({"a": 2}), &["spec.a"]),
        (json!({"a": 10}), &[]),
        (json!({"list": [3, 11]}), &["spec.list[0]"]),
        (json!({"map": {"b": 10}}), &[]),
        (json!({"map": {"a": 6}}), &["spec.map[a]"]),
        (json!({"whole": {"y": 8}}), &["spec.whole"]),
        (json!({"keyed": [{"k": "a", "v": 4}, {"k": "b", "v": 11}]}), &[]),
        (json!({"keyed": [{"k": "a", "v": 5}, {"k": "b", "v": 10}]}), &["spec.keyed[0]"]),
        (json!({"keyed": [{"k": "a", "v": 4}, {"k": "b", "v": 10}, {"k": "c", "v": 1}]}), &["spec.keyed[2]"]),
    ] {
        let path = format!("{}?dryRun=All", kind.one("w"));
        let reply = place.admin().patch(&path, &json!({"spec": change})).await?;
        let found = outcome(&reply)?;
        let fields: Vec<&str> = found.iter().filter_map(|cause| cause.split([' ', ':']).nth(1)).collect();
        ensure!(fields == fails, "{change}: {found:?}");
        let is_changed =
            |field: &str| fails.contains(&field) || (change == json!({"a": 10}) && field == "spec.a");
        let warned = all.iter().filter(|field| warnings(&reply).iter().any(|text| text.contains(*field)));
        let tolerated: Vec<&&str> = warned.collect();
        let expected: Vec<&&str> = all.iter().filter(|field| !is_changed(field)).collect();
        ensure!(tolerated == expected, "{change}: {:?}", warnings(&reply));
    }
    Ok(())
}

async fn status_writes_evaluate_rules(place: Place) -> Result<()> {
    let rule = |rule: &str| json!([{"rule": rule, "message": rule}]);
    let status = json!({"type": "object", "properties": {"n": {"type": "integer", "x-kubernetes-validations": rule("self > 0")}}});
    let mut schema = schema(&json!({"max": {"type": "integer"}}), &status);
    schema["x-kubernetes-validations"] =
        rule("!has(self.status) || !has(self.status.n) || self.status.n <= self.spec.max");
    let kind = Custom::install(&place, schema, json!({"status": {}})).await?;
    kind.create("w", json!({"max": 3})).await?;
    let path = format!("{}/status", kind.one("w"));
    let set = |n: i64| json!({"status": {"n": n}});
    place.admin().patch(&path, &set(3)).await?.ok()?;
    for (n, expected) in [
        (0, "FieldValueInvalid status.n: Invalid value: 0: self > 0"),
        (
            4,
            "FieldValueInvalid <nil>: Invalid value: !has(self.status) || !has(self.status.n) || self.status.n <= self.spec.max",
        ),
    ] {
        let found = causes(&place.admin().patch(&path, &set(n)).await?)?;
        ensure!(found == [expected], "{n}: {found:?}");
    }
    Ok(())
}
