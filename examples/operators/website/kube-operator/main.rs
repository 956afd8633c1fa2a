//! The Website operator on kube-operator.

use std::{collections::BTreeMap, env};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, PodSpec, PodTemplateSpec, Service,
            ServicePort, ServiceSpec, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use kube::{Client, CustomResource, ResourceExt};
use kube_operator::{
    Action, CachedClient, Controller, ElectionOptions, Failure, Manager, ManagerOptions, Request,
    ShardOptions, WriteKind, informer::Compressed, new_condition, set_condition, shutdown_signal,
    with_context,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
struct WebsiteSpec {
    image: String,
    replicas: i32,
    html: String,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct WebsiteStatus {
    observed_generation: Option<i64>,
    ready_replicas: i32,
    conditions: Vec<Condition>,
}

async fn reconcile(request: Request<Website>, client: CachedClient) -> Result<Action, Failure> {
    let Some(website) = request.object.present() else { return Ok(Action::AwaitChange) };
    if website.metadata.deletion_timestamp.is_some() {
        return Ok(Action::AwaitChange);
    }
    client.apply_owned(&*website, config_map(&website)).await?;
    let deployment = client.apply_owned(&*website, deployment(&website)).await?.object;
    client.apply_owned(&*website, service(&website)).await?;

    let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default();
    client
        .patch_status(website, |website| {
            let (generation, replicas) = (website.metadata.generation, website.spec.replicas);
            let (value, reason) =
                if ready >= replicas { ("True", "Available") } else { ("False", "Progressing") };
            let message = format!("{ready} of {replicas} replicas are ready");
            let condition = new_condition("Ready", value, reason, &message);
            let status = website.status.get_or_insert_default();
            status.observed_generation = generation;
            status.ready_replicas = ready;
            set_condition(&mut status.conditions, Condition { observed_generation: generation, ..condition });
            Ok(())
        })
        .await?;
    Ok(Action::Done)
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
        ..Default::default()
    }
}

fn labels(website: &Website) -> BTreeMap<String, String> {
    BTreeMap::from([("app".into(), website.name_any())])
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).init();
    let client = Client::try_default().await?;
    let options = ManagerOptions {
        election: Some(ElectionOptions::new(client.default_namespace(), "website-operator")),
        bind_address: None,
        shards: env::var("SHARD_GROUP").ok().map(|name| ShardOptions::new(client.default_namespace(), name)),
        ..ManagerOptions::default()
    };
    let mut manager = Manager::new(client, options)?;
    let client = manager.cached_client("website-operator").force();
    manager.require_writes::<Website>(&[WriteKind::PatchStatus]);
    manager.require_writes::<ConfigMap>(&[WriteKind::Apply]);
    manager.require_writes::<Deployment>(&[WriteKind::Apply]);
    manager.require_writes::<Service>(&[WriteKind::Apply]);
    let controller = Controller::new(&client.informer::<Website>()?)
        .owns(&client.informer::<Compressed<ConfigMap>>()?)
        .owns(&client.informer::<Compressed<Deployment>>()?)
        .owns(&client.informer::<Compressed<Service>>()?)
        .concurrency(4);
    manager.add_controller(controller, with_context(client, reconcile));
    if env::args().nth(1).as_deref() == Some("rbac") {
        print!("{}", manager.rbac_roles("website-operator"));
        return Ok(());
    }
    manager.run_and_exit(shutdown_signal()).await
}
