//! What a Website gets: a ConfigMap with its page, a Deployment that serves it, a Service in front. All have its name.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, PodSpec, PodTemplateSpec, Service,
    ServicePort, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_client::Resource as _;

use super::website::Website;

/// In whose name all operators apply what they want.
pub(super) const MANAGER: &str = "website-operator";
/// The page's key in a ConfigMap.
pub(super) const PAGE: &str = "index.html";
/// Where a Service listens.
pub(super) const PORT: i32 = 80;
/// Where the servers listen.
const SERVER_PORT: i32 = 8080;
/// A Service without an address of its own: servers have no more of these than their range holds.
const NO_ADDRESS: &str = "None";
/// The volume with the page.
const VOLUME: &str = "html";

/// Something that a Website gets, as a cache shows it.
pub(super) trait Child {
    /// Whether it is the Website's, and in all that depends on the Website's spec as it is wanted.
    fn fits(&self, website: &Website) -> bool;
}

impl Child for ConfigMap {
    fn fits(&self, website: &Website) -> bool {
        let page = || self.data.as_ref()?.get(PAGE);
        is_controlled(&self.metadata, website) && page() == Some(&website.spec.html)
    }
}

impl Child for Deployment {
    fn fits(&self, website: &Website) -> bool {
        let image = || self.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.as_ref();
        let replicas = || self.spec.as_ref()?.replicas;
        is_controlled(&self.metadata, website)
            && replicas() == Some(website.spec.replicas)
            && image() == Some(&website.spec.image)
    }
}

impl Child for Service {
    fn fits(&self, website: &Website) -> bool {
        let port = || Some(self.spec.as_ref()?.ports.as_ref()?.first()?.port);
        is_controlled(&self.metadata, website) && port() == Some(PORT)
    }
}

fn is_controlled(metadata: &ObjectMeta, website: &Website) -> bool {
    let is_it = |owner: &OwnerReference| {
        owner.controller == Some(true) && Some(&owner.uid) == website.metadata.uid.as_ref()
    };
    metadata.owner_references.as_ref().is_some_and(|owners| owners.iter().any(is_it))
}

/// The ConfigMap that is wanted.
pub(super) fn config_map(website: &Website) -> ConfigMap {
    let data = BTreeMap::from([(PAGE.to_owned(), website.spec.html.clone())]);
    ConfigMap { metadata: metadata(website), data: Some(data), ..ConfigMap::default() }
}

/// The Deployment that is wanted.
pub(super) fn deployment(website: &Website) -> Deployment {
    let mount = VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: "/srv".to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    };
    let container = Container {
        name: "server".to_owned(),
        image: Some(website.spec.image.clone()),
        ports: Some(vec![ContainerPort { container_port: SERVER_PORT, ..ContainerPort::default() }]),
        volume_mounts: Some(vec![mount]),
        ..Container::default()
    };
    let page = ConfigMapVolumeSource { name: name(website), ..ConfigMapVolumeSource::default() };
    let volume = Volume { name: VOLUME.to_owned(), config_map: Some(page), ..Volume::default() };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels(website)), ..ObjectMeta::default() }),
        spec: Some(PodSpec {
            containers: vec![container],
            volumes: Some(vec![volume]),
            ..PodSpec::default()
        }),
    };
    let spec = DeploymentSpec {
        replicas: Some(website.spec.replicas),
        selector: LabelSelector { match_labels: Some(labels(website)), ..LabelSelector::default() },
        template,
        ..DeploymentSpec::default()
    };
    Deployment { metadata: metadata(website), spec: Some(spec), ..Deployment::default() }
}

/// The Service that is wanted.
pub(super) fn service(website: &Website) -> Service {
    let port = ServicePort {
        port: PORT,
        target_port: Some(IntOrString::Int(SERVER_PORT)),
        ..ServicePort::default()
    };
    let spec = ServiceSpec {
        cluster_ip: Some(NO_ADDRESS.to_owned()),
        selector: Some(labels(website)),
        ports: Some(vec![port]),
        ..ServiceSpec::default()
    };
    Service { metadata: metadata(website), spec: Some(spec), ..Service::default() }
}

fn metadata(website: &Website) -> ObjectMeta {
    ObjectMeta {
        name: website.metadata.name.clone(),
        namespace: website.metadata.namespace.clone(),
        labels: Some(labels(website)),
        owner_references: website.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

fn labels(website: &Website) -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), name(website))])
}

fn name(website: &Website) -> String {
    website.metadata.name.clone().unwrap_or_default()
}
