//! Writes the CA bundle into webhook configurations and CRDs.

use std::iter;

use json_patch_of_kube::{
    AddOperation, Patch as JsonPatch, PatchOperation, TestOperation, jsonptr::PointerBuf,
};
use k8s_openapi::ByteString;
use kube_client::{
    Api, Client, Error,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

/// Identifies an object that contains the CA bundle of webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CaBundleTarget {
    /// All webhooks of a ValidatingWebhookConfiguration.
    Validating(String),
    /// All webhooks of a MutatingWebhookConfiguration.
    Mutating(String),
    /// The conversion webhook of a CRD, for example `websites.example.com`.
    Crd(String),
}

impl CaBundleTarget {
    fn resource(&self) -> (ApiResource, &str) {
        let (group, kind, plural, name) = match self {
            Self::Validating(name) => (
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration",
                "validatingwebhookconfigurations",
                name,
            ),
            Self::Mutating(name) => (
                "admissionregistration.k8s.io",
                "MutatingWebhookConfiguration",
                "mutatingwebhookconfigurations",
                name,
            ),
            Self::Crd(name) => {
                ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", name)
            }
        };
        (ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural), name)
    }

    /// Returns the name of the object.
    pub(super) fn name(&self) -> &str {
        let (Self::Validating(name) | Self::Mutating(name) | Self::Crd(name)) = self;
        name
    }

    /// Returns the group, the plural name of the resource, and the name of the object.
    pub(crate) fn parts(&self) -> (String, String, String) {
        let (resource, name) = self.resource();
        (resource.group, resource.plural, name.to_owned())
    }
}

/// Writes the bundle into an object. Sends no patch if the object contains the bundle already.
///
/// # Errors
/// Returns the verb and the error of the request. A conflict means that another client has changed the
/// object.
pub(super) async fn inject(
    client: &Client,
    target: &CaBundleTarget,
    bundle: &str,
) -> Result<(), (&'static str, Error)> {
    let (resource, name) = target.resource();
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let object = api.get(name).await.map_err(|error| ("get", error))?;
    let patch = patch(&object, bundle);
    if patch.0.is_empty() {
        return Ok(());
    }
    let patched = api.patch(name, &PatchParams::default(), &Patch::<()>::Json(patch)).await;
    patched.map_err(|error| ("patch", error))?;
    tracing::info!(kind = resource.kind, name, "CA bundle of webhooks written");
    Ok(())
}

/// Returns the patch that writes the bundle. It fails if the object changes in between.
fn patch(object: &DynamicObject, bundle: &str) -> JsonPatch {
    let bundle = json!(ByteString(bundle.as_bytes().to_vec()));
    let is_old = |client_config: &Value| client_config.is_object() && client_config["caBundle"] != bundle;
    let mut paths = Vec::new();
    for (index, webhook) in object.data["webhooks"].as_array().into_iter().flatten().enumerate() {
        if is_old(&webhook["clientConfig"]) {
            let index = index.to_string();
            paths.push(PointerBuf::from_tokens(["webhooks", &index, "clientConfig", "caBundle"]));
        }
    }
    if is_old(&object.data["spec"]["conversion"]["webhook"]["clientConfig"]) {
        let tokens = ["spec", "conversion", "webhook", "clientConfig", "caBundle"];
        paths.push(PointerBuf::from_tokens(tokens));
    }
    if paths.is_empty() {
        return JsonPatch(Vec::new());
    }
    let path = PointerBuf::from_tokens(["metadata", "resourceVersion"]);
    let test = TestOperation { path, value: json!(object.metadata.resource_version) };
    let add = |path| PatchOperation::Add(AddOperation { path, value: bundle.clone() });
    JsonPatch(iter::once(PatchOperation::Test(test)).chain(paths.into_iter().map(add)).collect())
}
