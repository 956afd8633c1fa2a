//! Every kind of type through the same API, on both servers: built-in, derived, known only at run time,
//! metadata alone.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt;
use k8s_openapi::{
    api::core::v1::ConfigMap, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{CustomResource, CustomResourceExt};
use kube_client::{
    Api, Client, Resource,
    api::{DeleteParams, DynamicObject, PartialObjectMeta, PostParams},
    core::ApiResource,
};
use kube_informer::{Cached, Event, EventStream, InformerFactory, ReflectorOptions, Scope};
use kube_informer_e2e::real::{Options, RealServer};
use kube_testserver::Server;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The maximum time to wait for one event.
const EVENT: Duration = Duration::from_secs(60);

/// The spec that an author of an operator would write.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "types.kube-informer.dev", version = "v1", kind = "Gadget", namespaced)]
struct GadgetSpec {
    size: i32,
}

/// The next event, in short.
async fn next<T: Cached>(events: &mut EventStream<T>) -> Result<String> {
    let event = tokio::time::timeout(EVENT, events.next()).await.context("no event")?;
    Ok(match event.context("the informer has stopped")? {
        Event::Added { object, .. } => format!("+{}", object.key()),
        Event::Updated { new, .. } => format!("~{}", new.key()),
        Event::Deleted { last, .. } => format!("-{}", last.key()),
    })
}

async fn all_types(client: Client) -> Result<()> {
    // The short maximum backoff shortens the test, because a missing type is requested often.
    let backoff_max = Duration::from_secs(1);
    let factory = InformerFactory::new(client.clone())
        .reflector_options(ReflectorOptions { backoff_max, ..ReflectorOptions::default() });
    let fields = "metadata.name=types"; // a real cluster contains further ConfigMaps
    let own = factory.clone().fields(fields);
    let (typed, metadata) = (own.informer::<ConfigMap>()?, own.informer::<PartialObjectMeta<ConfigMap>>()?);
    let dynamic =
        own.dynamic_informer::<DynamicObject>(&ApiResource::erase::<ConfigMap>(&()), Scope::Namespaced)?;
    let derived = factory.informer::<Gadget>()?;
    let mut streams = (typed.events(), metadata.events(), dynamic.events(), derived.events());
    own.start();
    factory.start();
    own.wait_for_sync(EVENT).await?;

    let config_maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut object = ConfigMap::default();
    object.meta_mut().name = Some("types".into());
    object.data = Some([("key".to_owned(), "value".to_owned())].into());
    config_maps.create(&PostParams::default(), &object).await?;
    for event in [next(&mut streams.0).await?, next(&mut streams.1).await?, next(&mut streams.2).await?] {
        assert_eq!(event, "+default/types");
    }
    let shown = dynamic.lister().namespace("default").get("types").context("not in the cache")?;
    assert_eq!(shown.data["data"]["key"], "value");
    assert_eq!(shown.types.as_ref().map(|types| types.kind.as_str()), Some("ConfigMap"));
    let shown = typed.lister().namespace("default").get("types").context("not in the cache")?;
    assert_eq!(shown.data, object.data);

    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.create(&PostParams::default(), &Gadget::crd()).await?;
    factory.wait_for_sync(EVENT).await?;
    let gadgets: Api<Gadget> = Api::default_namespaced(client.clone());
    gadgets.create(&PostParams::default(), &Gadget::new("types", GadgetSpec { size: 3 })).await?;
    assert_eq!(next(&mut streams.3).await?, "+default/types");
    let shown = derived.lister().namespace("default").get("types").context("not in the cache")?;
    assert_eq!(shown.spec.size, 3);

    crds.delete(&Gadget::crd().metadata.name.unwrap_or_default(), &DeleteParams::default()).await?;
    assert_eq!(next(&mut streams.3).await?, "-default/types");
    config_maps.delete("types", &DeleteParams::default()).await?;
    for event in [next(&mut streams.0).await?, next(&mut streams.1).await?, next(&mut streams.2).await?] {
        assert_eq!(event, "-default/types");
    }
    factory.shutdown().await;
    own.shutdown().await;
    ensure!(streams.0.next().await.is_none(), "a stream returned an item after the shutdown");
    Ok(())
}

#[tokio::test]
async fn each_type_works_on_embedded_server() -> Result<()> {
    all_types(Client::new(Server::new().service(), "default")).await
}

#[tokio::test]
async fn each_type_works_on_real_cluster() -> Result<()> {
    let Some(server) = RealServer::start_or_skip("types", 1, Options::default()).await? else {
        return Ok(());
    };
    all_types(server.client().await?).await?;
    server.stop().await
}
