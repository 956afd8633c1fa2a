//! `Object::memory` equals the bytes that the allocator has handed out.

#![allow(clippy::unwrap_used)]

use std::{alloc::System, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube_compact::{Lazy, Projection};
use kube_core::{DynamicObject, PartialObjectMeta, metadata::TypeMeta};
use kube_object::{Cached, Decode as _, DecodeContext, Entry, Outline, RawObject};
use serde::Deserialize;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const OBJECTS: usize = 200;

/// A projection without allocated fields.
#[derive(Deserialize)]
#[expect(dead_code, reason = "only the memory of the fields is used")]
struct Priority {
    spec: PrioritySpec,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only the memory of the fields is used")]
struct PrioritySpec {
    priority: Option<i32>,
}

fn json(number: usize) -> String {
    let labels: String = (0..number % 30).map(|label| format!(r#""label-{label:02}":"value","#)).collect();
    format!(
        r#"{{"metadata":{{"name":"web-{number}","namespace":"shop","uid":"{number:08x}-0000-4000-8000-000000000000",
        "resourceVersion":"{number}1","labels":{{{labels}"app":"web"}},"finalizers":["example.com/a"],
        "ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u"}}]}},
        "spec":{{"priority":7,"containers":[{{"name":"app","image":"{}"}}]}}}}"#,
        "x".repeat(number * 3)
    )
}

/// Decodes objects. Returns the allocated bytes and the counted bytes, without the vector of the entries.
fn measured<T: Cached>(objects: usize) -> (usize, usize, bool) {
    let texts: Vec<String> = (0..objects).map(json).collect();
    let is_metadata = <T::Resource as kube_core::Resource>::metadata_api();
    let kind = TypeMeta { api_version: "v1".into(), kind: "Pod".into() };
    let context = DecodeContext { metadata_only: is_metadata, ..DecodeContext::new(kind) };
    let decoder = T::Decoder::default();
    let mut entries: Vec<Entry<T>> = Vec::with_capacity(objects);
    let region = Region::new(ALLOCATOR);
    for text in &texts {
        let raw = RawObject::new(Outline::scan(text.as_bytes()), &context).unwrap();
        let object = Arc::new(decoder.decode(&raw).unwrap());
        entries.push(Entry::new(raw.id, object));
    }
    // The decoder of `Compressed` holds samples for its dictionary.
    drop(decoder);
    let change = region.change();
    let allocated = change.bytes_allocated - change.bytes_deallocated;
    let memory: kube_object::ObjectMemory = entries.iter().map(Entry::memory).sum();
    (allocated, memory.bytes - objects * size_of::<Entry<T>>(), memory.is_complete)
}

fn assert_counted<T: Cached>() {
    // The difference does not contain values that all objects share, for example a dictionary.
    let (few_allocated, few_counted, _) = measured::<T>(OBJECTS);
    let (many_allocated, many_counted, is_complete) = measured::<T>(2 * OBJECTS);
    let (allocated, counted) = (many_allocated - few_allocated, many_counted - few_counted);
    let name = std::any::type_name::<T>();
    let ratio = counted as f64 / allocated as f64;
    println!("{name}: {counted} of {allocated} bytes");
    assert!(is_complete && (0.98..=1.02).contains(&ratio), "{name}: {counted} of {allocated} bytes");
}

#[test]
fn counted_memory_equals_allocated_memory() {
    assert_counted::<PartialObjectMeta<Pod>>();
    assert_counted::<Lazy<Pod>>();
    assert_counted::<Projection<Pod, Priority>>();
    assert_counted::<DynamicObject>();
    #[cfg(feature = "compressed")]
    assert_counted::<kube_compact::Compressed<Pod>>();
    let (allocated, counted, is_complete) = measured::<Pod>(OBJECTS);
    assert!(!is_complete && counted < allocated, "{counted} of {allocated} bytes");
}
