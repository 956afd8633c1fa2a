//! The effects of the schema of a custom kind on its objects: validation, unknown fields, defaults and
//! nulls.

use anyhow::{Context as _, Result, ensure};
use http::{Request, header};
use serde_json::{Value, json};

use super::custom::Custom;
use super::place::Place;
use super::raw::{JSON, Reply};

checks! {
    "An invalid custom object is rejected with 422 Invalid, with one fixed message for each rule.":
        types_are_checked, bounds_are_checked, sizes_are_checked, enums_patterns_and_formats_are_checked;
    "A failed alternative is reported, with the errors of its best part.":
        alternatives_are_checked;
    "All errors of a custom object are reported together, each with its field and reason.":
        several_errors_are_reported_together;
    "A list that is a set or a map holds no value, or key, twice.":
        sets_and_maps_reject_duplicates;
    "Unknown and repeated fields are dropped with a warning; fieldValidation can reject or ignore them.":
        unknown_fields_are_dropped_with_a_warning, strict_writes_reject_unknown_fields,
        strict_patches_reject_unknown_fields, writes_with_ignore_have_no_warnings,
        built_in_kinds_reject_repeated_fields, unknown_field_validation_is_rejected;
    "Defaults are set; a null is stored if the field is nullable, and is dropped in other fields.":
        defaults_are_filled_in, nulls_are_stored_defaulted_or_dropped;
    "An embedded object keeps its type and its metadata.": embedded_objects_keep_their_metadata;
    "The status is checked, and defaulted, when it is written.":
        status_is_checked_alone;
    "An update does not report invalid values that it did not change.":
        unchanged_faults_are_tolerated;
}

