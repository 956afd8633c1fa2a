//! Tests that all representations of an object produce equal results in handlers, listers,
//! selectors and indexes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, core::PartialObjectMeta};
use kube_compact::Compressed;
use kube_informer::{Cached, Event, Informer, InformerFactory, Lazy, Object, Projection, ReflectorOptions};
use kube_testserver::Server;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;

/// The fields that the tests use. A projection contains only these.
#[derive(Deserialize)]
struct Shape {
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    shape: Option<String>,
}

/// Returns the shape of an object, if the representation contains it.
trait Shaped: Cached<Resource = ConfigMap> {
    fn shape(&self) -> Option<String>;
}

impl Shaped for ConfigMap {
    fn shape(&self) -> Option<String> {
        self.data.as_ref()?.get("shape").cloned()
    }
}

impl Shaped for Projection<ConfigMap, Shape> {
    fn shape(&self) -> Option<String> {
        self.data.as_ref()?.shape.clone()
    }
}

impl Shaped for Lazy<ConfigMap> {
    fn shape(&self) -> Option<String> {
        let shape = self.get().ok().and_then(|object| Shaped::shape(&*object));
        let part: Option<Shape> = self.fields().ok();
        assert_eq!(part.and_then(|part| part.data?.shape), shape);
        shape
    }
}

impl Shaped for Compressed<ConfigMap> {
    fn shape(&self) -> Option<String> {
        let shape = self.get().ok().and_then(|object| Shaped::shape(&*object));
        let part: Option<Shape> = self.fields().ok();
        assert_eq!(part.and_then(|part| part.data?.shape), shape);
        shape
    }
}

fn config_map(name: &str, shape: &str) -> serde_json::Value {
    let labels = json!({"shape": shape, "of": "tests"});
    let metadata = json!({"name": name, "namespace": "ns", "labels": labels, "managedFields": [
        {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:data": {"f:shape": {}}}, "time": "2026-01-01T00:00:00Z"}
    ]});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"shape": shape, "size": "large"}})
}

fn server(objects: usize) -> Server {
    let server = Server::new();
    server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})).unwrap();
    for number in 0..objects {
        server.create(&config_map(&format!("a{number}"), ["round", "square"][number % 2])).unwrap();
    }
    server
}

fn change(server: &Server, name: &str, shape: &str) {
    let change = json!({"metadata": {"labels": {"shape": shape}}, "data": {"shape": shape}});
    server.patch_untyped("v1", "ConfigMap", Some("ns"), name, &change).unwrap();
}

/// Waits for a condition. The clock is paused, so an idle hour is immediate.
async fn until(reached: impl Fn() -> bool) {
    let reaching = async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3600), reaching).await.expect("the condition is never met");
}

/// Tests all reads of a representation, with plain and streaming lists.
async fn events_and_reads<T: Shaped>() -> Vec<String> {
    let mut events = Vec::new();
    for streaming_lists in [true, false] {
        events.push(events_and_reads_with::<T>(streaming_lists).await);
    }
    assert_eq!(events[0], events[1]);
    events.remove(0)
}

async fn events_and_reads_with<T: Shaped>(streaming_lists: bool) -> Vec<String> {
    let server = server(4);
    let factory = InformerFactory::new(Client::new(server.service(), "default"))
        .reflector_options(ReflectorOptions { streaming_lists, ..ReflectorOptions::default() });
    let informer = factory.informer::<T>().unwrap();
    let by_shape = informer.add_index("shape", |object: &T| object.shape()).unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let written = Arc::clone(&lines);
    let _registration = informer.on_event(move |event: &Event<T>| {
        let object = event.entry();
        assert_eq!(Object::id(&**object).key, event.key().as_ref());
        assert_eq!(object.label("shape").map(str::to_owned), object.shape());
        assert_eq!((object.label("of"), object.label("absent")), (Some("tests"), None));
        written.lock().push(format!("{} {}", event.key(), object.shape().unwrap_or_default()));
    });
    factory.start();
    factory.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    change(&server, "a0", "flat");
    server.delete_untyped("v1", "ConfigMap", Some("ns"), "a1").unwrap();
    until(|| lines.lock().len() == 6).await;

    let lister = informer.lister();
    let name_of = |object: Arc<T>| object.id().key.name().to_owned();
    let mut flat: Vec<String> = by_shape.get("flat").into_iter().map(name_of).collect();
    flat.extend(lister.list(&"shape=square".parse().unwrap()).into_iter().map(name_of));
    flat.push(lister.namespace("ns").get("a2").and_then(|object| object.shape()).unwrap());
    factory.shutdown().await;
    let mut events = std::mem::take(&mut *lines.lock());
    events[..4].sort_unstable();
    events.extend(flat);
    events
}

#[tokio::test(start_paused = true)]
async fn representations_return_same_events_and_reads() {
    let events = events_and_reads::<ConfigMap>().await;
    let expected = [
        "ns/a0 round",
        "ns/a1 square",
        "ns/a2 round",
        "ns/a3 square",
        "ns/a0 flat",
        "ns/a1 square",
        "a0",
        "a3",
        "round",
    ];
    assert_eq!(events, expected);
    assert_eq!(events_and_reads::<Projection<ConfigMap, Shape>>().await, expected);
    assert_eq!(events_and_reads::<Lazy<ConfigMap>>().await, expected);
    assert_eq!(events_and_reads::<Compressed<ConfigMap>>().await, expected);
}

