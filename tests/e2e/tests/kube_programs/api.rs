//! The methods of `Api` for objects, metadata and collections.

use std::pin::pin;

use anyhow::{Context as _, Result};
use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::entry::Entry;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    ResourceExt as _, WatchEvent, WatchParams,
};
use kube::core::Status;
use kube_testserver::Server;
use serde_json::json;

use crate::{config_map, config_maps};

fn names<'a>(objects: impl IntoIterator<Item = &'a ConfigMap>) -> Vec<String> {
    objects.into_iter().map(kube::ResourceExt::name_any).collect()
}

/// Returns the status of an error response.
fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("{other:?} is not an error response"),
    }
}

#[tokio::test]
async fn objects_are_created_read_replaced_and_deleted() -> Result<()> {
    let server = Server::new();
    let api = config_maps(&server);
    let mut one = api.create(&PostParams::default(), &config_map("one", &[])).await?;
    assert!(refusal(api.create(&PostParams::default(), &config_map("one", &[])).await).is_already_exists());

    one.data = Some([("k".to_owned(), "v".to_owned())].into());
    let replaced = api.replace("one", &PostParams::default(), &one).await?;
    assert_eq!(api.get("one").await?.data, replaced.data);
    assert!(refusal(api.replace("one", &PostParams::default(), &one).await).is_conflict());

    let dry = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&dry, &config_map("dry", &[])).await?;
    assert_eq!(api.get_opt("dry").await?, None);

    let other = Preconditions { uid: Some("other".to_owned()), resource_version: None };
    assert!(refusal(api.delete("one", &DeleteParams::default().preconditions(other)).await).is_conflict());
    let uid = api
        .delete("one", &DeleteParams::default())
        .await?
        .right()
        .context("the object is deleted immediately")?;
    assert_eq!(uid.details.map(|details| details.uid), one.uid());
    assert!(refusal(api.get("one").await).is_not_found());
    Ok(())
}

#[tokio::test]
async fn each_kind_of_patch_changes_an_object() -> Result<()> {
    let server = Server::new();
    let api = config_maps(&server);
    api.create(&PostParams::default(), &config_map("one", &[])).await?;
    let params = PatchParams::default();

    let merged = api.patch("one", &params, &Patch::Merge(json!({"data": {"a": "1", "b": "2"}}))).await?;
    let strategic = api.patch("one", &params, &Patch::Strategic(json!({"data": {"c": "3"}}))).await?;
    let patch: json_patch_of_kube::Patch =
        serde_json::from_value(json!([{"op": "remove", "path": "/data/a"}]))?;
    let by_json = api.patch("one", &params, &Patch::Json::<()>(patch)).await?;
    let data = |object: &ConfigMap| object.data.clone().unwrap_or_default().into_keys().collect::<String>();
    assert_eq!([&merged, &strategic, &by_json].map(data), ["ab", "abc", "bc"]);

    let metadata = json!({"metadata": {"labels": {"app": "web"}}});
    let patched = api.patch_metadata("one", &params, &Patch::Merge(metadata)).await?;
    assert_eq!(patched.labels().get("app").map(String::as_str), Some("web"));
    let unchanged = api.patch("one", &params, &Patch::Merge(json!({"data": {"b": "2"}}))).await?;
    assert_eq!(unchanged.resource_version(), patched.resource_version());
    Ok(())
}

#[tokio::test]
async fn appliers_own_applied_fields() -> Result<()> {
    let server = Server::new();
    let api = config_maps(&server);
    let value = |value: &str| {
        Patch::Apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"k": value},
        }))
    };
    let first = api.patch("one", &PatchParams::apply("first"), &value("v")).await?;
    let again = api.patch("one", &PatchParams::apply("first"), &value("v")).await?;
    assert_eq!(first.resource_version(), again.resource_version());
    assert!(refusal(api.patch("one", &PatchParams::apply("second"), &value("w")).await).is_conflict());

    let forced = api.patch("one", &PatchParams::apply("second").force(), &value("w")).await?;
    assert_eq!(forced.data, Some([("k".to_owned(), "w".to_owned())].into()));
    let managers: Vec<_> =
        forced.managed_fields().iter().filter_map(|fields| fields.manager.clone()).collect();
    assert_eq!(managers, ["second"]);
    Ok(())
}

