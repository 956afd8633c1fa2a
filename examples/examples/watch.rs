//! LIST, then WATCH, with a bare `ListWatch` and no cache: the protocol itself.
//!
//! Prints the two URLs that are used, then `ADDED : test-pod`, `MODIFIED : ..`, `DELETED : ..`,
//! `BOOKMARK : version` and `ERROR : ..` as they come. On the embedded server a Pod is created,
//! changed and deleted meanwhile, and at the end a watch begins at a version that has expired.

use std::{process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::Parser;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_client::Api;
use kube_informer::ResourceVersion;
use kube_informer_examples::cluster::{self, ClusterArgs};
use kube_listwatch::{
    ListAt, ListPart, ListRequest, ListWatch, ListerWatcher, WatchEvent, WatchFrom, WatchRequest,
};
use kube_object::NothingKnown;
use kube_testserver::Server;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cluster::run(list_then_watch(ClusterArgs::parse())).await
}

async fn list_then_watch(flags: ClusterArgs) -> anyhow::Result<()> {
    let cluster = flags.connect().await?;
    let namespace = flags.namespace.clone().unwrap_or_else(|| cluster.client.default_namespace().to_owned());
    let pods = ListWatch::<Pod>::new(Api::namespaced(cluster.client.clone(), &namespace));

    let version = list(&pods).await?;
    let request = WatchRequest { from: WatchFrom::Version(version), timeout: None, bookmarks: true };
    println!("WATCH {}", pods.watch_url(&request).context("a ListWatch of functions")?);
    let server = cluster.embedded.as_ref().map(|embedded| &embedded.server);
    let watching = watch(&pods, request.clone(), server);
    tokio::select! {
        () = flags.life.over() => {}
        result = watching => result?,
    }
    if let Some(server) = server {
        server.compact();
        watch(&pods, request, None).await?; // its version has expired
    }
    cluster.close().await;
    Ok(())
}

/// Reads the whole list, page by page, and gives its version.
async fn list(pods: &ListWatch<Pod>) -> anyhow::Result<ResourceVersion> {
    let mut request = ListRequest { at: ListAt::Consistent, limit: Some(500) };
    println!("LIST {}", pods.list_url(&request).context("a ListWatch of functions")?);
    loop {
        let mut parts = pods.list(request.clone(), Arc::new(NothingKnown));
        let mut end = None;
        while let Some(part) = parts.next().await {
            match part? {
                ListPart::Items { items, .. } => {
                    for item in items {
                        println!("LISTED : {}", item.id().key.name());
                    }
                }
                ListPart::End(page) => end = Some(page),
            }
        }
        let end = end.context("the list has no end")?;
        match end.next {
            Some(token) => request.at = ListAt::Continue(token),
            None => return Ok(end.version),
        }
    }
}

/// Prints events until the watch ends; on the embedded server, sees to it that there are some.
async fn watch(pods: &ListWatch<Pod>, request: WatchRequest, server: Option<&Server>) -> anyhow::Result<()> {
    let mut events = pods.watch(request, Arc::new(NothingKnown));
    if let Some(server) = server {
        a_short_life(server)?;
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
                    server.map(Server::bookmark_now);
                }
                WatchEvent::Bookmark { version, .. } => {
                    println!("BOOKMARK : {version}");
                    if server.is_some() {
                        return Ok(()); // the story is over
                    }
                }
            }
        }
    }
    Ok(())
}

/// A Pod comes, changes and goes.
fn a_short_life(server: &Server) -> anyhow::Result<()> {
    let container = json!({"name": "main", "image": "example/image"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "test-pod"}, "spec": {"containers": [container]}});
    server.create(pod)?;
    server.patch("v1", "Pod", None, "test-pod", &json!({"metadata": {"labels": {"seen": "yes"}}}))?;
    server.delete("v1", "Pod", None, "test-pod")?;
    Ok(())
}
