//! Kinds that are installed and removed while the server runs.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::custom::{LOOK_AGAIN, wait_established};
use super::place::Place;
use super::raw::{Event, Watch};
use super::values::{item, items, names, version};

checks! {
    "A kind is served soon after its CRD is created, without a restart.":
        installed_kind_is_served, installed_kind_is_established, installed_kind_is_watched;
    "Items of a custom kind contain kind and apiVersion, and a create requires both.":
        custom_items_contain_their_kind, custom_create_requires_kind;
    "A custom kind with a status part counts changes of the spec in its generation.":
        custom_status_is_written_separately;
    "Only the selectableFields of a CRD can be used in field selectors.":
        custom_fields_are_selected_by;
    "All served versions of a kind show the same objects, each with its own apiVersion.":
        versions_share_their_objects;
    "If a CRD changes, the server closes its watches without an error, and continues to serve the kind.":
        change_of_kind_closes_its_watches;
    "After the delete of a CRD, watches get DELETED for its objects and close without an error, and requests fail with 404.":
        removal_of_kind_closes_its_watches, removed_kind_is_not_found, reinstalled_kind_is_empty;
    "If a version is no longer served, its watches close without an error, requests fail with 404, and objects remain stored.":
        unserved_version_closes_its_watches, objects_outlive_a_time_without_service;
}

/// The kind `Widget` in a group that belongs to one check.
struct Widgets<'a> {
    place: &'a Place,
    group: String,
}

impl<'a> Widgets<'a> {
    /// Installs the kind and waits until it is served.
    async fn install(place: &'a Place) -> Result<Self> {
        let widgets = Self { place, group: format!("{}.test", place.namespace) };
        place.admin().post(CRDS, &widgets.definition()).await?.expect(201)?;
        wait_established(place, &widgets.crd()).await?;
        widgets.wait_served().await?;
        Ok(widgets)
    }

