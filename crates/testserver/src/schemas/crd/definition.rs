//! The kinds of a CRD: one for each version.

use std::sync::{Arc, LazyLock};

use kube_managed_fields::Schema as Merging;
use serde_json::Value;

use crate::schemas::crd::schema::Schema;
use crate::schemas::crd::schema::node::{flag, text as name, texts};
use crate::schemas::crd::status;
use crate::schemas::kinds::kind::{Field, Generation, Kind, NAMES, Rules, ScalePaths, Schemas};
use crate::wire::names::NameRule;
use crate::wire::object::Object;

/// Returns the text at a pointer, or an empty text.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

pub(crate) fn versions(crd: &Object) -> impl Iterator<Item = &Value> {
    let versions = crd.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
    versions.into_iter().flatten()
}

/// Returns the version in which objects are stored.
pub(crate) fn storage_version(crd: &Object) -> Option<&Value> {
    versions(crd).find(|version| flag(version, "storage"))
}

#[derive(Debug)]
pub(crate) struct Defined {
    pub kind: Kind,
    pub served: bool,
    pub storage: bool,
}

/// Returns the kinds of a CRD, with its accepted names.
pub(crate) fn kinds(crd: &Object) -> Vec<Defined> {
    let schema = |version: &Value| {
        version.pointer("/schema/openAPIV3Schema").filter(|schema| schema.is_object()).cloned()
    };
    let storage =
        storage_version(crd).and_then(schema).map(|root| (root.clone(), Arc::new(Schema::new(root))));
    let stored_as = storage_version(crd).map(|version| name(version, "name")).unwrap_or("").to_owned();
    let conversion = crd.get("spec").and_then(|spec| spec.get("conversion"));
    let webhook = conversion.and_then(|conversion| conversion.pointer("/webhook/clientConfig"));
    let webhook = webhook.cloned().map(Arc::new);
    let define = |version| {
        let own = schema(version);
        let schemas = own.zip(storage.as_ref()).map(|(own, (root, storage))| Schemas {
            // Versions with equal schemas share the compiled schema.
            own: if own == *root { storage.clone() } else { Arc::new(Schema::new(own)) },
            storage: storage.clone(),
            webhook: webhook.clone(),
        });
        Defined {
            kind: kind(crd, version, &stored_as, schemas),
            served: flag(version, "served"),
            storage: flag(version, "storage"),
        }
    };
    versions(crd).map(define).collect()
}

fn kind(crd: &Object, version: &Value, stored_as: &str, schemas: Option<Schemas>) -> Kind {
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    let names = status::accepted(crd);
    let list = |key| texts(&names, key).map(Into::into).collect();
    let status = version.pointer("/subresources/status").is_some_and(|status| !status.is_null());
    let namespaced = name(spec, "scope") == "Namespaced";
    let open_api = version.pointer("/schema/openAPIV3Schema");
    let merging = open_api.map_or_else(Merging::any_resource, Merging::from_crd);
    Kind {
        group: name(spec, "group").into(),
        version: name(version, "name").into(),
        storage_version: stored_as.into(),
        plural: text(spec, "/names/plural").into(),
        singular: name(&names, "singular").into(),
        kind: name(&names, "kind").into(),
        list_kind: name(&names, "listKind").into(),
        short_names: list("shortNames"),
        categories: list("categories"),
        rules: Rules {
            namespaced,
            custom: true,
            status,
            generation: if status { Generation::Content } else { Generation::Everything },
            names: NameRule::Subdomain,
            unconditional_update: false,
            create_on_update: false,
            returns_deleted: false,
        },
        fields: fields(crd, version, namespaced),
        scale: version.pointer("/subresources/scale").filter(|scale| !scale.is_null()).map(scale),
        merging: LazyLock::new(Box::new(move || Arc::new(merging))),
        schemas,
        columns: Some(Arc::new(crate::schemas::tables::custom_columns(version))),
    }
}

/// Returns the selectable fields of all versions, in the same order for each version, because objects
/// are stored once. Only the fields of this version are marked as selectable.
fn fields(crd: &Object, version: &Value, namespaced: bool) -> Vec<Field> {
    let paths = |version| selectable(version).map(|path| path.trim_start_matches('.').to_owned());
    let own: Vec<String> = paths(version).collect();
    let mut fields: Vec<Field> =
        NAMES[..if namespaced { 2 } else { 1 }].iter().map(|n| Field::at_path(n)).collect();
    for path in versions(crd).flat_map(paths) {
        if fields.iter().all(|field| field.name != path) {
            let selectable = own.contains(&path);
            fields.push(Field { selectable, ..Field::at_path(&path) });
        }
    }
    fields
}

fn selectable(version: &Value) -> impl Iterator<Item = &str> {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    fields.into_iter().flatten().map(|field| name(field, "jsonPath"))
}

fn scale(scale: &Value) -> ScalePaths {
    let selector = Some(name(scale, "labelSelectorPath")).filter(|path| !path.is_empty());
    ScalePaths {
        spec_replicas: name(scale, "specReplicasPath").into(),
        status_replicas: name(scale, "statusReplicasPath").into(),
        label_selector: selector.map(Into::into),
    }
}
