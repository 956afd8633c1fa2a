//! Creates a `ListWatch` in each possible way and prints its requests.
//!
//! Uses an `Api`; a client, a resource, a namespace and a field selector; an options modifier; a list
//! without chunking; a dynamic type; two functions. Lists the objects of each `ListWatch` once. Prints the
//! number of objects and the URLs of the LIST and the WATCH.

use std::{process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::Parser;
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube_client::{
    Api,
    api::{DynamicObject, ListParams, WatchParams},
    core::ApiResource,
};
use kube_informer::Object;
use kube_informer_examples::{cli, cluster::ClusterArgs};
use kube_listwatch::{
    ListAt, ListPart, ListRequest, ListWatch, ListWatchError, ListerWatcher, WatchEvent, WatchFrom,
    WatchRequest,
};
use kube_object::NoCache;

/// Creates a ListWatch in each possible way and prints its requests.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::run(list_watch).await
}

async fn list_watch(Flags { cluster: flags }: Flags) -> anyhow::Result<()> {
    let cluster = flags.connect().await?;
    let namespace = flags.namespace.as_deref().unwrap_or("shop");
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);

    list_and_print("from an Api", &ListWatch::<Pod>::new(api.clone())).await?;

    let on_node = ListWatch::<Pod>::from_client(cluster.client.clone(), &(), None, "spec.nodeName=node-1");
    list_and_print("from a client, Pods of one node", &on_node).await?;

    let modified = ListWatch::<Pod>::new(api.clone()).options(|options| {
        options.label_selector = Some("app=web".into());
        options.field_selector = Some("status.phase=Running".into());
    });
    list_and_print("with an options modifier", &modified).await?;

    list_and_print("without chunking", &ListWatch::<Pod>::new(api.clone()).disable_chunking()).await?;

    let resource = ApiResource::erase::<Pod>(&());
    let dynamic: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), namespace, &resource);
    list_and_print("for a dynamic type", &ListWatch::<DynamicObject>::dynamic(dynamic, &resource)).await?;

    list_and_print("from two functions", &from_functions(api)).await?;
    cluster.close().await;
    Ok(())
}

/// Creates a `ListWatch` from two functions, like client-go's ListFunc and WatchFunc. Here, they
/// call an `Api`.
fn from_functions(api: Api<Pod>) -> ListWatch<Pod> {
    let listing = api.clone();
    let list = move |request: ListRequest| {
        let api = listing.clone();
        async move {
            let continue_token = match request.at {
                ListAt::Continue(token) => Some(token),
                _ => None,
            };
            let params = ListParams { limit: request.limit, continue_token, ..ListParams::default() };
            api.list(&params).await.map(Into::into).map_err(ListWatchError::list_function)
        }
    };
    let watch = move |request: WatchRequest| {
        let api = api.clone();
        let from = match request.from {
            WatchFrom::Version(version) => version.to_string(),
            WatchFrom::InitialEvents(_) => "0".to_owned(),
        };
        let events = async move {
            let events =
                api.watch(&WatchParams::default(), &from).await.map_err(ListWatchError::watch_function)?;
            Ok(events
                .map_err(ListWatchError::watch_function)
                .and_then(|event| async { WatchEvent::from_kube(event) })
                .boxed())
        };
        stream::once(events).try_flatten()
    };
    ListWatch::from_functions(list, watch)
}

async fn list_and_print<T: Object>(title: &str, source: &ListWatch<T>) -> anyhow::Result<()> {
    let request = ListRequest { at: ListAt::Any, limit: Some(500) };
    let mut parts = source.list(request.clone(), Arc::new(NoCache));
    let (mut objects, mut end) = (0, None);
    while let Some(part) = parts.next().await {
        match part? {
            ListPart::Items { items, .. } => objects += items.len(),
            ListPart::OtherSlots { .. } => {}
            ListPart::End(page) => end = Some(page),
        }
    }
    let end = end.context("the list is incomplete")?;
    println!("{title}: {objects} objects at resourceVersion {}", end.version);
    let watch = WatchRequest { from: WatchFrom::Version(end.version), timeout: None, bookmarks: true };
    for url in [source.list_url(&request), source.watch_url(&watch)].into_iter().flatten() {
        println!("  GET {url}");
    }
    Ok(())
}
