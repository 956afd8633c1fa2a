//! The messages and the order of validation errors, recorded from kube-apiserver 1.36.3.

use serde_json::{Value, json};

use crate::schemas::crd::schema::validate::{Before, Validator};
use crate::status::Status;

fn schema() -> Value {
    json!({"type": "object", "required": ["spec"], "properties": {"spec": {
        "type": "object", "required": ["color"], "properties": {
            "color": {"type": "string", "enum": ["red", "blue"]},
            "size": {"type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 2},
            "num": {"type": "number", "minimum": 1.5, "exclusiveMinimum": true},
            "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
            "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
            "props": {"type": "object", "minProperties": 1, "maxProperties": 2,
                      "additionalProperties": {"type": "integer"}},
            "closed": {"type": "object", "additionalProperties": false},
            "port": {"x-kubernetes-int-or-string": true},
            "maybe": {"type": "string", "nullable": true},
            "one": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "any": {"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 2}]},
            "all": {"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 20}]},
            "not": {"type": "string", "not": {"enum": ["no"]}},
            "date": {"type": "string", "format": "date-time"},
            "ip": {"type": "string", "format": "ipv4"},
            "i32": {"type": "integer", "format": "int32"},
            "level": {"type": "integer", "enum": [1, 2]},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                      "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
        },
    }}})
}

/// Returns `reason field: message` of each error of an object with this spec and the color red.
fn errors(spec: Value) -> Vec<String> {
    let mut spec = spec;
    if let Some(map) = spec.as_object_mut().filter(|map| !map.contains_key("color")) {
        map.insert("color".into(), "red".into());
    }
    errors_of(&json!({"spec": spec}), None)
}

fn errors_of(object: &Value, before: Option<&Value>) -> Vec<String> {
    let schema = schema();
    let before = before.map(|value| Before { value, schema: &schema });
    let causes = Validator::new(&schema).validate(&schema, object, "", before);
    let status = Status::invalid(crate::status::Named { group: "", resource: "X" }, "x", causes);
    let body: Value = serde_json::from_slice(&status.json()).unwrap();
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap().to_owned();
    let causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes
        .iter()
        .map(|c| {
            let reason = text(c, "reason");
            format!(
                "{} {}: {}",
                reason.trim_start_matches("FieldValue"),
                text(c, "field"),
                text(c, "message")
            )
        })
        .collect()
}

#[test]
fn valid_objects_have_no_errors() {
    for spec in [
        json!({"size": 2, "num": 2, "name": "abc", "list": ["a"], "props": {"a": 1}, "port": 1, "maybe": null}),
        json!({"port": "http", "one": {"a": 1}, "any": 1, "all": 7, "not": "yes", "ip": "10.0.0.1", "level": 2}),
    ] {
        assert_eq!(errors(spec), Vec::<String>::new());
    }
}

#[test]
fn type_errors_equal_the_real_server() {
    for (spec, expected) in [
        (
            json!({"size": "3"}),
            r#"TypeInvalid spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
        ),
        (
            json!({"name": true}),
            r#"TypeInvalid spec.name: Invalid value: "boolean": spec.name in body must be of type string: "boolean""#,
        ),
        (
            json!({"list": {"a": 1}}),
            r#"TypeInvalid spec.list: Invalid value: "object": spec.list in body must be of type array: "object""#,
        ),
        (
            json!({"list": ["a", null]}),
            r#"TypeInvalid spec.list[1]: Invalid value: "null": spec.list[1] in body must be of type string: "null""#,
        ),
        (
            json!({"port": 1.5}),
            r#"TypeInvalid spec.port: Invalid value: "number": spec.port in body must be of type integer,string: "number""#,
        ),
        (
            json!({"ip": 5}),
            r#"TypeInvalid spec.ip: Invalid value: "integer": spec.ip in body must be of type string: "integer""#,
        ),
        (
            json!({"props": {"a": "x"}}),
            r#"TypeInvalid spec.props.a: Invalid value: "string": spec.props.a in body must be of type integer: "string""#,
        ),
    ] {
        assert_eq!(errors(spec), [expected]);
    }
}

#[test]
fn limit_errors_equal_the_real_server() {
    for (spec, expected) in [
        (
            json!({"size": 3}),
            "Invalid spec.size: Invalid value: 3: spec.size in body should be a multiple of 2",
        ),
        (
            json!({"size": 12}),
            "Invalid spec.size: Invalid value: 12: spec.size in body should be less than or equal to 10",
        ),
        (
            json!({"size": 0}),
            "Invalid spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({"num": 1.5}),
            "Invalid spec.num: Invalid value: 1.5: spec.num in body should be greater than 1.5",
        ),
        (json!({"num": 1}), "Invalid spec.num: Invalid value: 1: spec.num in body should be greater than 1"),
        (
            json!({"name": "a"}),
            r#"Invalid spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long"#,
        ),
        (json!({"name": "ABCDE"}), "TooLong spec.name: Too long: may not be more than 4 bytes"),
        (
            json!({"name": "A1"}),
            r#"Invalid spec.name: Invalid value: "A1": spec.name in body should match '^[a-z]+$'"#,
        ),
        (
            json!({"list": []}),
            "Invalid spec.list: Invalid value: 0: spec.list in body should have at least 1 items",
        ),
        (json!({"list": ["a", "b", "c"]}), "TooMany spec.list: Too many: 3: must have at most 2 items"),
        (
            json!({"props": {}}),
            "Invalid spec.props: Invalid value: 0: spec.props in body should have at least 1 properties",
        ),
        (
            json!({"props": {"a": 1, "b": 2, "c": 3}}),
            "TooMany spec.props: Too many: 3: must have at most 2 items",
        ),
        (
            json!({"i32": 3_000_000_000_u64}),
            r#"Invalid <nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.i32"#,
        ),
        (
            json!({"closed": {"a": 1}}),
            r#"Invalid spec.closed: Invalid value: "a": spec.closed.a in body is a forbidden property"#,
        ),
    ] {
        assert_eq!(errors(spec), [expected]);
    }
}

#[test]
fn enum_and_format_errors_equal_the_real_server() {
    for (spec, expected) in [
        (
            json!({"color": "green"}),
            r#"NotSupported spec.color: Unsupported value: "green": supported values: "red", "blue""#,
        ),
        (json!({"level": 3}), r#"NotSupported spec.level: Unsupported value: 3: supported values: "1", "2""#),
        (
            json!({"date": "x"}),
            r#"TypeInvalid spec.date: Invalid value: "x": spec.date in body must be of type date-time: "x""#,
        ),
    ] {
        assert_eq!(errors(spec), [expected]);
    }
}

#[test]
fn errors_of_alternatives_include_the_best_alternative() {
    let without_field = |text: &str| format!("Invalid <nil>: Invalid value: \"\": {text}");
    assert_eq!(
        errors(json!({"one": {}})),
        [
            without_field("\"spec.one\" must validate one and only one schema (oneOf). Found none valid"),
            "Required spec.one.a: Required value".into()
        ]
    );
    assert_eq!(
        errors(json!({"one": {"a": 1, "b": 2}})),
        [without_field(
            "\"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives"
        )]
    );
    assert_eq!(
        errors(json!({"any": 3})),
        [
            without_field("\"spec.any\" must validate at least one schema (anyOf)"),
            "Invalid spec.any: Invalid value: 3: spec.any in body should be greater than or equal to 5"
                .into()
        ]
    );
    assert_eq!(
        errors(json!({"all": 3})),
        [
            "Invalid spec.all: Invalid value: 3: spec.all in body should be greater than or equal to 5"
                .into(),
            without_field("\"spec.all\" must validate all the schemas (allOf)")
        ]
    );
    assert_eq!(
        errors(json!({"not": "no"})),
        [without_field("\"spec.not\" must not validate the schema (not)")]
    );
}

#[test]
fn several_errors_have_the_order_of_the_real_server() {
    assert_eq!(
        errors(json!({"size": 2.5})),
        [
            r#"TypeInvalid spec.size: Invalid value: "number": spec.size in body must be of type integer: "number""#,
            r#"Invalid <nil>: Invalid value: "": Checked value must be of type integer with format default in spec.size"#,
            "Invalid spec.size: Invalid value: 2.5: spec.size in body should be a multiple of 2",
        ]
    );
    let object = json!({"spec": {"size": "x", "name": 1}});
    assert_eq!(
        errors_of(&object, None),
        [
            r#"TypeInvalid spec.name: Invalid value: "integer": spec.name in body must be of type string: "integer""#,
            r#"TypeInvalid spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
            "Required spec.color: Required value",
        ]
    );
}

#[test]
fn update_tolerates_errors_in_unchanged_values() {
    let before = json!({"spec": {"size": 12, "keyed": [{"k": "a", "v": "x"}, {"k": "b", "v": "y"}]}});
    let mut after = before.clone();
    after["metadata"] = json!({"labels": {"new": "1"}});
    assert_eq!(errors_of(&after, Some(&before)), Vec::<String>::new());
    after["spec"]["color"] = json!("red");
    after["spec"]["keyed"] = json!([{"k": "b", "v": "y"}, {"k": "a", "v": "z"}]);
    assert_eq!(
        errors_of(&after, Some(&before)),
        [
            r#"TypeInvalid spec.keyed[1].v: Invalid value: "string": spec.keyed[1].v in body must be of type integer: "string""#
        ]
    );
    after["spec"]["size"] = json!(14);
    assert_eq!(errors_of(&after, Some(&before)).len(), 2);
}
