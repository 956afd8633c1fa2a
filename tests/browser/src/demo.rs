//! `Demo`: an operator with several controllers, a failing key, and events that never stop.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result};
use futures_util::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube_client::{
    Api, Client,
    api::{Patch, PatchParams},
};
use kube_informer::Lazy;
use kube_operator::{
    Action, Controller, ElectionOptions, Failure, KeyController, KeyRequest, LeaseTimes, Manager,
    ManagerError, ManagerOptions, Request,
};
use kube_testserver::Server;
use serde_json::json;
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;

/// The key whose reconciles fail, in the controller `configmap`.
pub const FAILING_KEY: &str = "shop/checkout";

/// The error of the failing key.
pub const FAILING_ERROR: &str = "cannot render the template: the variable PORT is not set";

/// A key that looks like a script, in the controller `backup`.
pub const HOSTILE_KEY: &str = "<script>alert(1)</script>";

/// The namespaces, and the names of the objects in each namespace.
const NAMESPACES: [&str; 3] = ["blog", "shop", "wiki"];
const NAMES: [&str; 8] = ["cart", "catalog", "checkout", "login", "mail", "payment", "search", "stock"];

/// The time between two changes of objects.
const CHANGE_INTERVAL: Duration = Duration::from_millis(250);

/// Runs the demo operator on an API server in memory.
pub struct Demo {
    address: SocketAddr,
    client: Client,
    stop: CancellationToken,
    manager: JoinHandle<Result<(), ManagerError>>,
    changes: JoinHandle<()>,
}

impl Demo {
    /// Starts the operator, which serves its pages at `address`.
    ///
    /// # Errors
    ///
    /// Fails if the address cannot be used.
    pub fn start(address: SocketAddr) -> Result<Self> {
        let server = Server::builder().validation(false).build();
        for namespace in NAMESPACES {
            server
                .create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))?;
            for name in NAMES {
                create(&server, namespace, name)?;
            }
        }
        let client = Client::new(server.service(), "default");
        let options = ManagerOptions {
            bind_address: Some(address),
            explain_changes: true,
            election: Some(ElectionOptions {
                namespace: "default".to_owned(),
                name: "demo-operator".to_owned(),
                identity: "demo-operator-7d9f4-x2kpl".to_owned(),
                times: LeaseTimes::default(),
            }),
            ..ManagerOptions::default()
        };
        let mut manager = Manager::new(client.clone(), options)?;
        add_controllers(&mut manager)?;
        let address = manager.local_address().context("the manager serves no pages")?;
        let stop = CancellationToken::new();
        let manager = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
        let changes = tokio::spawn(change_objects(client.clone(), stop.clone()));
        Ok(Self { address, client, stop, manager, changes })
    }

    /// Returns the URL of a page.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Adds a label to a ConfigMap.
    ///
    /// # Errors
    ///
    /// Fails if the object does not exist.
    pub async fn label(&self, namespace: &str, name: &str, value: &str) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        patch(&maps, name, &json!({"metadata": {"labels": {"test": value}}})).await
    }

    /// Stops the operator.
    ///
    /// # Errors
    ///
    /// Fails if a part of the operator has failed.
    pub async fn stop(self) -> Result<()> {
        self.stop.cancel();
        self.changes.await?;
        Ok(self.manager.await??)
    }
}

fn create(server: &Server, namespace: &str, name: &str) -> Result<()> {
    let metadata = json!({"namespace": namespace, "name": name});
    let objects = [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"round": "0"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": "hunter2"}}),
    ];
    for object in objects {
        server.create(&object)?;
    }
    Ok(())
}

fn add_controllers(manager: &mut Manager) -> Result<()> {
    let maps = manager.factory().informer::<ConfigMap>()?;
    let services = manager.factory().informer::<Service>()?;
    let secrets = manager.factory().informer::<Lazy<Secret>>()?;
    let controller = Controller::new(&maps).watches(&secrets, |event| [event.key().clone()]);
    manager.add_controller(controller, reconcile_map);
    let client = manager.client();
    let controller = Controller::new(&services).concurrency(2);
    manager.add_controller(controller, move |request| reconcile_service(client.clone(), request));
    let keys = stream::iter([HOSTILE_KEY, "nightly/shop", "nightly/wiki"].map(str::to_owned));
    let controller = KeyController::new("backup").watches_stream("the timetable", keys);
    manager.add_key_controller(controller, |_: KeyRequest<String>| async {
        sleep(Duration::from_millis(120)).await;
        Ok::<_, Failure>(Action::RequeueAfter(Duration::from_secs(3)))
    });
    Ok(())
}

async fn reconcile_map(request: Request<ConfigMap>) -> Result<Action, Failure> {
    if request.key.to_string() == FAILING_KEY {
        return Err(FAILING_ERROR.into());
    }
    sleep(Duration::from_millis(2)).await;
    Ok(Action::Done)
}

/// Reads the ConfigMap of the same name from the server, and sets the annotation of the Service.
async fn reconcile_service(client: Client, request: Request<Service>) -> Result<Action, Failure> {
    let Some(service) = request.object.present() else { return Ok(Action::AwaitChange) };
    let (namespace, name) = (request.key.namespace().unwrap_or_default(), request.key.name());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = maps.get(name).await?;
    sleep(Duration::from_millis(if namespace == "wiki" { 150 } else { 12 })).await;
    let round = map.data.and_then(|data| data.get("round").cloned()).unwrap_or_default();
    let annotations = service.metadata.annotations.as_ref();
    if annotations.and_then(|annotations| annotations.get("round")) != Some(&round) {
        let services: Api<Service> = Api::namespaced(client, namespace);
        patch(&services, name, &json!({"metadata": {"annotations": {"round": round}}})).await?;
    }
    Ok(Action::Done)
}

async fn patch<K>(api: &Api<K>, name: &str, change: &serde_json::Value) -> Result<()>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let parameters = PatchParams { field_manager: Some("demo".to_owned()), ..PatchParams::default() };
    api.patch(name, &parameters, &Patch::Merge(change)).await?;
    Ok(())
}

/// Changes ConfigMaps and Services periodically, until `stop` is cancelled.
async fn change_objects(client: Client, stop: CancellationToken) {
    let mut ticks = interval(CHANGE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut round = 0_usize;
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        round += 1;
        // Some ticks change several objects, so that the charts are not flat.
        let changes = if round % 60 < 20 { 1 + round % 3 } else { usize::from(round.is_multiple_of(4)) };
        for change in 0..changes {
            let (namespace, name) = (NAMESPACES[(round + change) % 3], NAMES[(round / 3 + change) % 8]);
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
            let services: Api<Service> = Api::namespaced(client.clone(), namespace);
            let data = json!({"data": {"round": round.to_string()}});
            let touch = json!({"metadata": {"labels": {"round": round.to_string()}}});
            for result in [patch(&maps, name, &data).await, patch(&services, name, &touch).await] {
                if let Err(error) = result {
                    eprintln!("cannot change {namespace}/{name}: {error:#}");
                }
            }
        }
    }
}