/// Objects that a relist finds unchanged are not decoded, in any representation.
#[tokio::test(start_paused = true)]
async fn unchanged_objects_are_not_decoded_again_by_relist() {
    async fn check<T: Shaped>() {
        let server = server(3);
        let decoded = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&decoded);
        let informer = Informer::<T>::builder(Api::all(Client::new(server.service(), "default")))
            .transform(move |_| {
                count.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
            .build();
        informer.start();
        informer.wait_for_sync(Duration::from_secs(60)).await.unwrap();
        let before = informer.lister().snapshot();
        change(&server, "a0", "flat");
        until(|| decoded.load(Ordering::SeqCst) == 4).await;
        informer.relist();
        until(|| informer.status().reflector.relists == 2).await;
        assert_eq!(decoded.load(Ordering::SeqCst), 4);
        let shared = |name: &str| {
            let key = format!("ns/{name}").parse().unwrap();
            let (before, now) = (before.get(&key).unwrap(), informer.lister().get_by_key(&key).unwrap());
            Arc::ptr_eq(&before.object, &now)
        };
        assert_eq!(["a0", "a1", "a2"].map(shared), [false, true, true]);
        informer.stop().await;
    }
    check::<ConfigMap>().await;
    check::<Projection<ConfigMap, Shape>>().await;
    check::<Lazy<ConfigMap>>().await;
    check::<Compressed<ConfigMap>>().await;
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_removed_unless_kept() {
    async fn managers<T: Shaped>(kept: bool, count: impl Fn(&T) -> usize) -> usize {
        let server = server(1);
        let factory = InformerFactory::new(Client::new(server.service(), "default"));
        let factory = if kept { factory.keep_managed_fields::<T>() } else { factory };
        let informer = factory.informer::<T>().unwrap();
        factory.start();
        factory.wait_for_sync(Duration::from_secs(60)).await.unwrap();
        let count = count(&informer.lister().list_all().to_vec()[0]);
        factory.shutdown().await;
        count
    }
    let typed = |object: &ConfigMap| object.metadata.managed_fields.as_ref().map_or(0, Vec::len);
    let lazy = |object: &Lazy<ConfigMap>| typed(&object.get().unwrap());
    let compressed = |object: &Compressed<ConfigMap>| typed(&object.get().unwrap());
    assert_eq!((managers(false, typed).await, managers(true, typed).await), (0, 1));
    assert_eq!((managers(false, lazy).await, managers(true, lazy).await), (0, 1));
    assert_eq!((managers(false, compressed).await, managers(true, compressed).await), (0, 1));
}

/// The first objects train the dictionary. Later objects use the dictionary.
#[tokio::test(start_paused = true)]
async fn compressed_objects_read_back_unchanged_in_less_memory() {
    let server = server(300);
    let informer =
        Informer::<Compressed<ConfigMap>>::builder(Api::all(Client::new(server.service(), "default")))
            .build();
    informer.start();
    informer.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    let objects = informer.lister().list_all();
    assert_eq!(objects.len(), 300);
    for object in &objects {
        let read = object.get().unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some(object.id().key.name()));
        assert_eq!(Shaped::shape(&*read).as_deref(), object.label("shape"));
    }
    let last = objects.iter().find(|object| object.id().key.name() == "a99").unwrap();
    let json = last.json().unwrap().len();
    assert!(last.compressed_bytes() * 3 < json, "{} of {json} bytes", last.compressed_bytes());
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lazy_object_of_wrong_shape_fails_on_access() {
    let server = server(0);
    let mut odd = config_map("odd", "round");
    odd["data"] = json!({"shape": "round"});
    server.create(&odd).unwrap();
    /// A type whose shape differs from the server's objects.
    #[derive(Debug, Deserialize)]
    struct Numbers {
        #[allow(dead_code, reason = "the field only makes decoding fail")]
        data: u32,
    }
    let client = Client::new(server.service(), "default");
    let lazy = Informer::<Lazy<ConfigMap>>::builder(Api::all(client.clone())).build();
    let strict = Informer::<Projection<ConfigMap, Numbers>>::builder(Api::all(client.clone())).build();
    let metadata = Informer::<PartialObjectMeta<ConfigMap>>::builder(Api::all(client)).build();
    lazy.start();
    strict.start();
    metadata.start();
    lazy.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    strict.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    metadata.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    let held = lazy.lister().list_all();
    let held = &held.to_vec()[0];
    assert!(held.fields::<Numbers>().is_err() && held.get().is_ok());
    assert_eq!((strict.lister().len(), strict.status().reflector.undecodable), (0, 1));
    assert_eq!(metadata.lister().list_all().to_vec()[0].label("shape"), Some("round"));
    lazy.stop().await;
    strict.stop().await;
    metadata.stop().await;
}
