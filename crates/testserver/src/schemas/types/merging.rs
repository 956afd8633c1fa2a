//! The merge rules of the built-in kinds, from the table of types. A test compares the table with the
//! OpenAPI document of the real server.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use kube_managed_fields::{ListType, MapKey, PatchStrategy, Schema};
use parking_lot::Mutex;

use crate::schemas::types::{Base, Field, Message, Shape, Types};

/// The rules of the kinds that were built, by the places of their messages.
type Built = HashMap<usize, Arc<Schema>>;

static BUILT: LazyLock<Mutex<Built>> = LazyLock::new(Mutex::default);

pub(crate) fn schema(api_version: &str, kind: &str) -> Arc<Schema> {
    let place = Types::get().kind(api_version, kind);
    place.map(|place| build(place, &mut BUILT.lock())).unwrap_or_default()
}

/// Builds the rules of a message. Fields without rules are omitted.
fn build(place: usize, built: &mut Built) -> Arc<Schema> {
    if let Some(schema) = built.get(&place) {
        return schema.clone();
    }
    // Ends the recursion of a message that contains itself.
    built.insert(place, Arc::default());
    let fields = Types::get().message(place).into_iter().flat_map(Message::json_fields);
    let fields = fields.filter_map(|field| Some((field.name.into(), Arc::new(rules(field, built)?))));
    let schema = Arc::new(Schema { fields: fields.collect(), ..Schema::default() });
    built.insert(place, schema.clone());
    schema
}

/// Returns the rules of a field, or `None` if it has no rules.
fn rules(field: &Field, built: &mut Built) -> Option<Schema> {
    let types = Types::get();
    let message = if let Base::Message(place) = field.base { types.message(place) } else { None };
    let is_object = matches!((field.base, field.go_base), (Base::Json, None));
    let is_atomic = is_object || message.is_some_and(|message| message.facts.is_atomic());
    let mut inner = |base| match base {
        Base::Message(place) if !is_atomic => build(place, built),
        _ => Arc::new(Schema { atomic: is_atomic, ..Schema::default() }),
    };
    let mut schema = Schema::default();
    match field.shape {
        Shape::List => {
            schema.list = list(field, message);
            schema.patch = patch(field);
            let has_items =
                schema.list != ListType::Atomic || matches!(schema.patch, PatchStrategy::MergeByKey(_));
            let keyed = message.is_some() && has_items;
            schema.items = keyed.then(|| inner(field.base)).filter(|items| !is_plain(items));
        }
        Shape::Map => schema.atomic = field.facts.is_atomic(),
        Shape::Value | Shape::Pointer | Shape::Inline => {
            schema.atomic = field.facts.is_atomic() || is_atomic;
            if !schema.atomic {
                schema.fields = inner(field.base).fields.clone();
            }
        }
    }
    if field.facts.patch == Some(("replace", "")) {
        schema.patch = PatchStrategy::Replace;
    }
    schema.defaults_to_empty = match field.shape {
        Shape::List | Shape::Map => field.facts.required,
        _ => types.default_of(field).is_some_and(|default| default.is_object()),
    };
    (!is_plain(&schema)).then_some(schema)
}

fn is_plain(schema: &Schema) -> bool {
    let Schema { atomic, defaults_to_empty, list, patch, fields, items, .. } = schema;
    !atomic
        && !defaults_to_empty
        && *list == ListType::Atomic
        && *patch == PatchStrategy::Default
        && fields.is_empty()
        && items.is_none()
}

fn list(field: &Field, items: Option<&Message>) -> ListType {
    let key = |name: &'static str| {
        let known = items.and_then(|items| items.known(name));
        let default = known.and_then(|known| Types::get().default_of(known));
        MapKey { name: name.into(), default }
    };
    match field.facts.list {
        Some(("set", _)) => ListType::Set,
        Some(("map", keys)) => ListType::Map(keys.split(',').map(key).collect()),
        _ => ListType::Atomic,
    }
}

/// Returns the patch strategy of a list. Patches replace a list with separate owners, unless it has a
/// merge strategy.
fn patch(field: &Field) -> PatchStrategy {
    match (field.facts.patch, field.facts.list) {
        (Some(("merge" | "merge,retainKeys", "")), _) => PatchStrategy::Merge,
        (Some(("merge" | "merge,retainKeys", key)), _) => PatchStrategy::MergeByKey(key.into()),
        (_, Some(("set" | "map", _))) => PatchStrategy::Replace,
        _ => PatchStrategy::Default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn container_key_is_name_and_port_keys_are_number_and_protocol() {
        let pod = schema("v1", "Pod");
        let containers = pod.field("spec").field("containers");
        assert_eq!(containers.patch, PatchStrategy::MergeByKey("name".into()));
        let ports = containers.item().field("ports");
        let key = |name: &str, default: Value| MapKey { name: name.into(), default: Some(default) };
        assert_eq!(
            ports.list,
            ListType::Map(vec![key("containerPort", 0.into()), key("protocol", "TCP".into())])
        );
        assert_eq!(ports.patch, PatchStrategy::MergeByKey("containerPort".into()));
        assert!(pod.field("spec").field("nodeSelector").atomic);
        assert_eq!(pod.field("metadata").field("finalizers").list, ListType::Set);
    }

    #[test]
    fn lists_without_merge_strategy_are_replaced_by_patches() {
        let pod = schema("v1", "Pod");
        let claims = pod.field("spec").field("resources").field("claims");
        assert_eq!((&claims.patch, claims.list == ListType::Atomic), (&PatchStrategy::Replace, false));
        let host_ips = pod.field("status").field("hostIPs");
        assert_eq!(
            (&host_ips.patch, &host_ips.list),
            (&PatchStrategy::MergeByKey("ip".into()), &ListType::Atomic)
        );
        assert_eq!(pod.field("metadata").field("finalizers").patch, PatchStrategy::Merge);
        assert!(pod.field("metadata").field("ownerReferences").item().atomic);
        let budget = schema("policy/v1", "PodDisruptionBudget");
        assert_eq!(budget.field("spec").field("selector").patch, PatchStrategy::Replace);
        assert!(schema("apps/v1", "ControllerRevision").field("data").atomic);
        assert!(
            !pod.defaults_to_empty
                && pod.field("spec").defaults_to_empty
                && pod.field("spec").field("containers").defaults_to_empty
        );
    }

    #[test]
    fn metadata_of_custom_resources_has_the_rules_of_built_in_kinds() {
        let (custom, built_in) = (Schema::any_resource(), schema("v1", "ConfigMap"));
        let (custom, built_in) = (custom.field("metadata"), built_in.field("metadata"));
        assert_eq!(format!("{:?}", custom.fields), format!("{:?}", built_in.fields));
    }

    #[test]
    fn deployments_contain_pod_rules_and_both_event_groups_have_rules() {
        let deployment = schema("apps/v1", "Deployment");
        let volumes = deployment.field("spec").field("template").field("spec").field("volumes");
        assert!(volumes.patch == PatchStrategy::MergeByKey("name".into()));
        assert!(schema("v1", "Event").field("involvedObject").atomic);
        assert!(schema("events.k8s.io/v1", "Event").field("regarding").atomic);
    }
}
