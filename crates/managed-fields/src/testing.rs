//! The merge rules of Pods and Deployments for tests. They equal a part of the rules of kube-apiserver.

use std::sync::Arc;

use serde_json::json;

use crate::schema::{ListType, MapKey, PatchStrategy, Schema};

fn object<const N: usize>(fields: [(&str, Schema); N]) -> Schema {
    Schema { fields: fields.map(|(name, rules)| (name.into(), Arc::new(rules))).into(), ..Schema::default() }
}

fn keyed(patch: &str, keys: &[(&str, Option<serde_json::Value>)], item: Schema) -> Schema {
    let keys = keys.iter().map(|(name, default)| MapKey { name: (*name).into(), default: default.clone() });
    Schema {
        list: ListType::Map(keys.collect()),
        patch: PatchStrategy::MergeByKey(patch.into()),
        items: Some(Arc::new(item)),
        ..Schema::default()
    }
}

fn always(rules: Schema) -> Schema {
    Schema { defaults_to_empty: true, ..rules }
}

/// The rules of a Pod.
pub(crate) fn pod() -> Schema {
    let ports = keyed(
        "containerPort",
        &[("containerPort", Some(json!(0))), ("protocol", Some(json!("TCP")))],
        Schema::default(),
    );
    let container = object([("env", keyed("name", &[("name", None)], Schema::default())), ("ports", ports)]);
    let containers = always(keyed("name", &[("name", None)], container));
    let atomic = Schema { atomic: true, ..Schema::default() };
    let spec = object([("containers", containers), ("nodeSelector", atomic)]);
    let metadata =
        Schema { fields: Schema::any_resource().field("metadata").fields.clone(), ..Schema::default() };
    object([("metadata", always(metadata)), ("spec", always(spec)), ("status", always(Schema::default()))])
}

/// The rules of a Deployment.
pub(crate) fn deployment() -> Schema {
    let pod = Arc::new(pod());
    let below = |fields: [(&str, Arc<Schema>); 1]| {
        Arc::new(Schema {
            fields: fields.map(|(name, rules)| (name.into(), rules)).into(),
            ..Schema::default()
        })
    };
    let spec = below([("template", pod.clone())]);
    let mut rules = Schema { fields: pod.fields.clone(), ..Schema::default() };
    rules.fields.insert("spec".into(), spec);
    rules
}
