//! What the code of docs/guide.md runs on; the page itself is compiled and run as tests of this module.

use std::{error::Error, future::Future};

pub use std::time::Duration;

pub use futures_util::StreamExt;
pub use k8s_openapi::api::core::v1::Pod;
pub use kube_client::{
    Api, Client,
    api::{DynamicObject, PartialObjectMeta, Patch, PatchParams},
    core::ApiResource,
};
pub use kube_informer::{
    CachedApi, Compressed, Entry, Event, EventHandler, Filtered, Informer, InformerFactory, Lazy, ObjectKey,
    Projection, RelistCause, Scope, handler_fn,
};
pub use kube_listwatch::ListWatch;
pub use kube_object::Delta;
pub use kube_reflector::Reflector;
pub use kube_workqueue::WorkQueue;
pub use serde_json::json;

use kube_testserver::Server;
use serde_json::Value;

/// The page, as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide.md")]
pub struct Guide;

/// Runs a piece of the guide against an embedded server with two Pods on one node.
///
/// # Panics
/// If the piece fails.
pub fn run<F>(piece: impl FnOnce(Client) -> F)
where
    F: Future<Output = Result<(), Box<dyn Error + Send + Sync>>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        let server = server_with_pods();
        let client = Client::new(server.service(), "default");
        if let Err(error) = piece(client).await {
            panic!("{error}");
        }
    });
}

/// `shop/web-0` and `shop/cart-0`, both on `node-1`.
///
/// # Panics
/// Never, unless the server refuses ordinary Pods.
pub fn server_with_pods() -> Server {
    let server = Server::new();
    server
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))
        .expect("created");
    for app in ["web", "cart"] {
        server.create(pod(app)).expect("created");
    }
    server
}

fn pod(app: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("{app}-0"), "namespace": "shop", "labels": {"app": app}},
        "spec": {"nodeName": "node-1", "containers": [{"name": app, "image": "example/image"}]},
    })
}
