//! Tests that changes without an open watch are delivered later, for each form of the "expired"
//! response.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{Event, Informer, Phase, ReflectorOptions, Removal};
use kube_listwatch::ErrorClass;
use kube_testserver::{Fault, RequestMatch, Server, Verb};
use parking_lot::Mutex;
use serde_json::json;

/// The reason for which a watch loses events.
#[derive(Debug, Clone, Copy)]
enum Loss {
    /// The version has expired. Like kube-apiserver, the server sends 200 and an ERROR event.
    Compacted,
    /// The version has expired. Like proxies and aggregated servers, the server sends HTTP 410.
    HttpGone,
    /// Connections close or break. The watch resumes without loss.
    Broken,
}

struct Stack {
    server: Server,
    informer: Informer<ConfigMap>,
    events: Arc<Mutex<Vec<String>>>,
}

impl Stack {
    async fn watching(streaming_lists: bool) -> Self {
        let server = Server::new();
        for name in ["kept", "changed", "deleted", "replaced"] {
            create(&server, name);
        }
        let api = Api::<ConfigMap>::namespaced(Client::new(server.service(), "default"), "default");
        let informer = Informer::builder(api)
            .reflector_options(ReflectorOptions { streaming_lists, ..ReflectorOptions::default() })
            .build();
        let events: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&events);
        informer.on_event(move |event| lines.lock().push(short(event))).detach();
        informer.start();
        let stack = Self { server, informer, events };
        stack.until(|stack| stack.server.open_watches() == 1 && stack.events.lock().len() == 4).await;
        // Waits until the watch has delivered an event. A watch without an event would cause a
        // relist in every case.
        tokio::time::sleep(Duration::from_secs(5)).await;
        stack
            .server
            .patch_untyped("v1", "ConfigMap", Some("default"), "kept", &json!({"data": {"a": "b"}}))
            .unwrap();
        stack.until(|stack| stack.events.lock().len() == 5).await;
        stack.events.lock().clear();
        stack
    }

    /// Waits for a condition. The clock is paused, so an hour of backoff is immediate.
    async fn until(&self, reached: impl Fn(&Self) -> bool) {
        let reaching = async {
            while !reached(self) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(3600), reaching).await.is_err() {
            panic!("{:?} {:?}", self.events.lock(), self.informer.status());
        }
    }

    /// Changes objects in every way, while no watch is open.
    fn change_all(&self) {
        let server = &self.server;
        let patch = json!({"data": {"key": "new"}});
        server.patch_untyped("v1", "ConfigMap", Some("default"), "changed", &patch).unwrap();
        server.delete_untyped("v1", "ConfigMap", Some("default"), "deleted").unwrap();
        server.delete_untyped("v1", "ConfigMap", Some("default"), "replaced").unwrap();
        create(server, "replaced");
        create(server, "added");
    }
}

