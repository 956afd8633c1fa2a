//! The directory of all sites: a ConfigMap in the namespace of the operator, with an entry for each
//! site.
//!
//! Owner references cannot refer to another namespace, so the garbage collector does not remove the
//! entry of a deleted site. A finalizer removes it.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube_client::{
    Error,
    api::{Patch, PatchParams, PostParams},
};
use kube_informer::CachedApi;
use kube_operator::Failure;
use serde_json::{Value, json};

use super::Website;

/// The name of the ConfigMap. It contains dots, so it differs from the name of every site and its
/// ConfigMap.
pub const DIRECTORY: &str = "websites.examples.kube-informer.dev";

pub(super) struct Directory {
    /// The ConfigMaps of the operator's namespace.
    maps: CachedApi<ConfigMap>,
}

impl Directory {
    pub(super) fn new(maps: CachedApi<ConfigMap>) -> Self {
        Self { maps }
    }

    /// Adds the entry of a site if it is missing.
    pub(super) async fn add(&self, site: &Website) -> Result<(), Failure> {
        let (key, url) = (key(site), url(site));
        let directory = self.maps.get(DIRECTORY).await?;
        let entries = directory.as_ref().and_then(|map| map.data.as_ref());
        if entries.and_then(|entries| entries.get(&key)) == Some(&url) {
            return Ok(());
        }
        if directory.is_none() {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(DIRECTORY.to_owned());
            match self.maps.create(&PostParams::default(), &map).await {
                Err(Error::Api(status)) if status.is_already_exists() => {}
                created => drop(created?),
            }
        }
        self.patch(&json!({"data": {key: url}})).await?;
        Ok(())
    }

    /// Removes the entry of a site. Does not read the cache, which may lag: a cleanup is not
    /// repeated.
    pub(super) async fn remove(&self, site: &Website) -> Result<(), Failure> {
        match self.patch(&json!({"data": {key(site): null}})).await {
            Err(Error::Api(status)) if status.is_not_found() => Ok(()),
            patched => Ok(patched?),
        }
    }

    /// Patches one entry. Workers write entries of different sites concurrently, so each patch
    /// contains only one.
    async fn patch(&self, patch: &Value) -> kube_client::Result<()> {
        self.maps.patch(DIRECTORY, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }
}

fn key(site: &Website) -> String {
    format!("{}.{}", site.namespace().unwrap_or_default(), site.name_any())
}

/// Returns the URL of a site within the cluster.
fn url(site: &Website) -> String {
    format!("http://{}.{}.svc", site.name_any(), site.namespace().unwrap_or_default())
}
