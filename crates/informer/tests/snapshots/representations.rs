//! Tests that the restored objects of each representation are equal to the cached objects.

use std::{collections::BTreeMap, fmt::Debug};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, Resource, api::DynamicObject, core::PartialObjectMeta};
use kube_informer::{Cached, Compressed, Informer, Lazy, ListWatch, Persist, Projection};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::life::{Calls, Life, World, delete, put};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Fields {
    data: Option<BTreeMap<String, String>>,
}

/// Returns the state of each object, in the order of keys.
fn states<T: Persist, V>(life: &Life<T>, state: impl Fn(&T) -> V) -> Vec<(String, V)> {
    let snapshot = life.informer.lister().snapshot();
    let mut entries: Vec<_> = snapshot.iter().collect();
    entries.sort_by_key(|entry| entry.key().clone());
    entries.iter().map(|entry| (format!("{:?} {:?}", entry.id, entry.digest), state(entry))).collect()
}

/// Fills the cache of the representation from the server, from a watch, and from a file.
fn assert_restored<T: Persist, V: Debug + PartialEq>(
    informer: impl Fn(&World) -> Informer<T>,
    state: impl Fn(&T) -> V,
) {
    let (life, world) = restored(&informer, &state);
    put(&world.server, "o03", "second");
    life.start();
    life.settle();
    let cold = Life::restore(|| informer(&world), &World::with_objects(0).file(), &Calls::default());
    cold.start();
    cold.settle();
    let values =
        |life: &Life<T>| states(life, &state).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
    assert_eq!(values(&life), values(&cold), "changed objects");
}

/// Restores a cache twice. Returns the last cache, which is not started.
fn restored<T: Persist, V: Debug + PartialEq>(
    informer: impl Fn(&World) -> Informer<T>,
    state: impl Fn(&T) -> V,
) -> (Life<T>, World) {
    let world = World::with_objects(5);
    let odd = json!({"name": "odd", "namespace": "default", "labels": {"zone/a.b": "x_1", "app": ""}, "annotations": {"n": "1\n2\u{e9}\"\\b"}});
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": odd, "data": {"v": "x".repeat(100_000)}});
    world.server.create(&object).unwrap();
    let calls = Calls::default();
    let life = Life::restore(|| informer(&world), &world.file(), &calls);
    life.start();
    life.settle();
    put(&world.server, "o01", "second");
    put(&world.server, "later", "first");
    delete(&world.server, "o02");
    life.settle();
    let expected = states(&life, &state);
    assert_eq!(expected.len(), 6);
    life.stop();
    world.server.journal().clear();

    let life = Life::restore(|| informer(&world), &world.file(), &calls);
    assert_eq!(states(&life, &state), expected, "from the file");
    life.start();
    life.settle();
    assert_eq!(states(&life, &state), expected, "after the verification");
    assert_eq!(world.requests().len(), 2);
    life.stop();
    let life = Life::restore(|| informer(&world), &world.file(), &calls);
    assert_eq!(states(&life, &state), expected, "from a file of a restored cache");
    (life, world)
}

fn api<K>(world: &World) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(Client::new(world.server.service(), "default"), "default")
}

fn built<T: Cached>(world: &World) -> Informer<T>
where
    T::Resource: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    Informer::builder(api::<T::Resource>(world)).build()
}

#[test]
fn typed_objects_are_equal() {
    assert_restored(built::<ConfigMap>, Clone::clone);
}

#[test]
fn lazy_objects_have_equal_bytes() {
    restored(built::<Lazy<ConfigMap>>, |object| {
        let labels: Vec<_> =
            ["app", "zone/a.b"].map(|name| object.labels().get(name).map(str::to_owned)).into();
        (object.json().to_vec(), labels, object.decode().unwrap())
    });
}

#[test]
fn compressed_objects_have_equal_bytes() {
    restored(built::<Compressed<ConfigMap>>, |object| {
        let labels: Vec<_> =
            ["app", "zone/a.b"].map(|name| object.labels().get(name).map(str::to_owned)).into();
        (object.json().unwrap().into_owned(), labels, object.decode().unwrap())
    });
}

#[test]
fn projections_have_equal_fields() {
    assert_restored(built::<Projection<ConfigMap, Fields>>, |object| {
        let labels: Vec<_> =
            ["app", "zone/a.b"].map(|name| object.labels().get(name).map(str::to_owned)).into();
        (serde_json::to_string(&object.fields).unwrap(), labels)
    });
}

#[test]
fn metadata_is_equal() {
    assert_restored(built::<PartialObjectMeta<ConfigMap>>, |object| {
        (object.metadata.clone(), object.types.clone().map(|types| types.kind))
    });
}

#[test]
fn objects_with_managed_fields_are_equal() {
    let kept = |world: &World| Informer::<Lazy<ConfigMap>>::builder(api(world)).keep_managed_fields().build();
    restored(kept, |object| object.json().to_vec());
}

#[test]
fn dynamic_objects_are_equal() {
    let informer = |world: &World| {
        let kind = kube_client::core::ApiResource::erase::<ConfigMap>(&());
        let api: Api<DynamicObject> =
            Api::namespaced_with(Client::new(world.server.service(), "default"), "default", &kind);
        Informer::from_source(ListWatch::<DynamicObject>::dynamic(api, &kind)).build()
    };
    assert_restored(informer, |object| (object.types.clone(), object.metadata.clone(), object.data.clone()));
}

#[test]
fn transformed_objects_are_not_transformed_again() {
    let informer = |world: &World| {
        let transform = |object: &mut ConfigMap| {
            let data = object.data.get_or_insert_default();
            let count = data.get("count").map_or(1, |count| count.len() + 1);
            data.insert("count".to_owned(), "x".repeat(count));
            Ok(())
        };
        Informer::builder(api::<ConfigMap>(world)).transform(transform).build()
    };
    assert_restored(informer, Clone::clone);
}
