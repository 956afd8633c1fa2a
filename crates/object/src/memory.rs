//! `ObjectMemory`: the memory of cached objects, counted from their parts.

use std::{any::Any, iter::Sum};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};
use kube_core::{DynamicObject, Resource};
use serde_json::Value;

/// The size of the two reference counts of an `Arc`, in bytes.
pub(crate) const ARC_BYTES: usize = 16;

/// Returns the size of the allocation of an `Arc<str>`.
pub(crate) fn shared_text_bytes(text: &str) -> usize {
    (ARC_BYTES + text.len()).next_multiple_of(align_of::<usize>())
}

/// The number of entries in a node of a `BTreeMap`.
const NODE_ENTRIES: usize = 11;

/// The number of entries of a node after a split. If the entries are inserted in their order, each full node
/// is split.
const SPLIT_ENTRIES: usize = 7;

/// The size of the parent pointer and the counters of a node of a `BTreeMap`, in bytes.
const NODE_BYTES: usize = 16;

/// Contains the counted memory of one or more objects. The memory does not include the overhead of the
/// allocator, for example rounded sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectMemory {
    /// The counted bytes.
    pub bytes: usize,
    /// True if all parts of the objects were counted. If false, `bytes` is a lower bound.
    pub is_complete: bool,
}

impl ObjectMemory {
    /// Creates the memory of objects whose parts were all counted.
    pub fn complete(bytes: usize) -> Self {
        Self { bytes, is_complete: true }
    }

    /// Creates a lower bound, for objects with further parts that were not counted.
    pub fn at_least(bytes: usize) -> Self {
        Self { bytes, is_complete: false }
    }
}

impl Sum for ObjectMemory {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::complete(0), |sum, object| Self {
            bytes: sum.bytes + object.bytes,
            is_complete: sum.is_complete && object.is_complete,
        })
    }
}

/// Counts the memory of a resource. The count contains the struct and the metadata. It contains the other
/// fields only for a `DynamicObject`, and not for typed objects.
pub(crate) fn resource_memory<K: Resource + 'static>(resource: &K) -> ObjectMemory {
    let bytes = size_of::<K>() + metadata_bytes(resource.meta());
    if let Some(dynamic) = (resource as &dyn Any).downcast_ref::<DynamicObject>() {
        let types = dynamic.types.as_ref();
        let types = types.map_or(0, |types| types.api_version.capacity() + types.kind.capacity());
        return ObjectMemory::complete(bytes + types + json_bytes(&dynamic.data));
    }
    // The only other field of a `PartialObjectMeta` is the type.
    ObjectMemory { bytes, is_complete: K::metadata_api() }
}

fn metadata_bytes(meta: &ObjectMeta) -> usize {
    let texts = [
        &meta.generate_name,
        &meta.name,
        &meta.namespace,
        &meta.resource_version,
        &meta.self_link,
        &meta.uid,
    ];
    let maps = [&meta.annotations, &meta.labels].into_iter().flatten();
    let maps = maps.map(|map| {
        let texts: usize = map.iter().map(|(name, value)| name.capacity() + value.capacity()).sum();
        texts + map_bytes::<String, String>(map.len())
    });
    texts.iter().map(|text| option_bytes(text)).sum::<usize>()
        + maps.sum::<usize>()
        + vec_bytes(&meta.finalizers, String::capacity)
        + vec_bytes(&meta.owner_references, owner_bytes)
        + vec_bytes(&meta.managed_fields, manager_bytes)
}

fn owner_bytes(owner: &OwnerReference) -> usize {
    [&owner.api_version, &owner.kind, &owner.name, &owner.uid].iter().map(|text| text.capacity()).sum()
}

fn manager_bytes(entry: &ManagedFieldsEntry) -> usize {
    let texts =
        [&entry.api_version, &entry.fields_type, &entry.manager, &entry.operation, &entry.subresource];
    let fields = entry.fields_v1.as_ref().map_or(0, |fields| json_bytes(&fields.0));
    texts.iter().map(|text| option_bytes(text)).sum::<usize>() + fields
}

fn option_bytes(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::capacity)
}

