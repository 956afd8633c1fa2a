//! The Secret mirror on kube-rs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::StreamExt;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    runtime::{
        controller::{Action, Config, Controller},
        finalizer::{self, Event, finalizer},
        reflector::ObjectRef,
        watcher,
    },
};
use serde_json::json;
use thiserror::Error;
use tracing::{info, warn};

const FINALIZER: &str = "example.com/mirror";
const MIRROR_LABEL: &str = "example.com/mirror";
const MIRRORED_FROM_LABEL: &str = "example.com/mirrored-from";
const NAMESPACES_ANNOTATION: &str = "example.com/namespaces";

#[derive(Debug, Error)]
enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Finalizer(Box<finalizer::Error<Error>>),
    #[error("the Secret {namespace}/{name} is not a copy of a Secret in {source_namespace}")]
    NotACopy { namespace: String, name: String, source_namespace: String },
}

struct Context {
    client: Client,
}

async fn reconcile(secret: Arc<Secret>, context: Arc<Context>) -> Result<Action, Error> {
    let secrets: Api<Secret> =
        Api::namespaced(context.client.clone(), &secret.namespace().unwrap_or_default());
    if is_source(&secret) {
        finalizer(&secrets, FINALIZER, secret, |event| async {
            match event {
                Event::Apply(secret) => context.mirror(&secret).await,
                Event::Cleanup(secret) => context.delete_copies(&secret, &[]).await,
            }
            .map(|()| Action::await_change())
        })
        .await
        .map_err(|error| Error::Finalizer(Box::new(error)))
    } else if secret.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        // The helper releases only objects that are being deleted. This Secret has lost its label.
        context.delete_copies(&secret, &[]).await?;
        release(&secrets, &secret).await?;
        Ok(Action::await_change())
    } else {
        Ok(Action::await_change())
    }
}

impl Context {
    /// Applies the copies of a Secret, and deletes the copies that are no longer wanted.
    async fn mirror(&self, secret: &Secret) -> Result<(), Error> {
        let namespaces = target_namespaces(secret);
        self.delete_copies(secret, &namespaces).await?;
        for namespace in &namespaces {
            self.apply_copy(secret, namespace).await?;
        }
        Ok(())
    }

    /// Applies the copy in a namespace. Fails if another Secret has this name.
    async fn apply_copy(&self, secret: &Secret, namespace: &str) -> Result<(), Error> {
        let name = secret.name_any();
        let source_namespace = secret.namespace().unwrap_or_default();
        let copies: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        if let Some(existing) = copies.get_opt(&name).await?
            && existing.labels().get(MIRRORED_FROM_LABEL) != Some(&source_namespace)
        {
            return Err(Error::NotACopy { namespace: namespace.into(), name, source_namespace });
        }
        let copy = Secret {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.into()),
                labels: Some(BTreeMap::from([(MIRRORED_FROM_LABEL.into(), source_namespace)])),
                ..Default::default()
            },
            type_: secret.type_.clone(),
            data: secret.data.clone(),
            ..Default::default()
        };
        copies.patch(&name, &PatchParams::apply("secret-mirror").force(), &Patch::Apply(copy)).await?;
        Ok(())
    }

    /// Deletes the copies outside of the given namespaces.
    async fn delete_copies(&self, secret: &Secret, except: &[String]) -> Result<(), Error> {
        let selector = format!("{MIRRORED_FROM_LABEL}={}", secret.namespace().unwrap_or_default());
        let all: Api<Secret> = Api::all(self.client.clone());
        for copy in all.list(&ListParams::default().labels(&selector)).await? {
            let namespace = copy.namespace().unwrap_or_default();
            if copy.name_any() != secret.name_any() || except.contains(&namespace) {
                continue;
            }
            let copies: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
            match copies.delete(&copy.name_any(), &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                result => drop(result?),
            }
        }
        Ok(())
    }
}

/// Removes the finalizer. Because of the resourceVersion, the patch fails after a concurrent change.
async fn release(secrets: &Api<Secret>, secret: &Secret) -> Result<(), Error> {
    let remaining: Vec<&String> =
        secret.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).collect();
    let patch = json!({
        "metadata": { "resourceVersion": secret.resource_version(), "finalizers": remaining }
    });
    secrets.patch(&secret.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

fn is_source(secret: &Secret) -> bool {
    secret.labels().get(MIRROR_LABEL).is_some_and(|value| value == "true")
}

/// Returns the namespaces of the annotation, without the namespace of the Secret.
fn target_namespaces(secret: &Secret) -> Vec<String> {
    let annotation = secret.annotations().get(NAMESPACES_ANNOTATION).map_or("", String::as_str);
    annotation
        .split(',')
        .map(|namespace| namespace.trim().to_owned())
        .filter(|namespace| !namespace.is_empty() && Some(namespace) != secret.namespace().as_ref())
        .collect()
}

/// Returns the source of a copy.
fn source_of(copy: &Secret) -> Option<ObjectRef<Secret>> {
    let namespace = copy.labels().get(MIRRORED_FROM_LABEL)?;
    Some(ObjectRef::new(&copy.name_any()).within(namespace))
}

fn error_policy(_secret: Arc<Secret>, _error: &Error, _context: Arc<Context>) -> Action {
    Action::requeue(Duration::from_secs(1))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let client = Client::try_default().await?;
    let secrets: Api<Secret> = Api::all(client.clone());
    // Without a selector, because the controller does not reconcile a Secret that has left the selection.
    Controller::new(secrets.clone(), watcher::Config::default())
        .watches(secrets, watcher::Config::default().labels(MIRRORED_FROM_LABEL), |copy| source_of(&copy))
        .with_config(Config::default().concurrency(4))
        .shutdown_on_signal()
        .run(reconcile, error_policy, Arc::new(Context { client }))
        .for_each(|result| async move {
            match result {
                Ok((secret, _)) => info!("reconciled {secret}"),
                Err(error) => warn!("reconcile failed: {error}"),
            }
        })
        .await;
    Ok(())
}
