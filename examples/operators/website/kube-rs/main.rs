//! The Website operator on kube-rs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::StreamExt;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, PodSpec, PodTemplateSpec, Service,
            ServicePort, ServiceSpec, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, LabelSelector, ObjectMeta, Time},
        util::intstr::IntOrString,
    },
};
use kube::{
    Api, Client, CustomResource, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        controller::{Action, Config, Controller},
        watcher,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::{info, warn};

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
struct WebsiteSpec {
    image: String,
    replicas: i32,
    html: String,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct WebsiteStatus {
    observed_generation: Option<i64>,
    ready_replicas: i32,
    conditions: Vec<Condition>,
}

struct Context {
    client: Client,
}

async fn reconcile(website: Arc<Website>, context: Arc<Context>) -> Result<Action, kube::Error> {
    if website.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let client = context.client.clone();
    let namespace = website.namespace().unwrap_or_default();
    let name = website.name_any();
    let params = PatchParams::apply("website-operator").force();
    Api::<ConfigMap>::namespaced(client.clone(), &namespace)
        .patch(&name, &params, &Patch::Apply(config_map(&website)))
        .await?;
    let deployment = Api::<Deployment>::namespaced(client.clone(), &namespace)
        .patch(&name, &params, &Patch::Apply(deployment(&website)))
        .await?;
    Api::<Service>::namespaced(client.clone(), &namespace)
        .patch(&name, &params, &Patch::Apply(service(&website)))
        .await?;

    let status = desired_status(&website, &deployment);
    if website.status.as_ref() != Some(&status) {
        Api::<Website>::namespaced(client, &namespace)
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({ "status": status })))
            .await?;
    }
    Ok(Action::await_change())
}

fn desired_status(website: &Website, deployment: &Deployment) -> WebsiteStatus {
    let ready_replicas =
        deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default();
    let (status, reason) = if ready_replicas >= website.spec.replicas {
        ("True", "Available")
    } else {
        ("False", "Progressing")
    };
    let conditions = website.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let previous =
        conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == status);
    let ready = Condition {
        type_: "Ready".into(),
        status: status.into(),
        reason: reason.into(),
        message: format!("{ready_replicas} of {} replicas are ready", website.spec.replicas),
        observed_generation: website.metadata.generation,
        last_transition_time: previous
            .map_or_else(|| Time(Timestamp::now()), |previous| previous.last_transition_time.clone()),
    };
    WebsiteStatus {
        observed_generation: website.metadata.generation,
        ready_replicas,
        conditions: vec![ready],
    }
}

fn config_map(website: &Website) -> ConfigMap {
    ConfigMap {
        metadata: metadata(website),
        data: Some(BTreeMap::from([("index.html".into(), website.spec.html.clone())])),
        ..Default::default()
    }
}

fn deployment(website: &Website) -> Deployment {
    let container = Container {
        name: "server".into(),
        image: Some(website.spec.image.clone()),
        ports: Some(vec![ContainerPort { container_port: 8080, ..Default::default() }]),
        volume_mounts: Some(vec![VolumeMount {
            name: "html".into(),
            mount_path: "/srv".into(),
            read_only: Some(true),
            ..Default::default()
        }]),
        ..Default::default()
    };
    let volume = Volume {
        name: "html".into(),
        config_map: Some(ConfigMapVolumeSource { name: website.name_any(), ..Default::default() }),
        ..Default::default()
    };
    Deployment {
        metadata: metadata(website),
        spec: Some(DeploymentSpec {
            replicas: Some(website.spec.replicas),
            selector: LabelSelector { match_labels: Some(labels(website)), ..Default::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels(website)), ..Default::default() }),
                spec: Some(PodSpec {
                    containers: vec![container],
                    volumes: Some(vec![volume]),
                    ..Default::default()
                }),
            },
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn service(website: &Website) -> Service {
    Service {
        metadata: metadata(website),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".into()),
            selector: Some(labels(website)),
            ports: Some(vec![ServicePort {
                port: 80,
                target_port: Some(IntOrString::Int(8080)),
                ..Default::default()
            }]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn metadata(website: &Website) -> ObjectMeta {
    ObjectMeta {
        name: website.metadata.name.clone(),
        namespace: website.metadata.namespace.clone(),
        labels: Some(labels(website)),
        owner_references: website.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..Default::default()
    }
}

fn labels(website: &Website) -> BTreeMap<String, String> {
    BTreeMap::from([("app".into(), website.name_any())])
}

fn error_policy(_website: Arc<Website>, _error: &kube::Error, _context: Arc<Context>) -> Action {
    Action::requeue(Duration::from_secs(1))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let client = Client::try_default().await?;
    Controller::new(Api::<Website>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
        .owns(Api::<Deployment>::all(client.clone()), watcher::Config::default())
        .owns(Api::<Service>::all(client.clone()), watcher::Config::default())
        .with_config(Config::default().concurrency(4))
        .shutdown_on_signal()
        .run(reconcile, error_policy, Arc::new(Context { client }))
        .for_each(|result| async move {
            match result {
                Ok((website, _)) => info!("reconciled {website}"),
                Err(error) => warn!("reconcile failed: {error}"),
            }
        })
        .await;
    Ok(())
}
