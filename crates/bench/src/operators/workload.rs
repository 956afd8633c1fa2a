//! The operators that are measured, and their objects.

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube_client::core::GroupVersionKind;
use kube_client::{Api, Client, ResourceExt as _};
use kube_informer_operators::cluster::read_crd;
use kube_runtime::wait::{await_condition, conditions::is_crd_established};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;

/// The number of namespaces that contain objects.
const NAMESPACES: usize = 20;
/// The prefix of the names of the objects.
const NAME_PREFIX: &str = "site-";
/// The number of objects that are created concurrently.
const CREATE_CONCURRENCY: usize = 16;
/// The field manager of the objects. It must not be the default field manager of an operator, because
/// their entries in `managedFields` would be merged, and the objects would be smaller.
const FIELD_MANAGER: &str = "kube-bench";
/// The time limit until a CRD is established.
const CRD_LIMIT: Duration = Duration::from_secs(30);

/// Identifies an operator in examples/operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Operator {
    /// Creates three children for each Website.
    Website,
    /// Polls a storage service for each Bucket.
    Bucket,
}

impl Operator {
    /// All operators, in the order of the tables.
    pub(super) const ALL: [Self; 2] = [Self::Website, Self::Bucket];

    /// Returns the name of the operator, which is also the name of its folder.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Website => "website",
            Self::Bucket => "bucket",
        }
    }

    /// Returns the kind of the reconciled objects.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Website => "Website",
            Self::Bucket => "Bucket",
        }
    }

    /// Returns the number of watched types.
    pub(super) fn watched_types(self) -> u64 {
        match self {
            Self::Website => 4,
            Self::Bucket => 1,
        }
    }

    /// Returns the resource of the reconciled objects.
    pub(super) fn resource(self) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", self.kind()))
    }

    /// Installs the CRD, the namespaces and `objects` objects.
    pub(super) async fn fill(self, client: &Client, objects: usize) -> Result<()> {
        self.install_crd(client).await?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for number in 0..NAMESPACES {
            let namespace = serde_json::from_value(json!({"metadata": {"name": namespace(number)}}))?;
            namespaces.create(&PostParams::default(), &namespace).await?;
        }
        let create = |number| async move {
            let object = DynamicObject::new(&name(number), &self.resource())
                .within(&namespace(number))
                .data(json!({"spec": self.spec(number, 1)}));
            let field_manager = Some(FIELD_MANAGER.to_owned());
            let params = PostParams { field_manager, ..PostParams::default() };
            self.api(client, number).create(&params, &object).await.map(drop)
        };
        let creating = stream::iter(0..objects).map(create).buffer_unordered(CREATE_CONCURRENCY);
        creating.try_collect::<()>().await.context("cannot create the objects")
    }

    async fn install_crd(self, client: &Client) -> Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let definition = serde_json::from_value(read_crd(self.name())?)?;
        let name = definitions.create(&PostParams::default(), &definition).await?.name_any();
        let established = await_condition(definitions, &name, is_crd_established());
        timeout(CRD_LIMIT, established).await.with_context(|| format!("{name} is not established"))??;
        Ok(())
    }

    /// Changes the spec of an object.
    pub(super) async fn change(self, client: &Client, number: usize) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": self.spec(number, 2)}));
        let name = name(number);
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patched = self.api(client, number).patch(&name, &params, &patch).await;
        patched.map(drop).with_context(|| format!("cannot change {name}"))
    }

    fn api(self, client: &Client, number: usize) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), &namespace(number), &self.resource())
    }

    /// Returns the spec of an object. Revisions differ in page and image, or in the quota.
    fn spec(self, number: usize, revision: usize) -> Value {
        match self {
            Self::Website => {
                let line =
                    format!("<p>Website {number}, revision {revision}: the content is not relevant.</p>\n");
                let html = format!("<!doctype html>\n<title>{number}</title>\n{}", line.repeat(5));
                json!({"image": format!("registry.example.com/server:1.{revision}"), "replicas": 2, "html": html})
            }
            Self::Bucket => json!({"region": "north", "quota": 1_000 * revision}),
        }
    }
}

/// Returns the namespace of an object.
fn namespace(number: usize) -> String {
    format!("team-{:02}", number % NAMESPACES)
}

/// Returns the name of an object.
fn name(number: usize) -> String {
    format!("{NAME_PREFIX}{number:05}")
}

/// Returns the number of the object with this name.
pub(super) fn number(name: &str) -> Option<usize> {
    name.strip_prefix(NAME_PREFIX)?.parse().ok()
}