    fn definition(&self) -> Value {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "color": {"type": "string"}, "size": {"type": "integer", "minimum": 1},
            }},
            "status": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
        }});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{}", self.group)},
            "spec": {
                "group": self.group, "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                    "selectableFields": [{"jsonPath": ".spec.color"}],
                }],
            },
        })
    }

    fn crd(&self) -> String {
        format!("{CRDS}/widgets.{}", self.group)
    }

    fn all(&self) -> String {
        format!("/apis/{}/v1/namespaces/{}/widgets", self.group, self.place.namespace)
    }

    fn one(&self, name: &str) -> String {
        format!("{}/{name}", self.all())
    }

    async fn wait_served(&self) -> Result<()> {
        while self.place.admin().get(&self.all()).await?.status != 200 {
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    async fn wait_not_found(&self) -> Result<()> {
        while self.place.admin().get(&self.all()).await?.status != 404 {
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    fn widget(&self, name: &str) -> Value {
        json!({
            "apiVersion": format!("{}/v1", self.group), "kind": "Widget", "metadata": {"name": name},
            "spec": {"color": "red"},
        })
    }

    async fn create(&self, name: &str) -> Result<Value> {
        self.place.admin().post(&self.all(), &self.widget(name)).await?.expect(201)
    }

    async fn watch(&self, from: &Value) -> Result<Watch> {
        let path = format!("{}?watch=true&resourceVersion={}", self.all(), version(from)?);
        self.place.admin().watch(&path).await
    }

    /// Deletes the CRD and waits until the kind is removed, so that it can be installed a second time.
    async fn remove(&self) -> Result<()> {
        self.place.admin().delete(&self.crd()).await?.ok()?;
        while self.place.admin().get(&self.crd()).await?.status != 404 {
            sleep(LOOK_AGAIN).await;
        }
        self.wait_not_found().await
    }

    async fn change_versions(&self, change: impl FnOnce(&mut Vec<Value>)) -> Result<()> {
        let mut definition = self.place.admin().get(&self.crd()).await?.ok()?;
        let versions = definition["spec"]["versions"].as_array_mut().context("a CRD has versions")?;
        change(versions);
        let patch = json!({"spec": {"versions": versions}});
        self.place.admin().patch(&self.crd(), &patch).await?.ok()?;
        Ok(())
    }

    async fn set_served(&self, served: bool) -> Result<()> {
        self.change_versions(|versions| versions[0]["served"] = served.into()).await
    }
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn installed_kind_is_served(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    ensure!(names(&place.admin().get(&widgets.all()).await?.ok()?).is_empty());
    let created = widgets.create("w").await?;
    ensure!(place.admin().get(&widgets.one("w")).await?.ok()? == created);
    let list = place.admin().get(&widgets.all()).await?.ok()?;
    ensure!(names(&list) == ["w"] && list["kind"] == "WidgetList", "{list}");
    Ok(())
}

async fn installed_kind_is_established(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    let definition = place.admin().get(&widgets.crd()).await?.ok()?;
    let conditions = definition["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    for kind in ["Established", "NamesAccepted"] {
        let is_it = |condition: &&Value| condition["type"] == kind && condition["status"] == "True";
        ensure!(conditions.iter().any(|condition| is_it(&condition)), "not {kind}: {definition}");
    }
    Ok(())
}

async fn installed_kind_is_watched(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    let first = widgets.create("w").await?;
    let mut watch = widgets.watch(&first).await?;
    let patch = json!({"spec": {"color": "blue"}});
    let changed = place.admin().patch(&widgets.one("w"), &patch).await?.ok()?;
    ensure!(watch.expect("MODIFIED", "w").await? == changed);
    place.admin().delete(&widgets.one("w")).await?.ok()?;
    watch.expect("DELETED", "w").await?;
    Ok(())
}

async fn custom_items_contain_their_kind(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    let created = widgets.create("w").await?;
    let list = place.admin().get(&widgets.all()).await?.ok()?;
    ensure!(*item(&list, "w")? == created && created["kind"] == "Widget", "{list}");
    Ok(())
}

async fn custom_create_requires_kind(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    let body = json!({"metadata": {"name": "w"}});
    place.admin().post(&widgets.all(), &body).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn custom_status_is_written_separately(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    widgets.create("w").await?;
    let both = json!({"spec": {"color": "blue"}, "status": {"ok": true}});
    let spec = place.admin().patch(&widgets.one("w"), &both).await?.ok()?;
    ensure!(spec["metadata"]["generation"] == 2 && spec.get("status").is_none(), "{spec}");
    let status = place.admin().patch(&widgets.one("w/status"), &both).await?.ok()?;
    ensure!(status["metadata"]["generation"] == 2 && status["status"] == json!({"ok": true}), "{status}");
    Ok(())
}

async fn custom_fields_are_selected_by(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    widgets.create("a").await?;
    let mut blue = widgets.widget("b");
    blue["spec"]["color"] = "blue".into();
    place.admin().post(&widgets.all(), &blue).await?.expect(201)?;
    for (selector, expected) in
        [("spec.color%3Dblue", ["b"]), ("spec.color!%3Dblue,metadata.name!%3Dc", ["a"])]
    {
        let list = place.admin().get(&format!("{}?fieldSelector={selector}", widgets.all())).await?.ok()?;
        ensure!(names(&list) == expected, "{selector}: {list}");
    }
    let path = format!("{}?fieldSelector=spec.size%3D1", widgets.all());
    place.admin().get(&path).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn versions_share_their_objects(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    let created = widgets.create("w").await?;
    let other = widgets.all().replace("/v1/", "/v2/");
    widgets
        .change_versions(|versions| {
            let mut second = versions[0].clone();
            second["name"] = "v2".into();
            second["storage"] = false.into();
            versions.push(second);
        })
        .await?;
    while place.admin().get(&other).await?.status != 200 {
        sleep(LOOK_AGAIN).await;
    }
    let mut expected = created.clone();
    expected["apiVersion"] = format!("{}/v2", widgets.group).into();
    let list = place.admin().get(&other).await?.ok()?;
    ensure!(list["apiVersion"] == expected["apiVersion"] && *item(&list, "w")? == expected, "{list}");
    let mut watch = place.admin().watch(&format!("{other}?watch=true")).await?;
    ensure!(watch.expect("ADDED", "w").await? == expected);
    let patch = json!({"spec": {"color": "blue"}});
    place.admin().patch(&widgets.one("w"), &patch).await?.ok()?;
    ensure!(watch.expect("MODIFIED", "w").await?["apiVersion"] == expected["apiVersion"]);
    Ok(())
}

async fn change_of_kind_closes_its_watches(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    let created = widgets.create("w").await?;
    let mut watch = widgets.watch(&created).await?;
    widgets
        .change_versions(|versions| {
            versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["more"] =
                json!({"type": "string"});
        })
        .await?;
    watch.expect_end().await?;
    widgets.wait_served().await?;
    ensure!(place.admin().get(&widgets.one("w")).await?.ok()? == created);
    Ok(())
}

async fn removal_of_kind_closes_its_watches(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    let last = [widgets.create("v").await?, widgets.create("w").await?];
    let mut watch = widgets.watch(&last[1]).await?;
    place.admin().delete(&widgets.crd()).await?.ok()?;
    let mut events = watch.rest().await?;
    events.sort_by(|one, other| one.brief().cmp(&other.brief()));
    let events: Vec<_> = events.iter().map(Event::brief).collect();
    ensure!(events == [("DELETED", "v"), ("DELETED", "w")], "{events:?}");
    Ok(())
}

async fn removed_kind_is_not_found(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    widgets.create("w").await?;
    widgets.remove().await?;
    for query in ["", "?watch=true&resourceVersion=1"] {
        let reply = place.admin().get(&format!("{}{query}", widgets.all())).await?;
        ensure!(reply.status == 404 && reply.text == "404 page not found\n", "{reply}");
    }
    Ok(())
}

async fn reinstalled_kind_is_empty(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    let first = widgets.create("w").await?;
    widgets.remove().await?;
    let widgets = Widgets::install(&place).await?;
    let list = place.admin().get(&widgets.all()).await?.ok()?;
    ensure!(items(&list).is_empty() && version(&list)? > version(&first)?, "{list}");
    widgets.create("w").await?;
    Ok(())
}

async fn unserved_version_closes_its_watches(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    let mut watch = widgets.watch(&widgets.create("w").await?).await?;
    widgets.set_served(false).await?;
    watch.expect_end().await?;
    widgets.wait_not_found().await
}

async fn objects_outlive_a_time_without_service(place: Place) -> Result<()> {
    let widgets = Widgets::install(&place).await?;
    let created = widgets.create("w").await?;
    widgets.set_served(false).await?;
    widgets.wait_not_found().await?;
    widgets.set_served(true).await?;
    widgets.wait_served().await?;
    ensure!(place.admin().get(&widgets.one("w")).await?.ok()? == created);
    Ok(())
}