#[tokio::test]
async fn collections_are_listed_in_pages_and_by_selectors_and_deleted() -> Result<()> {
    let server = Server::new();
    let api = config_maps(&server);
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web"), ("d", "web"), ("e", "db")] {
        api.create(&PostParams::default(), &config_map(name, &[("app", app)])).await?;
    }
    let mut pages = Vec::new();
    let mut params = ListParams::default().limit(2);
    loop {
        let page = api.list(&params).await?;
        pages.push((names(&page.items), page.metadata.remaining_item_count));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    let page = |names: &[&str], left| (names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), left);
    assert_eq!(pages, [page(&["a", "b"], Some(3)), page(&["c", "d"], Some(1)), page(&["e"], None)]);

    let web = ListParams::default().labels("app in (web)").fields("metadata.name!=c");
    assert_eq!(names(&api.list(&web).await?.items), ["a", "d"]);
    let partial = api.list_metadata(&web).await?;
    assert_eq!(partial.items.iter().map(|object| object.name_any()).collect::<Vec<_>>(), ["a", "d"]);
    assert_eq!(api.get_metadata("a").await?.labels().get("app").map(String::as_str), Some("web"));
    assert!(refusal(api.list(&ListParams::default().fields("data.k=v")).await).code == 400);

    let deleted = api.delete_collection(&DeleteParams::default(), &web).await?;
    assert_eq!(names(&deleted.left().context("a list of the deleted objects")?.items), ["a", "d"]);
    assert_eq!(names(&api.list(&ListParams::default()).await?.items), ["b", "c", "e"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn watches_send_changes_and_close_after_timeout() -> Result<()> {
    let server = Server::new();
    let api = config_maps(&server);
    let start = api.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    api.create(&PostParams::default(), &config_map("one", &[])).await?;
    api.patch("one", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": "v"}}))).await?;
    api.delete("one", &DeleteParams::background()).await?;

    let params = WatchParams::default().timeout(5).fields("metadata.name=one");
    let whole: Vec<&str> = kinds(pin!(api.watch(&params, &start).await?)).await?;
    let metadata: Vec<&str> = kinds(pin!(api.watch_metadata(&params, &start).await?)).await?;
    assert_eq!(whole, ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]);
    assert_eq!(metadata, whole);
    Ok(())
}

async fn kinds<K>(
    events: impl futures_util::Stream<Item = kube::Result<WatchEvent<K>>>,
) -> Result<Vec<&'static str>> {
    let kind = |event| match event {
        WatchEvent::Added(_) => "ADDED",
        WatchEvent::Modified(_) => "MODIFIED",
        WatchEvent::Deleted(_) => "DELETED",
        WatchEvent::Bookmark(_) => "BOOKMARK",
        WatchEvent::Error(_) => "ERROR",
    };
    Ok(events.map_ok(kind).try_collect().await?)
}

#[tokio::test]
async fn entry_is_created_or_changed() -> Result<()> {
    let server = Server::new();
    let api = config_maps(&server);
    for round in 0..2 {
        let entry = api.entry("one").await?;
        assert_eq!(matches!(entry, Entry::Occupied(_)), round == 1);
        let mut entry = entry.or_insert(|| config_map("one", &[])).and_modify(|object| {
            object.data.get_or_insert_default().insert(format!("round-{round}"), String::new());
        });
        entry.commit(&PostParams::default()).await?;
    }
    assert_eq!(api.get("one").await?.data.map(|data| data.len()), Some(2));
    Ok(())
}

#[tokio::test]
async fn deletion_waits_for_finalizers() -> Result<()> {
    let server = Server::new();
    let api: Api<ConfigMap> = config_maps(&server);
    let mut held = config_map("held", &[]);
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    api.create(&PostParams::default(), &held).await?;
    let policy =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    let going = api.delete("held", &policy).await?.left().context("the object still exists")?;
    assert!(going.metadata.deletion_timestamp.is_some());
    api.patch("held", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}})))
        .await?;
    assert_eq!(api.get_opt("held").await?, None);
    Ok(())
}
