//! `kube_runtime::watcher`, `reflector` and `wait` with faults of the server.

use std::pin::pin;

use anyhow::{Context as _, Result};
use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, PartialObjectMeta, Patch, PatchParams, PostParams};
use kube_runtime::watcher::{Config, Event};
use kube_runtime::{WatchStreamExt as _, reflector, watcher};
use kube_testserver::{RequestMatch, Server, Verb};
use serde_json::json;
use tokio::time::timeout;

use crate::{DEADLINE, client, config_map, config_maps};

/// Returns the next events as text. Ignores errors of the watcher, because it retries after an error.
async fn events<K: kube::Resource>(
    stream: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
    count: usize,
) -> Result<Vec<String>> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let next = timeout(DEADLINE, stream.next()).await.with_context(|| format!("after {seen:?}"))?;
        match next.context("a watcher does not end")? {
            Ok(Event::Init) => seen.push("init".to_owned()),
            Ok(Event::InitApply(object)) => seen.push(format!("lists {}", object.name_any())),
            Ok(Event::InitDone) => seen.push("done".to_owned()),
            Ok(Event::Apply(object)) => seen.push(format!("applies {}", object.name_any())),
            Ok(Event::Delete(object)) => seen.push(format!("deletes {}", object.name_any())),
            Err(_) => {}
        }
    }
    Ok(seen)
}

#[tokio::test(start_paused = true)]
async fn watcher_with_lists_recovers_from_compaction() -> Result<()> {
    recovers(Config::default()).await
}

#[tokio::test(start_paused = true)]
async fn watcher_with_small_pages_recovers_from_compaction() -> Result<()> {
    recovers(Config::default().page_size(1)).await
}

#[tokio::test(start_paused = true)]
async fn watcher_with_streaming_lists_recovers_from_compaction() -> Result<()> {
    recovers(Config::default().streaming_lists()).await
}

async fn recovers(config: Config) -> Result<()> {
    let server = Server::new();
    let api = config_maps(&server);
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &config_map(name, &[])).await?;
    }
    let mut stream = pin!(watcher(api.clone(), config).default_backoff());
    assert_eq!(events(&mut stream, 4).await?, ["init", "lists a", "lists b", "done"]);
    api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": "v"}}))).await?;
    assert_eq!(events(&mut stream, 1).await?, ["applies a"]);

    // While the connection is closed, the history after the version of the watch is also dropped.
    let cut = server.cut_watches(&RequestMatch::any());
    assert_eq!(cut, 1);
    api.delete("a", &DeleteParams::default()).await?;
    api.create(&PostParams::default(), &config_map("c", &[])).await?;
    server.compact();
    assert_eq!(events(&mut stream, 4).await?, ["init", "lists b", "lists c", "done"]);
    api.delete("b", &DeleteParams::default()).await?;
    assert_eq!(events(&mut stream, 1).await?, ["deletes b"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn watcher_resumes_after_closed_watch() -> Result<()> {
    let server = Server::new();
    let api = config_maps(&server);
    let mut stream = pin!(watcher(api.clone(), Config::default()).default_backoff());
    assert_eq!(events(&mut stream, 2).await?, ["init", "done"]);
    api.create(&PostParams::default(), &config_map("a", &[])).await?;
    assert_eq!(events(&mut stream, 1).await?, ["applies a"]);
    server.close_watches();
    api.delete("a", &DeleteParams::default()).await?;
    assert_eq!(events(&mut stream, 1).await?, ["deletes a"]);
    let requests = server.journal().requests();
    assert_eq!(requests.iter().filter(|request| request.info.verb == Verb::List).count(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn watcher_with_selector_gets_objects_that_start_and_stop_matching() -> Result<()> {
    let server = Server::new();
    let api = config_maps(&server);
    let config = Config::default().labels("app=web").fields("metadata.name!=hidden");
    let partial: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(client(&server));
    let mut whole = pin!(watcher(api.clone(), config.clone()));
    let mut metadata = pin!(watcher(partial, config));
    assert_eq!(events(&mut whole, 2).await?, ["init", "done"]);
    assert_eq!(events(&mut metadata, 2).await?, ["init", "done"]);
    for name in ["one", "hidden"] {
        api.create(&PostParams::default(), &config_map(name, &[("app", "web")])).await?;
    }
    let other = json!({"metadata": {"labels": {"app": "other"}}});
    api.patch("one", &PatchParams::default(), &Patch::Merge(other)).await?;
    assert_eq!(events(&mut whole, 2).await?, ["applies one", "deletes one"]);
    assert_eq!(events(&mut metadata, 2).await?, ["applies one", "deletes one"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn reflector_updates_store() -> Result<()> {
    let server = Server::new();
    let api = config_maps(&server);
    api.create(&PostParams::default(), &config_map("a", &[])).await?;
    let (store, writer) = reflector::store::<ConfigMap>();
    let mut stream = pin!(reflector(writer, watcher(api.clone(), Config::default())).default_backoff());
    events(&mut stream, 3).await?;
    store.wait_until_ready().await?;
    api.create(&PostParams::default(), &config_map("b", &[])).await?;
    api.delete("a", &DeleteParams::default()).await?;
    events(&mut stream, 2).await?;
    let held: Vec<String> = store.state().iter().map(|object| object.name_any()).collect();
    assert_eq!(held, ["b"]);
    Ok(())
}
