//! Tests reads of own writes if the lists of a server have no version, or an item without a name.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{
    Api, Client,
    api::{ListParams, PostParams, WatchParams},
};
use kube_informer::{CachedApi, Informer, ListWatch};
use kube_listwatch::{ListPage, ListWatchError, WatchEvent, WatchFrom, WatchRequest};
use kube_testserver::Server;
use serde_json::json;

const WITHIN: Duration = Duration::from_secs(30);

fn list_error(error: kube_client::Error) -> ListWatchError {
    ListWatchError::list_function(error)
}

/// Returns a started informer of a source that changes each page of a list.
async fn started(
    api: &Api<ConfigMap>,
    change: impl Fn(&mut ListPage<ConfigMap>) + Clone + Send + Sync + 'static,
) -> Informer<ConfigMap> {
    let (listed, watched) = (api.clone(), api.clone());
    let list = move |_| {
        let (api, change) = (listed.clone(), change.clone());
        async move {
            let mut page: ListPage<ConfigMap> =
                api.list(&ListParams::default()).await.map_err(list_error)?.into();
            change(&mut page);
            Ok(page)
        }
    };
    let watch = move |request: WatchRequest| {
        let api = watched.clone();
        let events = async move {
            let from = match request.from {
                WatchFrom::Version(version) => version.to_string(),
                WatchFrom::InitialEvents(_) => String::new(),
            };
            match api.watch(&WatchParams::default(), &from).await {
                Ok(events) => events
                    .map_err(ListWatchError::watch_function)
                    .and_then(async |event| WatchEvent::from_kube(event))
                    .boxed(),
                Err(error) => stream::iter([Err(ListWatchError::watch_function(error))]).boxed(),
            }
        };
        events.flatten_stream().boxed()
    };
    let informer = Informer::from_source(ListWatch::from_functions(list, watch)).build();
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    informer
}

fn map(value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"value": value}})).unwrap()
}

async fn assert_writes_become_visible(
    change: impl Fn(&mut ListPage<ConfigMap>) + Clone + Send + Sync + 'static,
) {
    let server = Server::new();
    let api: Api<ConfigMap> = Api::default_namespaced(Client::new(server.service(), "default"));
    let informer = started(&api, change).await;
    let maps = CachedApi::new(api, &informer).read_timeout(Duration::from_secs(120));
    maps.create(&PostParams::default(), &map("1")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    maps.lister().await.unwrap();
    for value in ["2", "3"] {
        maps.replace("a", &PostParams::default(), &map(value)).await.unwrap();
        let cached = maps.get("a").await.unwrap().unwrap();
        assert_eq!(cached.data.as_ref().unwrap()["value"], value);
    }
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn write_becomes_visible_if_lists_have_no_version() {
    assert_writes_become_visible(|page| page.version = "".into()).await;
}

/// The informer lists repeatedly, because such a list cannot prove deletions.
#[tokio::test(start_paused = true)]
async fn write_becomes_visible_if_list_has_item_without_name() {
    assert_writes_become_visible(|page| page.items.push(ConfigMap::default())).await;
}
