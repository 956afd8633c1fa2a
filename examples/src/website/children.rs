//! The objects that a site owns, computed from its spec without access to a cluster.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, PodSpec, PodTemplateSpec, Service,
            ServicePort, ServiceSpec, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::ResourceExt;

use super::Website;

const PORT: i32 = 80;

/// The objects that a site owns.
pub(super) struct Children {
    pub(super) page: ConfigMap,
    pub(super) deployment: Deployment,
    pub(super) service: Service,
}

impl Children {
    /// Computes the children of `site`, without their owner references.
    pub(super) fn of(site: &Website) -> Self {
        let metadata = ObjectMeta {
            name: site.metadata.name.clone(),
            namespace: site.metadata.namespace.clone(),
            labels: Some(labels(site)),
            ..ObjectMeta::default()
        };
        let page = ConfigMap {
            metadata: metadata.clone(),
            data: Some([("index.html".to_owned(), site.spec.html.clone())].into()),
            ..ConfigMap::default()
        };
        let deployment = Deployment {
            metadata: metadata.clone(),
            spec: Some(DeploymentSpec {
                replicas: Some(site.spec.replicas),
                selector: LabelSelector { match_labels: Some(labels(site)), ..LabelSelector::default() },
                template: pod_template(site),
                ..DeploymentSpec::default()
            }),
            ..Deployment::default()
        };
        let service = Service {
            metadata,
            spec: Some(ServiceSpec {
                selector: Some(labels(site)),
                ports: Some(vec![ServicePort { port: PORT, ..ServicePort::default() }]),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        };
        Self { page, deployment, service }
    }
}

fn labels(site: &Website) -> BTreeMap<String, String> {
    [("app.kubernetes.io/name".to_owned(), site.name_any())].into()
}

fn pod_template(site: &Website) -> PodTemplateSpec {
    let page = Volume {
        name: "page".to_owned(),
        config_map: Some(ConfigMapVolumeSource { name: site.name_any(), ..ConfigMapVolumeSource::default() }),
        ..Volume::default()
    };
    let server = Container {
        name: "server".to_owned(),
        image: Some("nginx:1.29-alpine".to_owned()),
        ports: Some(vec![ContainerPort { container_port: PORT, ..ContainerPort::default() }]),
        volume_mounts: Some(vec![VolumeMount {
            name: page.name.clone(),
            mount_path: "/usr/share/nginx/html".to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    };
    PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels(site)), ..ObjectMeta::default() }),
        spec: Some(PodSpec { containers: vec![server], volumes: Some(vec![page]), ..PodSpec::default() }),
    }
}