fn vec_bytes<T>(items: &Option<Vec<T>>, heap: impl Fn(&T) -> usize) -> usize {
    let Some(items) = items else { return 0 };
    items.capacity() * size_of::<T>() + items.iter().map(heap).sum::<usize>()
}

/// Returns the size of the nodes of a `BTreeMap` whose entries were inserted in their order. Each level
/// contains the entries that separate the nodes of the level below.
fn map_bytes<K, V>(entries: usize) -> usize {
    let leaf = NODE_ENTRIES * (size_of::<K>() + size_of::<V>()) + NODE_BYTES;
    let inner = leaf + (NODE_ENTRIES + 1) * size_of::<usize>();
    let mut nodes = nodes(entries);
    let mut bytes = nodes * leaf;
    while nodes > 1 {
        nodes = self::nodes(nodes - 1);
        bytes += nodes * inner;
    }
    bytes
}

/// Returns the number of nodes of a level with this number of entries.
fn nodes(entries: usize) -> usize {
    match entries {
        0 => 0,
        1..=NODE_ENTRIES => 1,
        more => 1 + (more - NODE_ENTRIES).div_ceil(SPLIT_ENTRIES),
    }
}

/// Returns the bytes that a JSON value has allocated.
fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.capacity(),
        Value::Array(items) => {
            items.capacity() * size_of::<Value>() + items.iter().map(json_bytes).sum::<usize>()
        }
        Value::Object(fields) => {
            let heap = |(name, value): (&String, &Value)| name.capacity() + json_bytes(value);
            map_bytes::<String, Value>(fields.len()) + fields.iter().map(heap).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_core::PartialObjectMeta;
    use serde_json::{from_value, json};

    use super::*;
    use crate::{Entry, Object as _};

    fn metadata() -> Value {
        json!({"name": "web", "labels": {"app": "shop"}, "finalizers": ["example.com/a"]})
    }

    #[test]
    fn metadata_is_counted_completely() {
        let object: PartialObjectMeta<ConfigMap> = from_value(json!({"metadata": metadata()})).unwrap();
        let memory = object.memory();
        let heap = memory.bytes - size_of::<PartialObjectMeta<ConfigMap>>();
        let finalizers = object.metadata.finalizers.as_ref().map_or(0, Vec::capacity);
        let map = 11 * 2 * size_of::<String>() + 16;
        assert_eq!(
            heap,
            "web".len() + "appshop".len() + map + "example.com/a".len() + finalizers * size_of::<String>()
        );
        assert!(memory.is_complete);
    }

    #[test]
    fn typed_object_needs_at_least_its_metadata() {
        let object: ConfigMap = from_value(json!({"metadata": metadata(), "data": {"a": "b"}})).unwrap();
        let memory = object.memory();
        assert!(!memory.is_complete && memory.bytes > size_of::<ConfigMap>() + size_of::<String>());
        let sum: ObjectMemory = [memory, ObjectMemory::complete(1)].into_iter().sum();
        assert_eq!(sum, ObjectMemory::at_least(memory.bytes + 1));
    }

    #[test]
    fn fields_of_dynamic_object_are_counted() {
        let memory = |data: Value| {
            let object: DynamicObject = from_value(json!({"metadata": {"name": "a"}, "spec": data})).unwrap();
            assert!(object.memory().is_complete);
            object.memory().bytes
        };
        assert_eq!(memory(json!("x".repeat(1000))) - memory(json!("")), 1000);
        let many: Value = (0..100).map(|number| (format!("k{number:02}"), json!(number))).collect();
        assert!(memory(many) > memory(json!({})) + 100 * (size_of::<String>() + size_of::<Value>()));
    }

    #[test]
    fn entry_contains_its_identity() {
        let object: ConfigMap =
            from_value(json!({"metadata": {"name": "web", "uid": "not a UUID"}})).unwrap();
        let bytes = object.memory().bytes;
        let entry = Entry::from_object(object);
        let texts =
            shared_text_bytes("web") + shared_text_bytes("not a UUID") + ARC_BYTES + size_of::<String>();
        assert_eq!(entry.memory().bytes, bytes + size_of::<Entry<ConfigMap>>() + ARC_BYTES + texts);
    }
}