fn create(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

fn short(event: &Event<ConfigMap>) -> String {
    let name = event.key().name();
    match event {
        Event::Added { .. } => format!("+{name}"),
        Event::Updated { .. } => format!("~{name}"),
        Event::Deleted { removal: Removal::Deleted, .. } => format!("-{name}"),
        Event::Deleted { removal: Removal::FinalStateUnknown | Removal::Left, .. } => format!("?{name}"),
    }
}

/// Properties 2 and 3: the cache converges, including missed deletions.
#[tokio::test(start_paused = true)]
async fn cache_matches_server_after_any_lost_watch_event() {
    let losses = [Loss::Compacted, Loss::HttpGone, Loss::Broken];
    for (loss, streaming) in losses.into_iter().flat_map(|loss| [(loss, false), (loss, true)]) {
        let stack = Stack::watching(streaming).await;
        let watches = RequestMatch::verb(Verb::Watch);
        // The next attempt fails, so the changes happen while no watch is open.
        stack.server.faults().next(watches.clone(), Fault::Reset);
        stack.server.close_watches();
        stack.until(|stack| stack.server.faults().pending() == 0).await;
        stack.change_all();
        match loss {
            Loss::Compacted => stack.server.compact(),
            Loss::HttpGone => stack.server.faults().next(watches, Fault::status(410, "Expired", None)),
            Loss::Broken => {}
        }
        stack.until(|stack| stack.events.lock().len() >= 5).await;
        stack.until(|stack| stack.informer.status().reflector.phase == Phase::Watching).await;
        let mut events = stack.events.lock().clone();
        let expected = match loss {
            Loss::Broken => ["+added", "+replaced", "-deleted", "-replaced", "~changed"],
            Loss::Compacted | Loss::HttpGone => ["+added", "+replaced", "?deleted", "?replaced", "~changed"],
        };
        events.sort();
        // After an expiry, equal versions do not prove that objects are unchanged, so they are
        // delivered again.
        events.retain(|line| line != "~kept");
        assert_eq!(events, expected, "{loss:?}");
        let mut keys: Vec<String> =
            stack.informer.lister().keys().iter().map(|key| key.name().to_owned()).collect();
        keys.sort();
        assert_eq!(keys, ["added", "changed", "kept", "replaced"], "{loss:?}");
        stack.informer.stop().await;
    }
}

/// Each failure causes at most one relist, according to the server's journal.
#[tokio::test(start_paused = true)]
async fn expired_watch_costs_one_list_and_broken_watch_none() {
    let costs = [(Loss::Compacted, 2), (Loss::HttpGone, 2), (Loss::Broken, 1)];
    for (loss, lists, streaming) in
        costs.into_iter().flat_map(|(loss, lists)| [(loss, lists, false), (loss, lists, true)])
    {
        let stack = Stack::watching(streaming).await;
        let listed = |stack: &Stack| {
            if streaming {
                let requests = stack.server.journal().requests();
                requests.iter().filter(|request| request.query.contains("sendInitialEvents=true")).count()
            } else {
                stack.server.journal().count(Verb::List, "configmaps")
            }
        };
        let watches = RequestMatch::verb(Verb::Watch);
        match loss {
            Loss::Compacted => {
                stack.change_all();
                stack.until(|stack| stack.events.lock().len() == 5).await;
                stack.server.faults().next(watches, Fault::Reset);
                create(&stack.server, "later");
                stack.until(|stack| stack.events.lock().len() == 6).await;
                stack.server.close_watches();
                stack.until(|stack| stack.server.faults().pending() == 0).await;
                create(&stack.server, "latest");
                stack.server.compact();
            }
            Loss::HttpGone => {
                stack.server.faults().next(watches, Fault::status(410, "Expired", None));
                stack.server.close_watches();
                stack.until(|stack| stack.server.faults().pending() == 0).await;
            }
            Loss::Broken => {
                stack.server.cut_watches(&watches);
            }
        }
        stack.until(|stack| listed(stack) == lists).await;
        stack.until(|stack| stack.informer.status().reflector.phase == Phase::Watching).await;
        create(&stack.server, "last");
        stack.until(|stack| stack.events.lock().iter().any(|line| line == "+last")).await;
        assert_eq!(listed(&stack), lists, "{loss:?} {streaming}");
        stack.informer.stop().await;
    }
}

/// Tests property 2 with an object that the server cannot read. A list fails while the object
/// exists. kube-apiserver can delete the object without a read, but sends no watch event.
#[tokio::test(start_paused = true)]
async fn undecodable_object_remains_cached_until_deleted() {
    for streaming in [false, true] {
        let stack = Stack::watching(streaming).await;
        let corruption = stack.server.corrupt("v1", "ConfigMap", Some("default"), "changed").unwrap();
        tokio::time::sleep(Duration::from_secs(600)).await;
        let status = stack.informer.status();
        assert_eq!((status.objects, status.synced), (4, true), "{status}");
        assert_eq!(status.reflector.failing, Some(ErrorClass::Broken), "{status}");
        assert!(status.to_string().contains("illegal base64 data"), "{status}");
        assert_eq!(*stack.events.lock(), [""; 0], "streaming {streaming}");

        stack.server.delete_untyped("v1", "ConfigMap", Some("default"), "changed").unwrap();
        stack.until(|stack| stack.informer.status().reflector.phase == Phase::Watching).await;
        create(&stack.server, "later");
        stack.until(|stack| stack.events.lock().len() >= 2).await;
        assert_eq!(*stack.events.lock(), ["?changed", "+later"], "streaming {streaming}");
        assert_eq!(stack.informer.status().reflector.failing, None);
        let mut keys: Vec<_> = stack.informer.lister().keys().iter().map(ToString::to_string).collect();
        keys.sort();
        assert_eq!(keys, ["default/deleted", "default/kept", "default/later", "default/replaced"]);
        stack.informer.stop().await;
        drop(corruption);
    }
}
