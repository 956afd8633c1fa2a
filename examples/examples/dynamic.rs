//! An informer of a type known only at run time, which comes and goes while the informer runs.
//!
//! The informer starts before the type exists and is suspended. Then a CRD is installed, removed and
//! installed again, each time with an object: the informer finds it, sees it go, and finds the next.
//! Prints `suspended`, `watching` and each event. On a cluster the CRD is installed only after
//! `--write`, and removed at the end; without it the ConfigMaps are shown instead.

use std::{process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Parser;
use futures_util::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::{
    Api, Client,
    api::{DeleteParams, DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use kube_informer::{Event, EventStream, Informer, InformerFactory, Phase, ReflectorOptions, Scope};
use kube_informer_examples::cluster::{self, ClusterArgs};
use serde_json::json;

const GROUP: &str = "examples.kube-informer.dev";

/// Each step of the story takes at most this long.
const STEP: Duration = Duration::from_secs(60);

/// Follows a type that comes and goes.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Allow a CRD of this example's own to be installed on the cluster; it is removed at the end.
    #[arg(long)]
    write: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cluster::run(dynamic(Flags::parse())).await
}

async fn dynamic(flags: Flags) -> anyhow::Result<()> {
    let cluster = flags.cluster.connect().await?;
    // Looks more often for a type that is gone than a program would that runs for weeks.
    let (backoff_initial, backoff_max) = (Duration::from_millis(200), Duration::from_secs(1));
    let options = ReflectorOptions { backoff_initial, backoff_max, ..ReflectorOptions::default() };
    let factory = InformerFactory::new(cluster.client.clone()).reflector(options);
    if cluster.embedded.is_none() && !flags.write {
        read_only(&factory).await?;
    } else {
        let story = come_and_go(&cluster.client, &factory);
        let told = tokio::time::timeout(STEP * 6, story).await.context("the story has no end").flatten();
        // Whatever happened: nothing stays behind.
        let removed = remove(&cluster.client).await;
        told?;
        removed?;
    }
    factory.shutdown().await;
    cluster.close().await;
    Ok(())
}

async fn come_and_go(client: &Client, factory: &InformerFactory) -> anyhow::Result<()> {
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "Gadget"), "gadgets");
    let gadgets = factory.dynamic::<DynamicObject>(&resource, Scope::Namespaced)?;
    let mut events = gadgets.events();
    factory.start();
    reaches(&gadgets, Phase::Suspended).await?;
    for name in ["first", "second"] {
        install(client).await?;
        reaches(&gadgets, Phase::Watching).await?;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
        api.create(&PostParams::default(), &DynamicObject::new(name, &resource)).await?;
        shows_next(&mut events).await?;
        remove(client).await?;
        shows_next(&mut events).await?;
        reaches(&gadgets, Phase::Suspended).await?;
    }
    Ok(())
}

/// Waits for a phase and says so.
async fn reaches(gadgets: &Informer<DynamicObject>, phase: Phase) -> anyhow::Result<()> {
    let mut status = gadgets.reflector_status();
    let reached = status.wait_for(|status| status.phase == phase);
    tokio::time::timeout(STEP, reached).await.with_context(|| format!("not {phase:?} within {STEP:?}"))??;
    println!("{}", format!("{phase:?}").to_lowercase());
    Ok(())
}

async fn shows_next(events: &mut EventStream<DynamicObject>) -> anyhow::Result<()> {
    let event = tokio::time::timeout(STEP, events.next()).await.context("nothing happened")?;
    match event.context("the informer has ended")? {
        Event::Added { object, .. } => println!("ADDED : {}", object.key()),
        Event::Updated { new, .. } => println!("MODIFIED : {}", new.key()),
        Event::Deleted { last, .. } => println!("DELETED : {}", last.key()),
    }
    Ok(())
}

async fn install(client: &Client) -> anyhow::Result<()> {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let crd: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": format!("gadgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    }))?;
    Api::all(client.clone()).create(&PostParams::default(), &crd).await?;
    Ok(())
}

/// Removes the CRD and waits until it is gone, so that it can be installed again.
async fn remove(client: &Client) -> anyhow::Result<()> {
    let (api, name) = (Api::<CustomResourceDefinition>::all(client.clone()), format!("gadgets.{GROUP}"));
    while api.get_opt(&name).await?.is_some() {
        api.delete(&name, &DeleteParams::default()).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// A type chosen at run time, without writing anything.
async fn read_only(factory: &InformerFactory) -> anyhow::Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let config_maps = factory.dynamic::<DynamicObject>(&resource, Scope::Namespaced)?;
    factory.start();
    factory.wait_for_sync(STEP).await?;
    println!(
        "{} ConfigMaps; with --write this example installs a CRD of its own",
        config_maps.lister().len()
    );
    Ok(())
}
