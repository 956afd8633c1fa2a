//! `ensure_crd` and `wait_for_crd`: install a CRD, and wait until the server serves its objects.

use std::time::Duration;

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, CustomResourceDefinitionCondition,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube_client::{
    Api, Client, Error,
    api::{Patch, PatchParams},
};
use kube_informer::{Informer, InformerFactory, ObjectKey};

use crate::{conditions::is_crd_established, redact::redact};

/// Describes the reason why a CRD is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrdError {
    /// The CRD has no name.
    #[error("failed to apply a CRD without a name; set metadata.name to PLURAL.GROUP")]
    MissingName,
    /// The server rejected the CRD, or did not respond.
    #[error("failed to apply the CRD {name}: {}", redact(source))]
    Apply {
        /// The name of the CRD.
        name: String,
        /// The error of the request.
        source: Error,
    },
    /// Another CRD already uses one of the names, such as the plural name or the kind.
    #[error(
        "the server does not accept the names of the CRD {name}: {message}; delete the other CRD or choose other names"
    )]
    NamesNotAccepted {
        /// The name of the CRD.
        name: String,
        /// The message of the condition `NamesAccepted`.
        message: String,
    },
    /// The server did not establish the CRD in time, or the CRD could not be read.
    #[error("the CRD {name} was not established within {timeout:?}; {state}")]
    NotEstablished {
        /// The name of the CRD.
        name: String,
        /// The timeout of the wait.
        timeout: Duration,
        /// The state of the CRD, or the last error of a request.
        state: String,
    },
}

/// Applies a CRD with server-side apply, and waits until the server serves its objects. If the CRD
/// exists, the function updates it.
///
/// Call this function before the start of the caches. Only one version of a program should apply its
/// CRDs at a time: during a rolling update, an older version can otherwise restore its older CRD.
///
/// The client needs permission to patch, create, list and watch `customresourcedefinitions`.
///
/// ```no_run
/// # use std::time::Duration;
/// # use kube_operator::{CrdError, ensure_crd};
/// # use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
/// # async fn example(client: kube_client::Client, crd: CustomResourceDefinition) -> Result<(), CrdError> {
/// // `crd` is the result of `CustomResourceExt::crd`.
/// ensure_crd(&client, &crd, "website-operator", Duration::from_secs(30)).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Returns a [`CrdError`] if the server rejects the CRD, or does not establish it within the timeout.
///
/// # Cancel safety
/// If the future is dropped, the server may have applied the CRD.
pub async fn ensure_crd(
    client: &Client,
    crd: &CustomResourceDefinition,
    field_manager: &str,
    timeout: Duration,
) -> Result<(), CrdError> {
    let name = crd.metadata.name.clone().filter(|name| !name.is_empty()).ok_or(CrdError::MissingName)?;
    // An apply must not contain the status and the fields that the server sets.
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        labels: crd.metadata.labels.clone(),
        annotations: crd.metadata.annotations.clone(),
        ..ObjectMeta::default()
    };
    let applied = CustomResourceDefinition { metadata, spec: crd.spec.clone(), status: None };
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply(field_manager).force();
    match crds.patch(&name, &params, &Patch::Apply(&applied)).await {
        Ok(_) => wait_for_crd(client, &name, timeout).await,
        Err(source) => Err(CrdError::Apply { name, source }),
    }
}

/// Waits until the server serves the objects of a CRD. `name` is the name of the CRD, for example
/// `websites.example.com`. The CRD need not exist before the call.
///
/// # Errors
/// Returns a [`CrdError`] if the server does not establish the CRD within the timeout, or does not
/// accept its names.
///
/// # Cancel safety
/// This function is cancel safe, because it only waits.
pub async fn wait_for_crd(client: &Client, name: &str, timeout: Duration) -> Result<(), CrdError> {
    let factory = InformerFactory::new(client.clone());
    let selection = factory.select::<CustomResourceDefinition>().fields(format!("metadata.name={name}"));
    let result = match selection.informer() {
        Ok(informer) => {
            factory.start();
            wait(&informer, name, timeout).await
        }
        // A new factory has no other informers, so only an invalid name can fail.
        Err(error) => {
            Err(CrdError::NotEstablished { name: name.to_owned(), timeout, state: error.to_string() })
        }
    };
    factory.shutdown().await;
    result
}

async fn wait(
    informer: &Informer<CustomResourceDefinition>,
    name: &str,
    timeout: Duration,
) -> Result<(), CrdError> {
    let key = ObjectKey::new(None, name);
    let is_decided = |crd: &CustomResourceDefinition| is_established(crd) || refusal(crd).is_some();
    let lister = informer.lister();
    let snapshot = lister
        .wait_for(timeout, |snapshot| snapshot.get(&key).is_some_and(|entry| is_decided(&entry.object)))
        .await;
    let crd = snapshot.get(&key).map(|entry| &*entry.object);
    if crd.is_some_and(is_established) {
        return Ok(());
    }
    let name = name.to_owned();
    if let Some(message) = crd.and_then(refusal) {
        return Err(CrdError::NamesNotAccepted { name, message: message.to_owned() });
    }
    let state = match (crd, informer.status().reflector.last_error) {
        (Some(_), _) => "its condition Established is not True".to_owned(),
        (None, Some(error)) => error,
        (None, None) => "it does not exist".to_owned(),
    };
    Err(CrdError::NotEstablished { name, timeout, state })
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    is_crd_established()(Some(crd))
}

/// Returns the message of the server if it does not accept the names of the CRD.
fn refusal(crd: &CustomResourceDefinition) -> Option<&str> {
    let mut conditions = crd.status.as_ref()?.conditions.iter().flatten();
    let is_refusal = |condition: &&CustomResourceDefinitionCondition| {
        condition.type_ == "NamesAccepted" && condition.status == "False"
    };
    let condition = conditions.find(is_refusal)?;
    Some(condition.message.as_deref().unwrap_or("no message"))
}
