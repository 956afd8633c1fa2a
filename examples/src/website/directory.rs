//! The directory of all sites: a ConfigMap in the operator's own namespace with a line for each. No owner reference reaches
//! there from other namespaces, so that a site's line has to be taken out before the site is gone: that is what finalizers are
//! for.

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

/// The ConfigMap's name. No site's page has it: sites have no dots in their names.
pub const DIRECTORY: &str = "websites.examples.kube-informer.dev";

pub(super) struct Directory {
    /// Of the operator's namespace.
    maps: CachedApi<ConfigMap>,
}

impl Directory {
    pub(super) fn new(maps: CachedApi<ConfigMap>) -> Self {
        Self { maps }
    }

    /// Lists a site, if it is not.
    pub(super) async fn add(&self, site: &Website) -> Result<(), Failure> {
        let (key, line) = (key(site), address(site));
        let directory = self.maps.get(DIRECTORY).await?;
        let lines = directory.as_ref().and_then(|map| map.data.as_ref());
        if lines.and_then(|lines| lines.get(&key)) == Some(&line) {
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
        self.patch(&json!({"data": {key: line}})).await?;
        Ok(())
    }

    /// Takes a site out. The cache is not asked whether it is in: it may be behind, and nobody comes back here.
    pub(super) async fn remove(&self, site: &Website) -> Result<(), Failure> {
        match self.patch(&json!({"data": {key(site): null}})).await {
            Err(Error::Api(status)) if status.is_not_found() => Ok(()),
            patched => Ok(patched?),
        }
    }

    /// Lines of different sites are written at once: each by a patch of its own line.
    async fn patch(&self, patch: &Value) -> kube_client::Result<()> {
        self.maps.patch(DIRECTORY, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }
}

fn key(site: &Website) -> String {
    format!("{}.{}", site.namespace().unwrap_or_default(), site.name_any())
}

/// Where visitors find it, within the cluster.
fn address(site: &Website) -> String {
    format!("http://{}.{}.svc", site.name_any(), site.namespace().unwrap_or_default())
}
