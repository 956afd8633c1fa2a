//! Tests that a transform runs once for each state of an object, before any reader receives the
//! state. A rejected object counts as undecodable.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{
    Entry, Event, Informer, InformerBuilder, InformerFactory, ListWatch, ListWatchError, ReflectorOptions,
};
use kube_listwatch::{Decoded, ListPage, ListRequest, WatchEvent, WatchRequest};
use kube_testserver::{RequestMatch, Server};
use parking_lot::Mutex;
use serde_json::json;

type Lines = Arc<Mutex<Vec<String>>>;

fn create(server: &Server, name: &str, data: &str) {
    let metadata = json!({"name": name, "namespace": "ns"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"is": data}});
    server.create(&object).unwrap();
}

fn change(server: &Server, name: &str, data: &str) {
    server.patch_untyped("v1", "ConfigMap", Some("ns"), name, &json!({"data": {"is": data}})).unwrap();
}

fn server() -> Server {
    let server = Server::new();
    server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})).unwrap();
    server
}

fn is(object: &ConfigMap) -> &str {
    object.data.as_ref().and_then(|data| data.get("is")).map_or("", String::as_str)
}

/// Changes an object to upper case, rejects `bad`, panics at `worse`, and counts its calls.
fn upper_case(
    calls: &Arc<AtomicUsize>,
) -> impl Fn(&mut ConfigMap) -> Result<(), &'static str> + Send + Sync + 'static {
    let calls = Arc::clone(calls);
    move |object| {
        calls.fetch_add(1, Ordering::SeqCst);
        let louder = match is(object) {
            "bad" => return Err("the object is bad"),
            "worse" => panic!("worse"),
            other => format!("{}!", other.to_uppercase()),
        };
        object.data = Some([("is".to_owned(), louder)].into());
        // The identity of the entry is taken from the server, not from the transformed value.
        object.metadata.name = Some("renamed".into());
        object.metadata.uid = None;
        object.metadata.resource_version = Some("0".into());
        Ok(())
    }
}

fn api(server: &Server) -> Api<ConfigMap> {
    Api::namespaced(Client::new(server.service(), "default"), "ns")
}

fn options(streaming_lists: bool) -> ReflectorOptions {
    ReflectorOptions { streaming_lists, ..ReflectorOptions::default() }
}

