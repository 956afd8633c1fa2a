//! Invalid CRDs, and the responses that were recorded from kube-apiserver 1.36.3.

use serde_json::{Value, json};

use super::*;
use crate::schemas::crd::defaults;

const NAME: &str = "things.lab.dev";

fn crd(schema: &Value) -> Value {
    json!({"metadata": {"name": NAME}, "spec": {
        "group": "lab.dev", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }})
}

fn filled(crd: Value) -> Object {
    let Value::Object(mut crd) = crd else { panic!("no object") };
    defaults::fill(&mut crd);
    let status = defaults::status(&crd);
    crd.insert("status".into(), status);
    crd
}

/// Returns `field: message` of each error, without the prefix of the shared schema.
fn errors(crd: Value) -> Vec<String> {
    new(&filled(crd))
        .iter()
        .map(|cause| cause.line().replace("spec.validation.openAPIV3Schema", "S"))
        .collect()
}

fn of_field(field: &Value) -> Vec<String> {
    errors(crd(&json!({"type": "object", "properties": {"a": field}})))
}

#[test]
fn valid_definition_has_no_errors() {
    assert_eq!(of_field(&json!({"type": "string", "default": "x"})), Vec::<String>::new());
    let int_or_string =
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    assert_eq!(of_field(&int_or_string), Vec::<String>::new());
    assert_eq!(
        of_field(&json!({"type": "object", "anyOf": [{"properties": {"q": {"minimum": 1}}}]})),
        Vec::<String>::new()
    );
}

#[test]
fn empty_definition_has_errors_for_all_required_fields() {
    assert_eq!(
        errors(json!({"metadata": {"name": "x"}})),
        [
            "metadata.name: Invalid value: \"x\": must be spec.names.plural+\".\"+spec.group",
            "spec.group: Required value",
            "spec.scope: Required value",
            "spec.versions: Invalid value: []: must have exactly one version marked as storage version",
            "spec.names.plural: Required value",
            "spec.names.singular: Required value",
            "spec.names.kind: Required value",
            "spec.names.listKind: Required value",
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ]
    );
}

#[test]
fn versions_are_unique_with_one_storage_version() {
    let mut none = crd(&json!({"type": "object"}));
    none["spec"]["versions"][0]["storage"] = json!(false);
    assert_eq!(
        errors(none)[0],
        "spec.versions: Invalid value: [\"v1\"]: must have exactly one version marked as storage version"
    );
    let mut twice = crd(&json!({"type": "object"}));
    let mut second = twice["spec"]["versions"][0].clone();
    second["storage"] = json!(false);
    twice["spec"]["versions"].as_array_mut().unwrap().push(second);
    assert_eq!(errors(twice), ["spec.versions: Invalid value: [\"v1\"]: must contain unique version names"]);
    let mut without = crd(&json!({"type": "object"}));
    without["spec"]["versions"][0]["schema"] = json!({});
    assert_eq!(errors(without), ["spec.versions[0].schema.openAPIV3Schema: Required value"]);
}

