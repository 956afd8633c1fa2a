//! The task of an informer, and not the task of its handler, frees the replaced states of objects.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use kube_informer::{Event, InformerFactory};
use kube_testserver::Server;
use serde_json::json;
use tokio::{
    sync::mpsc,
    task::yield_now,
    time::{sleep, timeout},
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn replaced_state_is_retained_after_delivery_and_freed_when_idle() {
    let server = Server::new();
    let client = Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let factory = InformerFactory::new(client);
    let informer = factory.informer::<ConfigMap>().unwrap();
    let (replaced, mut states) = mpsc::channel::<Weak<ConfigMap>>(9);
    let _registration = informer.on_event(move |event| {
        if let Event::Updated { old, .. } = event {
            replaced.try_send(Arc::downgrade(&old.object)).unwrap();
        }
    });
    factory.start();
    factory.wait_for_sync(60 * SECOND).await.unwrap();
    sleep(SECOND).await;
    let text = Patch::Merge(json!({"data": {"text": "new"}}));
    maps.patch("a", &PatchParams::default(), &text).await.unwrap();
    let old = timeout(60 * SECOND, states.recv()).await.unwrap().unwrap();
    for _ in 0..50 {
        yield_now().await; // the handler has returned, and dropped its batch
    }
    assert!(old.upgrade().is_some(), "the handler freed the replaced state");
    sleep(SECOND).await;
    assert!(old.upgrade().is_none(), "the idle informer still holds the replaced state");
    factory.shutdown().await;
}