fn short(event: &Event<ConfigMap>) -> String {
    let name = event.key().name().to_owned();
    match event {
        Event::Added { object, .. } => format!("+{name} {}", is(object)),
        Event::Updated { old, new } => format!("~{name} {} {}", is(old), is(new)),
        Event::Deleted { last, .. } => format!("-{name} {}", is(last)),
    }
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

fn lines_of(informer: &Informer<ConfigMap>) -> Lines {
    let lines = Lines::default();
    let written = Arc::clone(&lines);
    informer.on_event(move |event| written.lock().push(short(event))).detach();
    lines
}

/// Property 17.
#[tokio::test(start_paused = true)]
async fn transform_runs_before_all_readers_and_once_per_state() {
    for streaming in [true, false] {
        let server = server();
        create(&server, "a", "calm");
        create(&server, "b", "calm");
        let calls = Arc::new(AtomicUsize::new(0));
        let informer = Informer::<ConfigMap>::builder(api(&server))
            .transform(upper_case(&calls))
            .default_resync(Duration::from_secs(60))
            .reflector_options(options(streaming))
            .build();
        let index = informer.add_index("is", |object: &ConfigMap| [is(object).to_owned()]).unwrap();
        let lines = lines_of(&informer);
        informer.start();
        until(|| lines.lock().len() == 2).await;
        assert_eq!(*lines.lock(), ["+a CALM!", "+b CALM!"]);
        assert_eq!((index.len("CALM!"), index.len("calm")), (2, 0));
        let cached =
            informer.lister().namespace("ns").get("a").expect("the cache uses the name from the server");
        assert_eq!(cached.metadata.name.as_deref(), Some("renamed"));
        assert_eq!(calls.load(Ordering::SeqCst), 2);

        // A relist or a resync does not run the transform again.
        let lists = informer.status().reflector.lists;
        informer.relist();
        until(|| informer.status().reflector.lists > lists && informer.status().synced).await;
        until(|| lines.lock().len() == 6).await;
        assert_eq!(lines.lock()[2..4], ["~a CALM! CALM!", "~b CALM! CALM!"]);
        assert_eq!(calls.load(Ordering::SeqCst), 2, "streaming: {streaming}");

        change(&server, "a", "new");
        until(|| lines.lock().contains(&"~a CALM! NEW!".to_owned())).await;
        server.delete_untyped("v1", "ConfigMap", Some("ns"), "a").unwrap();
        until(|| lines.lock().contains(&"-a NEW!".to_owned())).await;
        assert_eq!(calls.load(Ordering::SeqCst), 4);
        informer.stop().await;
    }
}

/// Property 17, for a last known state that the server did not send again.
#[tokio::test(start_paused = true)]
async fn delete_from_relist_contains_transformed_state() {
    for streaming in [true, false] {
        let server = server();
        create(&server, "a", "calm");
        create(&server, "b", "calm");
        let calls = Arc::new(AtomicUsize::new(0));
        let informer = Informer::<ConfigMap>::builder(api(&server))
            .transform(upper_case(&calls))
            .reflector_options(options(streaming))
            .build();
        let lines = lines_of(&informer);
        informer.start();
        until(|| lines.lock().len() == 2 && server.open_watches() == 1).await;
        assert_eq!(server.lose_next_event(&RequestMatch::any()), 1);
        server.delete_untyped("v1", "ConfigMap", Some("ns"), "a").unwrap();
        informer.relist();
        until(|| lines.lock().len() == 3).await;
        assert_eq!(lines.lock()[2], "-a CALM!");
        assert_eq!(calls.load(Ordering::SeqCst), 2, "streaming: {streaming}");
        informer.stop().await;
    }
}

/// client-go loses the event in this case.
#[tokio::test(start_paused = true)]
async fn failed_transform_is_reported_and_cached_state_is_stale() {
    for (streaming, rejected) in [(true, "bad"), (false, "bad"), (true, "worse"), (false, "worse")] {
        let server = server();
        create(&server, "a", "calm");
        create(&server, "never", rejected);
        let calls = Arc::default();
        let informer = Informer::<ConfigMap>::builder(api(&server))
            .transform(upper_case(&calls))
            .reflector_options(options(streaming))
            .build();
        let lines = lines_of(&informer);
        informer.start();
        until(|| informer.has_synced()).await;
        assert_eq!(informer.status().reflector.undecodable, 1);
        assert_eq!((informer.status().objects, informer.status().stale), (1, 0));

        change(&server, "a", rejected);
        until(|| informer.status().stale == 1).await;
        let status = informer.status();
        assert_eq!((status.objects, status.reflector.undecodable), (1, 2));
        let newest = server.get_untyped("v1", "ConfigMap", Some("ns"), "a").unwrap();
        let newest = newest["metadata"]["resourceVersion"].as_str().map(ToOwned::to_owned);
        assert_eq!(
            status.watermark.map(|version| version.to_string()),
            newest,
            "the watermark includes the rejected object"
        );
        assert_eq!(
            informer.lister().namespace("ns").get("a").map(|object| is(&object).to_owned()).unwrap(),
            "CALM!"
        );

        change(&server, "a", "better");
        until(|| informer.status().stale == 0).await;
        change(&server, "a", rejected);
        until(|| informer.status().stale == 1).await;
        server.delete_untyped("v1", "ConfigMap", Some("ns"), "a").unwrap();
        until(|| lines.lock().len() == 3).await;
        assert_eq!(*lines.lock(), ["+a CALM!", "~a CALM! BETTER!", "-a BETTER!"]);
        assert_eq!(informer.status().stale, 0);
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn factory_applies_transforms_of_configured_types() {
    let server = server();
    create(&server, "a", "calm");
    let calls = Arc::default();
    let client = Client::new(server.service(), "default");
    let factory = InformerFactory::new(client).namespace("ns").transform(upper_case(&calls));
    let maps = factory.informer::<ConfigMap>().unwrap();
    let others = factory.informer::<k8s_openapi::api::core::v1::Secret>().unwrap();
    factory.start();
    factory.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    assert_eq!(is(&maps.lister().list_all().to_vec()[0]), "CALM!");
    assert!(others.lister().is_empty());
    factory.shutdown().await;
}

fn object(name: &str, data: &str, version: u64) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.namespace = Some("ns".into());
    object.metadata.name = Some(name.into());
    object.metadata.uid = Some(name.into());
    object.metadata.resource_version = Some(version.to_string());
    object.data = Some([("is".to_owned(), data.to_owned())].into());
    object
}

type Announced = Result<WatchEvent<ConfigMap>, ListWatchError>;

/// Returns a builder with a source of two functions. After the given events, the watch delivers no
/// events.
fn function_source(
    calls: &Arc<AtomicUsize>,
    announced: fn() -> Vec<Announced>,
) -> InformerBuilder<ConfigMap> {
    let items = || vec![object("a", "calm", 3), object("never", "bad", 4)];
    let list =
        move |_: ListRequest| async move { Ok(ListPage { items: items(), version: 5.into(), next: None }) };
    let watch = move |_: WatchRequest| {
        use futures_util::StreamExt;
        stream::iter(announced()).chain(stream::pending())
    };
    Informer::from_source(ListWatch::from_functions(list, watch).transform(upper_case(calls)).transform(
        |object| {
            object.immutable = Some(is(object).ends_with('!'));
            Ok(())
        },
    ))
}

#[tokio::test(start_paused = true)]
async fn function_source_objects_are_transformed() {
    let announced = || {
        let put = |data, version| Decoded::Object(Entry::from_object(object("a", data, version)));
        let last = Entry::from_object(object("a", "last", 8));
        vec![
            Ok(WatchEvent::Modified(put("new", 6))),
            Ok(WatchEvent::Modified(put("bad", 7))),
            Ok(WatchEvent::Deleted { id: last.id.clone(), last: Some(last) }),
            Ok(WatchEvent::Added(put("back", 9))),
        ]
    };
    let calls = Arc::new(AtomicUsize::new(0));
    let informer = function_source(&calls, announced).build();
    let lines = lines_of(&informer);
    informer.start();
    until(|| lines.lock().len() == 4).await;
    assert_eq!(*lines.lock(), ["+a CALM!", "~a CALM! NEW!", "-a LAST!", "+a BACK!"]);
    assert_eq!(informer.status().reflector.undecodable, 2);
    assert_eq!(informer.lister().list_all().to_vec()[0].immutable, Some(true), "transforms run in order");
    informer.stop().await;
}

/// Property 17, for a source that returns values instead of JSON.
#[tokio::test(start_paused = true)]
async fn relisted_function_source_objects_are_not_transformed_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let informer = function_source(&calls, Vec::new).build();
    informer.start();
    until(|| informer.has_synced()).await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    informer.relist();
    until(|| informer.status().reflector.undecodable == 2).await;
    assert_eq!(calls.load(Ordering::SeqCst), 3, "only the object that was not cached is transformed again");
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn shared_object_is_reported_instead_of_untransformed() {
    let calls = Arc::new(AtomicUsize::new(0));
    let held: Entry<ConfigMap> = Entry::from_object(object("b", "held", 6));
    let shared = held.clone();
    let list = |_: ListRequest| async { Ok(ListPage { items: Vec::new(), version: 5.into(), next: None }) };
    let watch = move |_: WatchRequest| {
        use futures_util::StreamExt;
        stream::iter([Ok(WatchEvent::Added(Decoded::Object(shared.clone())))]).chain(stream::pending())
    };
    let source = ListWatch::from_functions(list, watch).transform(upper_case(&calls));
    let informer = Informer::from_source(source).build();
    informer.start();
    until(|| informer.status().reflector.undecodable == 1).await;
    assert!(informer.lister().is_empty());
    assert_eq!(is(&held), "held");
    informer.stop().await;
}
