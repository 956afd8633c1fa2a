//! Watches a custom resource whose CRD is installed and removed while the informer runs.
//!
//! The informer starts before the type exists and is suspended. The example then installs the CRD,
//! creates an object and removes the CRD, twice. The informer detects each change. Prints
//! `suspended`, `watching` and each event. On a real cluster, the example needs `--write`, and
//! removes the CRD at the end. Without `--write`, it only counts ConfigMaps.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use clap::Parser;
use futures_util::StreamExt;
use k8s_openapi::{
    api::core::v1::ConfigMap, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube_client::{
    Api, Client,
    api::{DeleteParams, DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use kube_informer::{Event, EventStream, Informer, InformerFactory, Phase, ReflectorOptions, Scope};
use kube_informer_examples::{cli, cluster::ClusterArgs};
use serde_json::json;

const GROUP: &str = "examples.kube-informer.dev";

const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Watches a custom resource while its CRD is installed and removed.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Permit the example to install a CRD on the cluster. The example removes this CRD at the end.
    #[arg(long)]
    write: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::run(dynamic).await
}

async fn dynamic(flags: Flags) -> anyhow::Result<()> {
    let cluster = flags.cluster.connect().await?;
    // Shorter than the defaults, so that the example finds a new CRD quickly.
    let (backoff_initial, backoff_max) = (Duration::from_millis(200), Duration::from_secs(1));
    let options = ReflectorOptions { backoff_initial, backoff_max, ..ReflectorOptions::default() };
    let factory = InformerFactory::new(cluster.client.clone()).reflector_options(options);
    if cluster.embedded.is_none() && !flags.write {
        cluster.check_list_access::<ConfigMap>(None).await?;
        count_config_maps(&factory).await?;
    } else {
        // Otherwise, the informer would retry silently.
        cluster.check_dynamic_list_access(&gadgets()).await?;
        let scenario = install_and_remove_twice(&cluster.client, &factory);
        let result = tokio::time::timeout(STEP_TIMEOUT * 6, scenario).await.context("the scenario timed out");
        // Also after a failure, the example removes its CRD.
        let removed = remove_crd(&cluster.client).await;
        result.flatten()?;
        removed?;
    }
    factory.shutdown().await;
    cluster.close().await;
    Ok(())
}

/// Returns the type that the example installs.
fn gadgets() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "Gadget"), "gadgets")
}

async fn install_and_remove_twice(client: &Client, factory: &InformerFactory) -> anyhow::Result<()> {
    let resource = gadgets();
    let gadgets = factory.dynamic_informer::<DynamicObject>(&resource, Scope::Namespaced)?;
    let mut events = gadgets.events();
    factory.start();
    wait_for_phase(&gadgets, Phase::Suspended).await?;
    for name in ["first", "second"] {
        install_crd(client).await?;
        wait_for_phase(&gadgets, Phase::Watching).await?;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
        api.create(&PostParams::default(), &DynamicObject::new(name, &resource)).await?;
        print_next(&gadgets, &mut events).await?;
        remove_crd(client).await?;
        print_next(&gadgets, &mut events).await?;
        wait_for_phase(&gadgets, Phase::Suspended).await?;
    }
    Ok(())
}

/// Waits for a phase of the informer and prints it.
async fn wait_for_phase(gadgets: &Informer<DynamicObject>, phase: Phase) -> anyhow::Result<()> {
    let mut status = gadgets.reflector_status();
    let reached = status.wait_for(|status| status.phase == phase);
    let Ok(reached) = tokio::time::timeout(STEP_TIMEOUT, reached).await else {
        bail!("the informer did not reach phase {phase:?} within {STEP_TIMEOUT:?}{}", last_error(gadgets));
    };
    reached.context("the informer stopped")?;
    println!("{}", format!("{phase:?}").to_lowercase());
    Ok(())
}

/// Returns the last failure of the informer, as the end of an error.
fn last_error(gadgets: &Informer<DynamicObject>) -> String {
    let last_error = gadgets.status().reflector.last_error;
    last_error.map_or_else(String::new, |error| {
        format!("; the last failure of the informer: {}", cli::shorten(&error))
    })
}

/// Waits for the next event and prints it.
async fn print_next(
    gadgets: &Informer<DynamicObject>,
    events: &mut EventStream<DynamicObject>,
) -> anyhow::Result<()> {
    let Ok(event) = tokio::time::timeout(STEP_TIMEOUT, events.next()).await else {
        bail!("no event arrived within {STEP_TIMEOUT:?}{}", last_error(gadgets));
    };
    match event.context("the informer stopped")? {
        Event::Added { object, .. } => println!("ADDED : {}", object.key()),
        Event::Updated { new, .. } => println!("MODIFIED : {}", new.key()),
        Event::Deleted { last, .. } => println!("DELETED : {}", last.key()),
    }
    Ok(())
}

async fn install_crd(client: &Client) -> anyhow::Result<()> {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let crd: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": format!("gadgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    }))?;
    let crds = Api::all(client.clone());
    crds.create(&PostParams::default(), &crd).await.context("cannot install the CRD")?;
    Ok(())
}

/// Removes the CRD and waits until the server has deleted it, so that it can be installed again.
async fn remove_crd(client: &Client) -> anyhow::Result<()> {
    let (api, name) = (Api::<CustomResourceDefinition>::all(client.clone()), format!("gadgets.{GROUP}"));
    while api.get_opt(&name).await?.is_some() {
        api.delete(&name, &DeleteParams::default()).await.context("cannot remove the CRD")?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Counts ConfigMaps with a dynamic informer. Sends no writes.
async fn count_config_maps(factory: &InformerFactory) -> anyhow::Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let config_maps = factory.dynamic_informer::<DynamicObject>(&resource, Scope::Namespaced)?;
    factory.start();
    factory.wait_for_sync(STEP_TIMEOUT).await?;
    println!("{} ConfigMaps; with --write, this example installs its own CRD", config_maps.lister().len());
    Ok(())
}
