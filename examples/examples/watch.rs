//! Lists and watches Pods with a `ListWatch`, without a cache.
//!
//! Prints the URL of the LIST and of the WATCH, and then each event: `ADDED : test-pod`, `MODIFIED
//! : ..`, `DELETED : ..`, `BOOKMARK : resourceVersion` and `ERROR : ..`. On the embedded server,
//! the example also creates, changes and deletes a Pod. Finally, it watches from an expired
//! resourceVersion.

use std::{process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::Parser;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_client::Api;
use kube_informer::ResourceVersion;
use kube_informer_examples::{cli, cluster::ClusterArgs};
use kube_listwatch::{
    ListAt, ListPart, ListRequest, ListWatch, ListerWatcher, WatchEvent, WatchFrom, WatchRequest,
};
use kube_object::NoCache;
use kube_testserver::Server;
use serde_json::json;

/// Prints the events of a watch, without a cache.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::run(list_then_watch).await
}

async fn list_then_watch(Flags { cluster: flags }: Flags) -> anyhow::Result<()> {
    let cluster = flags.connect().await?;
    let namespace = flags.namespace.clone().unwrap_or_else(|| cluster.client.default_namespace().to_owned());
    let pods = ListWatch::<Pod>::new(Api::namespaced(cluster.client.clone(), &namespace));

    let version = list(&pods).await?;
    let request = WatchRequest { from: WatchFrom::Version(version), timeout: None, bookmarks: true };
    println!("WATCH {}", pods.watch_url(&request).context("the ListWatch has no URL")?);
    let server = cluster.embedded.as_ref().map(|embedded| &embedded.server);
    let watching = watch(&pods, request.clone(), server);
    tokio::select! {
        () = flags.duration.wait() => {}
        result = watching => result?,
    }
    if let Some(server) = server {
        server.compact();
        watch(&pods, request, None).await?; // the resourceVersion has expired
    }
    cluster.close().await;
    Ok(())
}

/// Reads the complete list page by page and returns its resourceVersion.
async fn list(pods: &ListWatch<Pod>) -> anyhow::Result<ResourceVersion> {
    let mut request = ListRequest { at: ListAt::Consistent, limit: Some(500) };
    println!("LIST {}", pods.list_url(&request).context("the ListWatch has no URL")?);
    loop {
        let mut parts = pods.list(request.clone(), Arc::new(NoCache));
        let mut end = None;
        while let Some(part) = parts.next().await {
            match part? {
                ListPart::Items { items, .. } => {
                    for item in items {
                        println!("LISTED : {}", item.id().key.name());
                    }
                }
                ListPart::OtherSlots { .. } => {}
                ListPart::End(page) => end = Some(page),
            }
        }
        let end = end.context("the list is incomplete")?;
        match end.next {
            Some(token) => request.at = ListAt::Continue(token),
            None => return Ok(end.version),
        }
    }
}

/// Prints events until the watch closes. On the embedded server, also creates the events.
async fn watch(pods: &ListWatch<Pod>, request: WatchRequest, server: Option<&Server>) -> anyhow::Result<()> {
    let mut events = pods.watch(request, Arc::new(NoCache));
    if let Some(server) = server {
        create_change_and_delete_pod(server)?;
    }
    while let Some(batch) = events.next().await {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                println!("ERROR : {error}");
                return Ok(());
            }
        };
        for event in batch {
            match event {
                WatchEvent::Added(pod) => println!("ADDED : {}", pod.id().key.name()),
                WatchEvent::Modified(pod) => println!("MODIFIED : {}", pod.id().key.name()),
                WatchEvent::Deleted { id, .. } => {
                    println!("DELETED : {}", id.key.name());
                    server.map(Server::send_bookmarks);
                }
                WatchEvent::Opened | WatchEvent::OtherSlot { .. } => {}
                WatchEvent::Bookmark { version, .. } => {
                    println!("BOOKMARK : {version}");
                    if server.is_some() {
                        return Ok(()); // the last event of this example
                    }
                }
            }
        }
    }
    Ok(())
}

/// Creates, changes and deletes a Pod.
fn create_change_and_delete_pod(server: &Server) -> anyhow::Result<()> {
    let container = json!({"name": "main", "image": "example/image"});
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "test-pod"},
        "spec": {"containers": [container]},
    });
    server.create(&pod)?;
    server.patch_untyped("v1", "Pod", None, "test-pod", &json!({"metadata": {"labels": {"seen": "yes"}}}))?;
    server.delete_untyped("v1", "Pod", None, "test-pod")?;
    Ok(())
}