#[test]
fn schemas_must_be_structural() {
    for (schema, expected) in [
        (json!({}), "S.type: Required value: must not be empty"),
        (json!({"type": "string"}), "S.type: Invalid value: \"string\": must be object at the root"),
        (
            json!({"type": "object", "nullable": true}),
            "S.nullable: Forbidden: nullable cannot be true at the root",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "S.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "S.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
    ] {
        assert_eq!(errors(crd(&schema)), [expected]);
    }
    for (field, expected) in [
        (json!({}), "S.properties[a].type: Required value: must not be empty"),
        (json!({"type": "array"}), "S.properties[a].items: Required value: must be specified"),
        (
            json!({"type": "foo"}),
            "S.properties[a].type: Unsupported value: \"foo\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
        ),
        (
            json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            "S.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            json!({"type": "integer", "default": "x"}),
            "S.properties[a].default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "object", "default": {"zz": 1}, "properties": {"y": {"type": "string"}}}),
            "S.properties[a].default: Invalid value: {\"zz\":1}: must not have unknown fields",
        ),
    ] {
        assert_eq!(of_field(&field), [expected]);
    }
    assert_eq!(
        of_field(
            &json!({"type": "string", "allOf": [{"type": "string", "description": "x", "default": "y"}]})
        ),
        [
            "S.properties[a].allOf[0].default: Forbidden: must not be set to be structural",
            "S.properties[a].allOf[0].description: Forbidden: must not be set to be structural",
            "S.properties[a].allOf[0].type: Forbidden: must not be set to be structural",
        ]
    );
}

#[test]
fn keys_of_map_lists_must_be_required_or_have_defaults() {
    let list = |more: Value| {
        let mut list = json!({"type": "array", "x-kubernetes-list-type": "map",
            "items": {"type": "object", "properties": {"k": {"type": "string", "nullable": true}}}});
        list.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        of_field(&list)
    };
    assert_eq!(
        list(json!({})),
        [
            "S.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"
        ]
    );
    assert_eq!(
        list(json!({"x-kubernetes-list-map-keys": ["k", "z"]})),
        [
            "S.properties[a].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            "S.properties[a].items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            "S.properties[a].x-kubernetes-list-map-keys: Invalid value: [\"k\",\"z\"]: entries must all be names of item properties",
        ]
    );
}

#[test]
fn features_of_a_version_are_checked() {
    let with = |key: &str, value: Value| {
        let mut crd =
            crd(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "o": {"type": "object"}, "x": {"type": "string"}}}}}));
        crd["spec"]["versions"][0][key] = value;
        errors(crd)
    };
    let scale = json!({"scale": {"specReplicasPath": "spec.r", "statusReplicasPath": ".foo", "labelSelectorPath": ".bar"}});
    assert_eq!(
        with("subresources", scale),
        [
            "spec.subresources.scale.specReplicasPath: Invalid value: \"spec.r\": should be a json path under .spec.",
            "spec.subresources.scale.statusReplicasPath: Invalid value: \".foo\": should be a json path under .status.",
            "spec.subresources.scale.labelSelectorPath: Invalid value: \".bar\": should be a json path under .spec. or .status.",
        ]
    );
    let fields = json!([{"jsonPath": ".spec.o"}, {"jsonPath": ".spec.x"}, {"jsonPath": ".spec.x"}, {"jsonPath": ".spec.z"}]);
    assert_eq!(
        with("selectableFields", fields),
        [
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.o\": must point to a field of type string, boolean or integer outside of metadata",
            "spec.selectableFields[2].jsonPath: Duplicate value: \".spec.x\"",
            "spec.selectableFields[3].jsonPath: Invalid value: \".spec.z\": must point to a field of type string, boolean or integer outside of metadata",
        ]
    );
    assert_eq!(
        with("additionalPrinterColumns", json!([{"name": "A", "type": "foo", "jsonPath": "x"}])),
        [
            "spec.additionalPrinterColumns[0].type: Invalid value: \"foo\": must be one of boolean,date,integer,number,string",
            "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"x\": must be a simple json path starting with .",
        ]
    );
}

#[test]
fn stored_version_cannot_be_removed() {
    let before = filled(crd(&json!({"type": "object"})));
    let mut after = before.clone();
    after["spec"]["versions"][0]["name"] = json!("v2");
    defaults::add_stored_version(&mut after);
    assert_eq!(after["status"]["storedVersions"], json!(["v1", "v2"]));
    let errors: Vec<String> = update(&before, &after).iter().map(Cause::line).collect();
    assert_eq!(
        errors,
        [
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; a stored version must remain in spec.versions"
        ]
    );
}

#[cfg(not(feature = "cel"))]
#[test]
fn rules_are_refused_without_the_feature() {
    let rules = serde_json::json!([{"rule": "self.a > 1"}]);
    let schema = serde_json::json!({"type": "object", "x-kubernetes-validations": rules});
    let causes = super::schema::check(Some(&schema), "schema", false);
    assert!(causes.iter().any(|cause| cause.line().contains("without its feature `cel`")), "{causes:?}");
}
