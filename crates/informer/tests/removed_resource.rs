//! Tests an informer of a custom resource. The CRD is deleted and created again.

use std::{sync::Arc, time::Duration};

use kube_client::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use kube_informer::{Event, Informer, ListWatch, Phase, ReflectorOptions, Removal};
use kube_testserver::{Fault, RequestMatch, Server};
use parking_lot::Mutex;
use serde_json::{Value, json};

const CRD: (&str, &str, &str) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.ex.test");

fn crd() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({
        "apiVersion": CRD.0, "kind": CRD.1, "metadata": {"name": CRD.2},
        "spec": {
            "group": "ex.test", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]
        }
    })
}

fn widget(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(&json!({"apiVersion": "ex.test/v1", "kind": "Widget", "metadata": metadata})).unwrap();
}

fn informer(server: &Server, clear_when_gone: bool, streaming_lists: bool) -> Informer<DynamicObject> {
    let client = Client::new(server.service(), "default");
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("ex.test", "v1", "Widget"));
    let source = ListWatch::dynamic(Api::all_with(client, &resource), &resource);
    let options = ReflectorOptions { clear_when_gone, streaming_lists, ..ReflectorOptions::default() };
    Informer::from_source(source).reflector_options(options).build()
}

/// Waits for a condition. The clock is paused, so an hour of backoff is immediate.
async fn until(informer: &Informer<DynamicObject>, reached: impl Fn() -> bool) {
    let reaching = async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(3600), reaching).await.is_err() {
        panic!("{}", informer.status());
    }
}

fn short(event: &Event<DynamicObject>) -> String {
    let name = event.key().name();
    match event {
        Event::Added { initial: true, .. } => format!("!{name}"),
        Event::Added { .. } => format!("+{name}"),
        Event::Updated { .. } => format!("~{name}"),
        Event::Deleted { removal: Removal::FinalStateUnknown, .. } => format!("?{name}"),
        Event::Deleted { .. } => format!("-{name}"),
    }
}

#[tokio::test(start_paused = true)]
async fn removed_resource_keeps_or_clears_cache_by_option() {
    for (clear, streaming) in [(false, false), (false, true), (true, false), (true, true)] {
        let case = format!("clear {clear}, streaming {streaming}");
        let server = Server::new();
        let informer = informer(&server, clear, streaming);
        let events: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&events);
        let _registration = informer.on_event(move |event| lines.lock().push(short(event)));
        informer.start();
        // The resource does not exist yet, so no event is delivered, and the cache is not synced.
        until(&informer, || informer.status().reflector.phase == Phase::Suspended).await;
        assert!(!informer.has_synced(), "{case}");
        server.create(&crd()).unwrap();
        widget(&server, "a");
        widget(&server, "b");
        until(&informer, || informer.status().reflector.phase == Phase::Watching).await;
        until(&informer, || events.lock().len() == 2).await;
        assert_eq!(*events.lock(), ["!a", "!b"], "{case}");
        assert!(!informer.status().reflector.cleared, "{case}");

        // The object is deleted while no watch is open.
        let broken = server.faults().always(RequestMatch::any().group("ex.test"), Fault::Reset);
        server.close_watches();
        until(&informer, || informer.status().reflector.phase == Phase::Waiting).await;
        server.delete_untyped(CRD.0, CRD.1, None, CRD.2).unwrap();
        until(&informer, || server.get_untyped(CRD.0, CRD.1, None, CRD.2).is_err()).await;
        drop(broken);
        until(&informer, || informer.status().reflector.phase == Phase::Suspended).await;
        let status = informer.status();
        assert_eq!((status.synced, status.reflector.cleared), (true, clear), "{case}");
        assert_eq!(status.objects, if clear { 0 } else { 2 }, "{case}: {status}");
        assert_eq!(status.to_string().contains("cleared"), clear, "{status}");
        until(&informer, || events.lock().len() == if clear { 4 } else { 2 }).await;

        server.create(&crd()).unwrap();
        widget(&server, "b");
        until(&informer, || informer.status().reflector.phase == Phase::Watching).await;
        until(&informer, || events.lock().len() == 5).await;
        assert_eq!(*events.lock(), ["!a", "!b", "?a", "?b", "+b"], "{case}");
        assert!(!informer.status().reflector.cleared, "{case}");
        informer.stop().await;
    }
}
