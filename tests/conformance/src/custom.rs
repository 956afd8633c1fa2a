//! A custom kind for one check. The check installs, serves and changes it.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::place::Place;
use super::raw::Reply;
use super::values::version;

pub(super) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The interval between two reads of a server that applies a change with a delay.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The kind `Widget` with a schema, in a separate group.
pub(super) struct Custom<'a> {
    pub(super) place: &'a Place,
    pub(super) group: String,
}

impl<'a> Custom<'a> {
    /// Installs the kind in the one version `v1` and waits until it is served.
    pub(super) async fn install(place: &'a Place, schema: Value, subresources: Value) -> Result<Self> {
        let version = json!({"name": "v1", "served": true, "storage": true, "subresources": subresources,
            "schema": {"openAPIV3Schema": schema}});
        Self::install_versions(place, json!([version])).await
    }

    pub(super) async fn install_versions(place: &'a Place, versions: Value) -> Result<Self> {
        Self::install_converted(place, versions, json!({"strategy": "None"})).await
    }

    pub(super) async fn install_converted(
        place: &'a Place,
        versions: Value,
        conversion: Value,
    ) -> Result<Self> {
        let kind = Self { place, group: format!("{}.test", place.namespace) };
        let mut definition = kind.definition("widgets", "Widget", versions);
        definition["spec"]["conversion"] = conversion;
        place.admin().post(CRDS, &definition).await?.expect(201)?;
        wait_established(place, &kind.crd("widgets")).await?;
        kind.wait_served(&kind.all()).await?;
        Ok(kind)
    }

    /// A CRD of the group, without the names that have defaults.
    pub(super) fn definition(&self, plural: &str, kind: &str, versions: Value) -> Value {
        let mut crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{}", self.group)},
            "spec": {"group": self.group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind}},
        });
        crd["spec"]["versions"] = versions;
        crd
    }

    /// The path of the CRD with this plural.
    pub(super) fn crd(&self, plural: &str) -> String {
        format!("{CRDS}/{plural}.{}", self.group)
    }

    pub(super) async fn read_crd(&self) -> Result<Value> {
        self.place.admin().get(&self.crd("widgets")).await?.ok()
    }

    pub(super) fn all(&self) -> String {
        self.all_in("v1")
    }

    pub(super) fn all_in(&self, version: &str) -> String {
        format!("/apis/{}/{version}/namespaces/{}/widgets", self.group, self.place.namespace)
    }

    pub(super) fn one(&self, name: &str) -> String {
        format!("{}/{name}", self.all())
    }

    pub(super) fn widget(&self, version: &str, name: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": format!("{}/{version}", self.group), "kind": "Widget", "metadata": {"name": name},
            "spec": spec,
        })
    }

    pub(super) async fn try_create(&self, name: &str, spec: &Value) -> Result<Reply> {
        let path = format!("{}?dryRun=All", self.all());
        self.place.admin().post(&path, &self.widget("v1", name, spec)).await
    }

    pub(super) async fn create(&self, name: &str, spec: Value) -> Result<Value> {
        self.place.admin().post(&self.all(), &self.widget("v1", name, &spec)).await?.expect(201)
    }

    pub(super) async fn wait_served(&self, path: &str) -> Result<()> {
        while self.place.admin().get(path).await?.status != 200 {
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Changes the schema of `v1` and waits until the server uses it. The change closes watches.
    pub(super) async fn change_schema(&self, seen: &Value, schema: Value) -> Result<()> {
        let mut watch = {
            let path = format!("{}?watch=true&resourceVersion={}", self.all(), version(seen)?);
            self.place.admin().watch(&path).await?
        };
        let mut versions = self.read_crd().await?["spec"]["versions"].clone();
        versions[0]["schema"]["openAPIV3Schema"] = schema;
        let patched =
            self.place.admin().patch(&self.crd("widgets"), &json!({"spec": {"versions": versions}})).await?;
        ensure!(patched.status == 200, "{patched}");
        watch.expect_end().await
    }
}

/// Waits until a CRD is Established. A server serves the kind shortly before, when its names are
/// accepted. Only the names and the scope of an established CRD are immutable.
pub(super) async fn wait_established(place: &Place, crd: &str) -> Result<()> {
    loop {
        let definition = place.admin().get(crd).await?.ok()?;
        let conditions = definition["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        if conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True") {
            return Ok(());
        }
        sleep(LOOK_AGAIN).await;
    }
}