fn schema() -> Value {
    let keyed = json!({"type": "object", "required": ["k"],
        "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}});
    json!({"type": "object", "required": ["spec"], "properties": {
        "status": {"type": "object", "properties": {
            "ok": {"type": "boolean"}, "n": {"type": "integer", "default": 5},
        }},
        "spec": {"type": "object", "required": ["color"], "properties": {
            "color": {"type": "string", "enum": ["red", "blue"]},
            "size": {"type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 2},
            "num": {"type": "number", "minimum": 1.5, "exclusiveMinimum": true},
            "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
            "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": keyed},
            "props": {"type": "object", "minProperties": 1, "maxProperties": 2,
                      "additionalProperties": {"type": "integer"}},
            "port": {"x-kubernetes-int-or-string": true},
            "maybe": {"type": "string", "nullable": true},
            "filled": {"type": "string", "nullable": true, "default": "x"},
            "always": {"type": "string", "default": "y"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "inner": {"type": "object", "x-kubernetes-embedded-resource": true,
                      "x-kubernetes-preserve-unknown-fields": true},
            "one": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "any": {"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 2}]},
            "all": {"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 20}]},
            "not": {"type": "string", "not": {"enum": ["no"]}},
            "date": {"type": "string", "format": "date-time"},
            "ip": {"type": "string", "format": "ipv4"},
            "i32": {"type": "integer", "format": "int32"},
            "obj": {"type": "object", "default": {}, "properties": {"in": {"type": "integer", "default": 3}}},
        }},
    }})
}

async fn install(place: &Place) -> Result<Custom<'_>> {
    Custom::install(place, schema(), json!({"status": {}})).await
}

/// Creates an object with this spec and the color red, and returns the response.
async fn tried(kind: &Custom<'_>, spec: &Value) -> Result<Reply> {
    let mut spec = spec.clone();
    if let Some(map) = spec.as_object_mut().filter(|map| !map.contains_key("color")) {
        map.insert("color".into(), "red".into());
    }
    kind.try_create("w", &spec).await
}

/// Returns the causes of an error as sorted `reason field: message`. The real server validates fields
/// in any order.
pub(super) fn causes(reply: &Reply) -> Result<Vec<String>> {
    let status = reply.refused(422, "Invalid")?;
    let causes = status["details"]["causes"].as_array().context("no causes")?.iter();
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or("").to_owned();
    let mut causes: Vec<String> = causes
        .map(|c| format!("{} {}: {}", text(c, "reason"), text(c, "field"), text(c, "message")))
        .collect();
    causes.sort();
    Ok(causes)
}

/// Checks that each spec is rejected with exactly one cause.
async fn each_is_refused(kind: &Custom<'_>, cases: &[(Value, &str)]) -> Result<()> {
    for (spec, expected) in cases {
        let found = causes(&tried(kind, spec).await?)?;
        ensure!(found == [*expected], "{spec}: expected {expected:?}, got {found:?}");
    }
    Ok(())
}

pub(super) fn warnings(reply: &Reply) -> Vec<&str> {
    reply.headers.get_all(header::WARNING).iter().filter_map(|value| value.to_str().ok()).collect()
}

async fn types_are_checked(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let wrong = |field: &str, expected: &str, found: &str| {
        format!(
            "FieldValueTypeInvalid {field}: Invalid value: \"{found}\": {field} in body must be of type {expected}: \
             \"{found}\""
        )
    };
    for (spec, field, expected, found) in [
        (json!({"size": "3"}), "spec.size", "integer", "string"),
        (json!({"name": true}), "spec.name", "string", "boolean"),
        (json!({"list": ["a", 1]}), "spec.list[1]", "string", "integer"),
        (json!({"list": ["a", null]}), "spec.list[1]", "string", "null"),
        (json!({"props": {"a": "x"}}), "spec.props.a", "integer", "string"),
        (json!({"port": true}), "spec.port", "integer,string", "boolean"),
        (json!({"num": "x"}), "spec.num", "number", "string"),
    ] {
        each_is_refused(&kind, &[(spec, &wrong(field, expected, found))]).await?;
    }
    for port in [json!(80), json!("http")] {
        tried(&kind, &json!({"port": port, "num": 2})).await?.expect(201)?;
    }
    Ok(())
}

async fn bounds_are_checked(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let size = "FieldValueInvalid spec.size: Invalid value:";
    let cases = [
        (json!({"size": 3}), format!("{size} 3: spec.size in body should be a multiple of 2")),
        (json!({"size": 12}), format!("{size} 12: spec.size in body should be less than or equal to 10")),
        (json!({"size": 0}), format!("{size} 0: spec.size in body should be greater than or equal to 1")),
        (
            json!({"num": 1.5}),
            "FieldValueInvalid spec.num: Invalid value: 1.5: spec.num in body should be greater than 1.5".into(),
        ),
        (
            json!({"i32": 3_000_000_000_u32}),
            "FieldValueInvalid <nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in \
             spec.i32"
                .into(),
        ),
    ];
    for (spec, expected) in cases {
        each_is_refused(&kind, &[(spec, &expected)]).await?;
    }
    Ok(())
}

async fn sizes_are_checked(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    each_is_refused(
        &kind,
        &[
            (json!({"name": "abcde"}), "FieldValueTooLong spec.name: Too long: may not be more than 4 bytes"),
            (
                json!({"name": "a"}),
                "FieldValueInvalid spec.name: Invalid value: \"a\": spec.name in body should be at least 2 chars long",
            ),
            (
                json!({"list": []}),
                "FieldValueInvalid spec.list: Invalid value: 0: spec.list in body should have at least 1 items",
            ),
            (json!({"list": ["a", "b", "c"]}), "FieldValueTooMany spec.list: Too many: 3: must have at most 2 items"),
            (
                json!({"props": {}}),
                "FieldValueInvalid spec.props: Invalid value: 0: spec.props in body should have at least 1 properties",
            ),
            (
                json!({"props": {"a": 1, "b": 2, "c": 3}}),
                "FieldValueTooMany spec.props: Too many: 3: must have at most 2 items",
            ),
            (json!({"map": [{"v": 1}]}), "FieldValueRequired spec.map[0].k: Required value"),
        ],
    )
    .await
}

async fn enums_patterns_and_formats_are_checked(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    each_is_refused(
        &kind,
        &[
            (
                json!({"color": "green"}),
                "FieldValueNotSupported spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
            ),
            (
                json!({"name": "A1"}),
                "FieldValueInvalid spec.name: Invalid value: \"A1\": spec.name in body should match '^[a-z]+$'",
            ),
            (
                json!({"date": "x"}),
                "FieldValueTypeInvalid spec.date: Invalid value: \"x\": spec.date in body must be of type date-time: \"x\"",
            ),
            (
                json!({"ip": "10.0.0.300"}),
                "FieldValueTypeInvalid spec.ip: Invalid value: \"10.0.0.300\": spec.ip in body must be of type ipv4: \
                 \"10.0.0.300\"",
            ),
        ],
    )
    .await
}

async fn alternatives_are_checked(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let nowhere = |text: &str| format!("FieldValueInvalid <nil>: Invalid value: \"\": {text}");
    for (spec, mut expected) in [
        (json!({"one": {"a": 1, "b": 2}}), vec![nowhere("\"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives")]),
        (
            json!({"one": {}}),
            vec![
                nowhere("\"spec.one\" must validate one and only one schema (oneOf). Found none valid"),
                "FieldValueRequired spec.one.a: Required value".into(),
            ],
        ),
        (
            json!({"any": 3}),
            vec![
                nowhere("\"spec.any\" must validate at least one schema (anyOf)"),
                "FieldValueInvalid spec.any: Invalid value: 3: spec.any in body should be greater than or equal to 5".into(),
            ],
        ),
        (
            json!({"all": 3}),
            vec![
                nowhere("\"spec.all\" must validate all the schemas (allOf)"),
                "FieldValueInvalid spec.all: Invalid value: 3: spec.all in body should be greater than or equal to 5".into(),
            ],
        ),
        (json!({"not": "no"}), vec![nowhere("\"spec.not\" must not validate the schema (not)")]),
    ] {
        expected.sort();
        let found = causes(&tried(&kind, &spec).await?)?;
        ensure!(found == expected, "{spec}: expected {expected:?}, got {found:?}");
    }
    Ok(())
}

async fn several_errors_are_reported_together(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let found = causes(&kind.try_create("w", &json!({"size": "x", "name": 1})).await?)?;
    ensure!(
        found
            == [
                "FieldValueRequired spec.color: Required value",
                "FieldValueTypeInvalid spec.name: Invalid value: \"integer\": spec.name in body must be of type string: \
                 \"integer\"",
                "FieldValueTypeInvalid spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \
                 \"string\"",
            ],
        "{found:?}"
    );
    Ok(())
}

async fn sets_and_maps_reject_duplicates(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    each_is_refused(
        &kind,
        &[
            (json!({"set": ["a", "b", "a", "a"]}), "FieldValueDuplicate spec.set[2]: Duplicate value: \"a\""),
            (
                json!({"map": [{"k": "a"}, {"k": "a", "v": 1}]}),
                "FieldValueDuplicate spec.map[1]: Duplicate value: {\"k\":\"a\"}",
            ),
        ],
    )
    .await
}

async fn unknown_fields_are_dropped_with_a_warning(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let spec = json!({"zz": 1, "free": {"kept": {"a": 1}}, "list": {"a": 1}});
    let reply = tried(&kind, &spec).await?;
    ensure!(reply.status == 422 && warnings(&reply).len() == 2, "warnings of the rejected request: {reply}");
    let reply = tried(&kind, &json!({"zz": 1, "free": {"kept": {"a": 1}}})).await?;
    let created = reply.expect(201)?;
    ensure!(created["spec"].get("zz").is_none() && created["spec"]["free"]["kept"]["a"] == 1, "{created}");
    ensure!(warnings(&reply) == ["299 - \"unknown field \\\"spec.zz\\\"\""], "{:?}", warnings(&reply));
    Ok(())
}

/// A body with a repeated field and two unknown fields.
fn odd(kind: &Custom<'_>) -> String {
    format!(
        "{{\"apiVersion\":\"{}/v1\",\"kind\":\"Widget\",\"metadata\":{{\"name\":\"w\",\"bar\":1}},\
         \"spec\":{{\"color\":\"red\",\"color\":\"blue\",\"zz\":1}}}}",
        kind.group
    )
}

async fn post_text(kind: &Custom<'_>, query: &str, body: String) -> Result<Reply> {
    let request = Request::post(format!("{}?{query}", kind.all())).header(header::CONTENT_TYPE, JSON);
    kind.place.admin().request_bytes(request, body.into_bytes()).await
}

async fn strict_writes_reject_unknown_fields(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let refused = post_text(&kind, "fieldValidation=Strict", odd(&kind)).await?.refused(400, "BadRequest")?;
    ensure!(
        refused["message"]
            == "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: duplicate field \
                \"spec.color\", unknown field \"metadata.bar\", unknown field \"spec.zz\"",
        "{refused}"
    );
    Ok(())
}

async fn strict_patches_reject_unknown_fields(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    kind.create("w", json!({"color": "red"})).await?;
    let patch = json!({"spec": {"zz": 1}});
    let path = format!("{}?fieldValidation=Strict", kind.one("w"));
    let refused = place.admin().patch(&path, &patch).await?.refused(422, "Invalid")?;
    let message = refused["message"].as_str().unwrap_or("");
    ensure!(message.starts_with(" \"\" is invalid: patch: Invalid value: \"{"), "{message}");
    ensure!(message.ends_with(": strict decoding error: unknown field \"spec.zz\""), "{message}");
    let warned = place.admin().patch(&kind.one("w"), &patch).await?;
    ensure!(
        warned.status == 200 && warnings(&warned) == ["299 - \"unknown field \\\"spec.zz\\\"\""],
        "{warned}"
    );
    Ok(())
}

async fn writes_with_ignore_have_no_warnings(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let reply = post_text(&kind, "fieldValidation=Ignore", odd(&kind)).await?;
    let created = reply.expect(201)?;
    ensure!(created["spec"]["color"] == "blue" && created["spec"].get("zz").is_none(), "{created}");
    ensure!(created["metadata"].get("bar").is_none() && warnings(&reply).is_empty(), "{created}");
    Ok(())
}

async fn built_in_kinds_reject_repeated_fields(place: Place) -> Result<()> {
    let body = r#"{"metadata":{"name":"c","name":"d"},"data":{"a":"1","a":"2"}}"#;
    let path = format!("{}?fieldValidation=Strict", place.all());
    let request = Request::post(path).header(header::CONTENT_TYPE, JSON);
    let reply = place.admin().request_bytes(request, body.as_bytes().to_vec()).await?;
    let refused = reply.refused(400, "BadRequest")?;
    ensure!(
        refused["message"]
            == "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \
                \"metadata.name\", duplicate field \"data.a\"",
        "{refused}"
    );
    Ok(())
}

async fn unknown_field_validation_is_rejected(place: Place) -> Result<()> {
    let path = format!("{}?fieldValidation=Maybe", place.all());
    let refused = place.admin().post(&path, &json!({"metadata": {"name": "c"}})).await?;
    let refused = refused.refused(422, "Invalid")?;
    ensure!(
        refused["message"]
            == "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Maybe\": supported \
                values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
        "{refused}"
    );
    Ok(())
}

async fn defaults_are_filled_in(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let created = kind.create("w", json!({"color": "red"})).await?;
    let filled = json!({"color": "red", "filled": "x", "always": "y", "obj": {"in": 3}});
    ensure!(created["spec"] == filled, "{created}");
    let patch = json!({"spec": {"always": null, "obj": {"in": 4}}});
    let patched = place.admin().patch(&kind.one("w"), &patch).await?.ok()?;
    ensure!(patched["spec"]["always"] == "y" && patched["spec"]["obj"]["in"] == 4, "{patched}");
    Ok(())
}

async fn nulls_are_stored_defaulted_or_dropped(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let nulls = json!({"color": "red", "maybe": null, "filled": null, "always": null, "size": null});
    let created = kind.create("w", nulls).await?;
    let expected = json!({"color": "red", "maybe": null, "filled": null, "always": "y", "obj": {"in": 3}});
    ensure!(created["spec"] == expected, "{created}");
    Ok(())
}

async fn embedded_objects_keep_their_metadata(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let metadata = json!({"name": "x", "labels": {"a": "b"}});
    let inner = json!({"apiVersion": "v1", "kind": "X", "z": 1, "metadata": metadata});
    let created = kind.create("w", json!({"color": "red", "inner": inner})).await?;
    ensure!(created["spec"]["inner"] == inner, "{created}");
    Ok(())
}

async fn status_is_checked_alone(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    kind.create("w", json!({"color": "red"})).await?;
    let path = kind.one("w/status");
    let found = causes(&place.admin().patch(&path, &json!({"status": {"ok": "x"}})).await?)?;
    let expected = "FieldValueTypeInvalid status.ok: Invalid value: \"string\": ok in body must be of type boolean: \
                    \"string\"";
    ensure!(found == [expected], "{found:?}");
    let patched = place.admin().patch(&path, &json!({"status": {"ok": true}})).await?.ok()?;
    ensure!(patched["status"] == json!({"ok": true, "n": 5}), "{patched}");
    Ok(())
}

async fn unchanged_faults_are_tolerated(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let created = kind
        .create("w", json!({"color": "red", "size": 10, "map": [{"k": "a", "v": 1}, {"k": "b"}]}))
        .await?;
    let mut stricter = schema();
    stricter["properties"]["spec"]["properties"]["size"]["maximum"] = json!(4);
    stricter["properties"]["spec"]["properties"]["map"]["items"]["properties"]["v"]["minimum"] = json!(2);
    kind.change_schema(&created, stricter).await?;
    let labelled = json!({"metadata": {"labels": {"l": "1"}}, "spec": {"color": "blue"}});
    place.admin().patch(&kind.one("w"), &labelled).await?.ok()?;
    let other_item = json!({"spec": {"map": [{"k": "b", "v": 3}, {"k": "a", "v": 1}]}});
    place.admin().patch(&kind.one("w"), &other_item).await?.ok()?;
    let found = causes(&place.admin().patch(&kind.one("w"), &json!({"spec": {"size": 8}})).await?)?;
    let expected =
        "FieldValueInvalid spec.size: Invalid value: 8: spec.size in body should be less than or equal to 4";
    ensure!(found == [expected], "{found:?}");
    Ok(())
}
