//! The paths of resources and their operations.

use serde_json::{Map, Value, json};

use super::models::{GROUP_VERSION_KIND, Models, Version, group_version_kind};
use crate::http::discovery::catalog::{Part, parts, verbs};
use crate::schemas::kinds::kind::{Kind, group_version};

const MEDIA_TYPES: [&str; 2] = ["application/json", "application/yaml"];

/// The media types of patches. Custom resources do not support the last one.
const PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
];

/// The query parameters, separated by spaces.
const SELECT: &str = "continue fieldSelector labelSelector limit resourceVersion resourceVersionMatch \
                      sendInitialEvents timeoutSeconds";
const LIST: &str = "allowWatchBookmarks watch";
const WRITE: &str = "dryRun fieldManager fieldValidation";
const DELETE: &str = "dryRun gracePeriodSeconds orphanDependents propagationPolicy";

pub(super) struct Schemas {
    pub object: Value,
    pub list: Value,
}

pub(super) fn add(paths: &mut Map<String, Value>, models: &mut Models, kind: &Kind, schemas: &Schemas) {
    let root = if kind.group.is_empty() { "/api" } else { "/apis" };
    let root = format!("{root}/{}", group_version(&kind.group, &kind.version));
    let scope = if kind.rules.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{scope}/{}", kind.plural);
    let verbs = verbs(kind);
    let mut add = |path: String, models: &mut Models, verbs: &[&str], part: Option<&Part>| {
        let operations = verbs.iter().filter_map(|verb| operation(models, kind, schemas, verb, part));
        let mut item: Map<String, Value> = operations.collect();
        let names = ["name", "namespace"].into_iter().filter(|name| path.contains(&format!("{{{name}}}")));
        let parameters: Vec<Value> = names.map(|name| parameter(models.version, name, "path")).collect();
        if !parameters.is_empty() {
            item.insert("parameters".into(), parameters.into());
        }
        paths.insert(path, item.into());
    };
    let only = |wanted: &[&str]| -> Vec<&str> {
        verbs.iter().copied().filter(|verb| wanted.contains(verb)).collect()
    };
    if kind.rules.namespaced && verbs.contains(&"list") {
        add(format!("{root}/{}", kind.plural), models, &["list"], None);
    }
    add(collection.clone(), models, &only(&["list", "create", "deletecollection"]), None);
    let on_object = only(&["get", "update", "patch", "delete"]);
    if on_object.is_empty() {
        return;
    }
    add(format!("{collection}/{{name}}"), models, &on_object, None);
    for part in parts(kind) {
        add(format!("{collection}/{{name}}/{}", part.name), models, part.verbs, Some(&part));
    }
}

/// Returns the HTTP method and the operation of a verb.
fn operation(
    models: &mut Models,
    kind: &Kind,
    schemas: &Schemas,
    verb: &str,
    part: Option<&Part>,
) -> Option<(String, Value)> {
    let (method, action) = match verb {
        "get" | "list" => ("get", verb),
        "create" => ("post", "post"),
        "update" => ("put", "put"),
        "patch" => ("patch", "patch"),
        "delete" | "deletecollection" => ("delete", verb),
        _ => return None,
    };
    let own = (&*kind.group, &*kind.version, &*kind.kind);
    let other = part.and_then(|part| part.kind);
    let object = match other {
        Some((group, version, name)) => models.built_in(&group_version(group, version), name),
        None => schemas.object.clone(),
    };
    let (group, version, name) = other.filter(|_| !kind.rules.custom).unwrap_or(own);
    let body = match verb {
        "create" | "update" => Some(object.clone()),
        "patch" => Some(models.meta("Patch")),
        "delete" | "deletecollection" => Some(models.built_in("v1", "DeleteOptions")),
        _ => None,
    };
    let response = match verb {
        "list" => schemas.list.clone(),
        "deletecollection" => models.meta("Status"),
        "delete" if !kind.rules.returns_deleted => models.meta("Status"),
        _ => object,
    };
    let groups: &[&str] = match verb {
        "list" => &[SELECT, LIST],
        "deletecollection" => &[SELECT, DELETE],
        "delete" => &[DELETE],
        "create" | "update" => &[WRITE],
        "patch" => &[WRITE, "force"],
        _ => &[],
    };
    let parameters: Vec<&str> = groups.iter().flat_map(|group| group.split(' ')).collect();
    let consumes = match verb {
        "patch" if kind.rules.custom => &PATCH_TYPES[..3],
        "patch" => &PATCH_TYPES[..],
        _ if kind.rules.custom => &MEDIA_TYPES[..],
        _ => &["*/*"],
    };
    let mut operation = if models.version == Version::V2 {
        operation_v2(body, &response, &parameters, consumes)
    } else {
        operation_v3(body, &response, &parameters, consumes)
    };
    operation["x-kubernetes-action"] = action.into();
    operation[GROUP_VERSION_KIND] = group_version_kind(group, version, name);
    Some((method.into(), operation))
}

fn operation_v2(body: Option<Value>, response: &Value, parameters: &[&str], consumes: &[&str]) -> Value {
    let body = body.map(|schema| json!({"name": "body", "in": "body", "required": true, "schema": schema}));
    let parameters = parameters.iter().map(|name| parameter(Version::V2, name, "query"));
    let parameters: Vec<Value> = body.into_iter().chain(parameters).collect();
    json!({"consumes": consumes, "produces": MEDIA_TYPES, "parameters": parameters,
           "responses": {"200": {"description": "OK", "schema": response}}})
}

fn operation_v3(body: Option<Value>, response: &Value, parameters: &[&str], consumes: &[&str]) -> Value {
    let content = |types: &[&str], schema: &Value| -> Map<String, Value> {
        types.iter().map(|media| ((*media).to_owned(), json!({"schema": schema}))).collect()
    };
    let parameters: Vec<Value> =
        parameters.iter().map(|name| parameter(Version::V3, name, "query")).collect();
    let response = content(&MEDIA_TYPES, response);
    let mut operation =
        json!({"parameters": parameters, "responses": {"200": {"description": "OK", "content": response}}});
    if let Some(schema) = body {
        operation["requestBody"] = json!({"content": content(consumes, &schema), "required": true});
    }
    operation
}

fn parameter(version: Version, name: &str, place: &str) -> Value {
    let kind = match name {
        "allowWatchBookmarks" | "force" | "orphanDependents" | "sendInitialEvents" | "watch" => "boolean",
        "gracePeriodSeconds" | "limit" | "timeoutSeconds" => "integer",
        _ => "string",
    };
    let schema = json!({"type": kind, "uniqueItems": true});
    let mut parameter = if version == Version::V2 { schema } else { json!({"schema": schema}) };
    (parameter["name"], parameter["in"]) = (name.into(), place.into());
    if place == "path" {
        parameter["required"] = true.into();
    }
    parameter
}
