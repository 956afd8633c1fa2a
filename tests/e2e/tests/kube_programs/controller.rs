//! An operator with `Controller` that owns a child of each object, watches a second kind, and uses a
//! finalizer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Resource as _, ResourceExt as _};
use kube::{Client, CustomResource, CustomResourceExt as _};
use kube_runtime::controller::Action;
use kube_runtime::finalizer::{Error as FinalizerError, Event, finalizer};
use kube_runtime::reflector::ObjectRef;
use kube_runtime::wait::{Condition, await_condition, conditions};
use kube_runtime::{Controller, watcher};
use kube_testserver::Server;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::{DEADLINE, client};

const FINALIZER: &str = "shop.example.com/cleanup";

#[derive(Clone, Debug, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(group = "shop.example.com", version = "v1", kind = "Shop", namespaced, status = "ShopStatus")]
struct ShopSpec {
    motto: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct ShopStatus {
    motto: String,
    key: Option<String>,
}

/// Applies the state of `shop` to the cluster.
async fn reconcile(shop: Arc<Shop>, client: Arc<Client>) -> Result<Action, FinalizerError<kube::Error>> {
    let shops: Api<Shop> = Api::default_namespaced(Client::clone(&client));
    finalizer(&shops, FINALIZER, shop, |event| async {
        match event {
            Event::Apply(shop) => furnish(&shop, &client).await,
            Event::Cleanup(shop) => clear(&shop, &client).await,
        }
    })
    .await
}

async fn furnish(shop: &Shop, client: &Client) -> kube::Result<Action> {
    let name = shop.name_any();
    let secret = Api::<Secret>::default_namespaced(client.clone()).get_opt(&name).await?;
    let key = secret.and_then(|secret| secret.annotations().get("key").cloned());
    let sign = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [shop.controller_owner_ref(&())]},
        "data": {"motto": shop.spec.motto},
    });
    let signs: Api<ConfigMap> = Api::default_namespaced(client.clone());
    signs.patch(&name, &PatchParams::apply("operator").force(), &Patch::Apply(sign)).await?;
    let status = json!({"status": {"motto": shop.spec.motto, "key": key}});
    let shops: Api<Shop> = Api::default_namespaced(client.clone());
    shops.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(Action::await_change())
}

async fn clear(shop: &Shop, client: &Client) -> kube::Result<Action> {
    let signs: Api<ConfigMap> = Api::default_namespaced(client.clone());
    signs.delete(&shop.name_any(), &DeleteParams::default()).await?;
    Ok(Action::await_change())
}

/// The operator until `stop`.
async fn operate(client: Client, stop: oneshot::Receiver<()>) {
    let all = watcher::Config::default;
    Controller::new(Api::<Shop>::default_namespaced(client.clone()), all())
        .owns(Api::<ConfigMap>::default_namespaced(client.clone()), all())
        .watches(Api::<Secret>::default_namespaced(client.clone()), all(), |secret| {
            Some(ObjectRef::<Shop>::new(&secret.name_any()).within("default"))
        })
        .graceful_shutdown_on(async { drop(stop.await) })
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(client))
        .for_each(|_| async {})
        .await;
}

async fn within<K>(api: &Api<K>, condition: impl Condition<K>) -> Result<()>
where
    K: Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + kube::Resource + 'static,
{
    timeout(DEADLINE, await_condition(api.clone(), "corner", condition)).await??;
    Ok(())
}

fn shows(motto: &'static str, key: Option<&'static str>) -> impl Condition<Shop> {
    let wanted = ShopStatus { motto: motto.to_owned(), key: key.map(str::to_owned) };
    move |shop: Option<&Shop>| shop.and_then(|shop| shop.status.as_ref()) == Some(&wanted)
}

#[tokio::test(start_paused = true)]
async fn operator_converges_repairs_and_cleans_up() -> Result<()> {
    let server = Server::new();
    let crds: Api<CustomResourceDefinition> = Api::all(client(&server));
    crds.create(&PostParams::default(), &Shop::crd()).await?;
    let established = await_condition(crds, Shop::crd_name(), conditions::is_crd_established());
    timeout(DEADLINE, established).await??;
    let (stop, stopped) = oneshot::channel();
    let operator = tokio::spawn(operate(client(&server), stopped));

    let shops: Api<Shop> = Api::default_namespaced(client(&server));
    let signs: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let secrets: Api<Secret> = Api::default_namespaced(client(&server));
    let open = ShopSpec { motto: "open".to_owned() };
    shops.create(&PostParams::default(), &Shop::new("corner", open)).await?;
    within(&shops, shows("open", None)).await?;
    ensure!(shops.get("corner").await?.finalizers() == [FINALIZER]);

    // A deleted child is restored, a change of a watched object causes a reconcile, and a change of the
    // spec is applied.
    let lost = signs.get("corner").await?.uid().context("an object has a uid")?;
    signs.delete("corner", &DeleteParams::default()).await?;
    within(&signs, move |sign: Option<&ConfigMap>| {
        sign.and_then(kube::ResourceExt::uid).is_some_and(|uid| uid != lost)
    })
    .await?;
    let secret =
        serde_json::from_value(json!({"metadata": {"name": "corner", "annotations": {"key": "gold"}}}))?;
    secrets.create(&PostParams::default(), &secret).await?;
    within(&shops, shows("open", Some("gold"))).await?;
    let closed = Patch::Merge(json!({"spec": {"motto": "closed"}}));
    shops.patch("corner", &PatchParams::default(), &closed).await?;
    within(&shops, shows("closed", Some("gold"))).await?;

    let uid = shops.get("corner").await?.uid().context("an object has a uid")?;
    shops.delete("corner", &DeleteParams::default()).await?;
    within(&shops, conditions::is_deleted(&uid)).await?;
    ensure!(signs.get_opt("corner").await?.is_none(), "the finalizer has not cleaned up");
    drop(stop);
    timeout(DEADLINE, operator).await??;
    Ok(())
}
