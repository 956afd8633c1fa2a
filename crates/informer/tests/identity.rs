//! Tests the identity of objects, and undecodable objects, with an informer and a server.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{Event, Informer, ReflectorOptions, Removal};
use kube_testserver::{Fault, RequestMatch, Server, Verb};
use parking_lot::Mutex;
use serde_json::{Value, json};

struct Stack {
    server: Server,
    informer: Informer<ConfigMap>,
    events: Arc<Mutex<Vec<String>>>,
}

fn watches() -> RequestMatch {
    RequestMatch::verb(Verb::Watch).resource("configmaps")
}

impl Stack {
    /// Watches a ConfigMap `a`.
    async fn watching(streaming_lists: bool) -> Self {
        let server = Server::new();
        create(&server, "a");
        let api = Api::<ConfigMap>::namespaced(Client::new(server.service(), "default"), "default");
        let options = ReflectorOptions { streaming_lists, ..ReflectorOptions::default() };
        let informer = Informer::<ConfigMap>::builder(api).reflector_options(options).build();
        let events: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&events);
        informer.on_event(move |event| lines.lock().push(short(event))).detach();
        informer.start();
        let stack = Self { server, informer, events };
        stack.until(|stack| stack.server.open_watches() == 1 && stack.events.lock().len() == 1).await;
        stack
    }

    async fn until(&self, reached: impl Fn(&Self) -> bool) {
        let reaching = async {
            while !reached(self) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(3600), reaching).await.is_err() {
            panic!("{:?} {}", self.events.lock(), self.informer.status());
        }
    }

    fn a(&self) -> Value {
        self.server.get_untyped("v1", "ConfigMap", Some("default"), "a").unwrap()
    }

    /// Returns a version that the server has reached by a write of another type.
    fn new_version(&self) -> String {
        let metadata = json!({"generateName": "s", "namespace": "default"});
        self.server.create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).unwrap();
        self.server.resource_version().to_string()
    }

    /// Sends an event in which `a` is not a ConfigMap.
    fn send_wrong_kind(&self, uid: &Value) {
        let metadata =
            json!({"name": "a", "namespace": "default", "uid": uid, "resourceVersion": self.new_version()});
        let event = json!({"type": "MODIFIED", "object": {"metadata": metadata, "data": 7}});
        self.server.inject_frame(&watches(), format!("{event}\n"));
    }
}

fn create(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

fn short(event: &Event<ConfigMap>) -> String {
    let name = event.key().name();
    match event {
        Event::Added { initial: true, .. } => format!("!{name}"),
        Event::Added { .. } => format!("+{name}"),
        Event::Updated { .. } => format!("~{name}"),
        Event::Deleted { removal: Removal::FinalStateUnknown, .. } => format!("?{name}"),
        Event::Deleted { .. } => format!("-{name}"),
    }
}

/// Property 3, if the watch has lost the deletion.
#[tokio::test(start_paused = true)]
async fn new_uid_under_same_name_is_delete_and_add() {
    for streaming in [false, true] {
        let stack = Stack::watching(streaming).await;
        let before = stack.a()["metadata"]["uid"].clone();
        assert_eq!(stack.server.lose_next_event(&watches()), 1);
        stack.server.delete_untyped("v1", "ConfigMap", Some("default"), "a").unwrap();
        create(&stack.server, "a");
        stack.until(|stack| stack.events.lock().len() == 3).await;
        assert_eq!(*stack.events.lock(), ["!a", "?a", "+a"]);
        let now = stack.informer.lister().get_by_key(&"default/a".parse().unwrap()).unwrap();
        assert_eq!(now.metadata.uid.as_deref(), stack.a()["metadata"]["uid"].as_str());
        assert_ne!(stack.a()["metadata"]["uid"], before);
        stack.informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn undecodable_update_keeps_stale_state_until_decodable_update() {
    for streaming in [false, true] {
        let stack = Stack::watching(streaming).await;
        let good = stack.informer.lister().get_by_key(&"default/a".parse().unwrap()).unwrap();
        stack.send_wrong_kind(&stack.a()["metadata"]["uid"]);
        stack.until(|stack| stack.informer.status().stale == 1).await;
        let status = stack.informer.status();
        assert_eq!((status.objects, status.reflector.undecodable), (1, 1));
        assert!(status.to_string().contains("1 objects, 1 of them stale"), "{status}");
        let cached = stack.informer.lister().get_by_key(&"default/a".parse().unwrap()).unwrap();
        assert!(Arc::ptr_eq(&good, &cached));
        // After a list with a decodable state, the object is no longer stale. The digest is equal
        // to the digest of the cached state, so no event is delivered.
        stack.informer.relist();
        stack.until(|stack| stack.informer.status().stale == 0).await;
        assert_eq!(*stack.events.lock(), ["!a"], "streaming {streaming}");
        stack.informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_with_other_uid_deletes_cached_object() {
    let stack = Stack::watching(false).await;
    stack.send_wrong_kind(&"another".into());
    stack.until(|stack| stack.events.lock().len() == 2).await;
    assert_eq!(*stack.events.lock(), ["!a", "?a"]);
    let status = stack.informer.status();
    assert_eq!((status.objects, status.stale, status.reflector.undecodable), (0, 0, 1));
    stack.informer.stop().await;
}

/// Undecodable items of a list count as listed. They do not cause deletions.
#[tokio::test(start_paused = true)]
async fn undecodable_listed_object_is_stale_and_does_not_affect_list() {
    let stack = Stack::watching(false).await;
    let mut spoiled = stack.a();
    spoiled["metadata"]["resourceVersion"] = stack.new_version().into();
    spoiled["data"] = 7.into();
    let mut other = stack.a();
    other["metadata"]["name"] = "b".into();
    other["metadata"]["uid"] = "b".into();
    let list = json!({
        "kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": stack.new_version()},
        "items": [spoiled, other],
    });
    stack.server.faults().next(RequestMatch::verb(Verb::List), Fault::json(list.to_string()));
    stack.informer.relist();
    stack.until(|stack| stack.events.lock().len() == 2).await;
    assert_eq!(*stack.events.lock(), ["!a", "+b"]);
    let status = stack.informer.status();
    assert_eq!((status.objects, status.stale, status.reflector.undecodable), (2, 1, 1));
    stack.informer.stop().await;
}
