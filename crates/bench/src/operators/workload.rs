//! The Websites of the comparison: their names, namespaces and specs, and the code that creates
//! them on a server.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::api::PostParams;
use kube_client::{Api, Client, ResourceExt as _};
use kube_runtime::wait::{await_condition, conditions::is_crd_established};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::website::{Website, WebsiteSpec, definition};

/// The number of namespaces that contain Websites.
pub(crate) const NAMESPACES: usize = 20;
/// The prefix of the names of these namespaces.
const NAMESPACE_PREFIX: &str = "team-";
/// The prefix of the names of Websites.
const NAME_PREFIX: &str = "site-";
/// The number of Websites that are created concurrently.
const CREATE_CONCURRENCY: usize = 16;
const CRD_TIMEOUT: Duration = Duration::from_secs(30);

/// Installs the CRD, the namespaces and `objects` Websites on a server.
pub(super) async fn fill(client: &Client, objects: usize) -> Result<()> {
    install_crd(client).await?;
    let params = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for number in 0..NAMESPACES {
        let namespace = serde_json::from_value(json!({"metadata": {"name": namespace(number)}}))?;
        namespaces.create(&params, &namespace).await?;
    }
    let create = |number| {
        let api: Api<Website> = Api::namespaced(client.clone(), &namespace(number));
        let (website, params) = (Website::new(&name(number), spec(number, 1)), &params);
        async move { api.create(params, &website).await.map(drop) }
    };
    Ok(stream::iter(0..objects).map(create).buffer_unordered(CREATE_CONCURRENCY).try_collect().await?)
}

async fn install_crd(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = serde_json::from_value(definition())?;
    let name = definitions.create(&PostParams::default(), &definition).await?.name_any();
    let established = await_condition(definitions, &name, is_crd_established());
    timeout(CRD_TIMEOUT, established).await.context("the CRD of Websites is not established")??;
    Ok(())
}

/// Returns the namespace of a Website.
pub(crate) fn namespace(number: usize) -> String {
    format!("{NAMESPACE_PREFIX}{:02}", number % NAMESPACES)
}

/// Returns true if a namespace contains Websites. A server also has other namespaces.
pub(super) fn has_websites(namespace: &str) -> bool {
    namespace.starts_with(NAMESPACE_PREFIX)
}

/// Returns the name of a Website.
pub(crate) fn name(number: usize) -> String {
    format!("{NAME_PREFIX}{number:05}")
}

/// Returns the number of the Website with this name.
pub(crate) fn number(name: &str) -> Option<usize> {
    name.strip_prefix(NAME_PREFIX)?.parse().ok()
}

/// Returns the spec of a Website. Revisions differ in page and image.
pub(super) fn spec(number: usize, revision: usize) -> WebsiteSpec {
    let line =
        format!("<p>Website {number}, revision {revision}: what is served here is of no interest.</p>\n");
    let html = format!("<!doctype html>\n<title>{number}</title>\n{}", line.repeat(5));
    WebsiteSpec { image: format!("registry.example.com/server:1.{revision}"), replicas: 2, html }
}

/// Returns the spec of a Website as JSON.
pub(crate) fn spec_json(number: usize, revision: usize) -> Value {
    json!(spec(number, revision))
}
