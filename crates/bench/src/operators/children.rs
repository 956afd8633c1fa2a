//! The children of a Website: a ConfigMap with its page, a Deployment and a Service. All have the
//! name of the Website.

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

/// The field manager of all operators.
pub(super) const FIELD_MANAGER: &str = "website-operator";
/// The key of the page in a ConfigMap.
pub(super) const PAGE: &str = "index.html";
/// The port of a Service.
pub(super) const PORT: i32 = 80;
/// The port of the containers.
const SERVER_PORT: i32 = 8080;
/// The cluster IP of a headless Service. The range of cluster IPs is too small for all Services.
const HEADLESS: &str = "None";
/// The volume with the page.
const VOLUME: &str = "html";

/// A child of a Website in a cache, in any representation.
pub(super) trait Child {
    /// Returns true if the Website owns this child, and if all fields that depend on its spec are
    /// up to date.
    fn is_up_to_date(&self, website: &Website) -> bool;
}

impl Child for ConfigMap {
    fn is_up_to_date(&self, website: &Website) -> bool {
        let page = || self.data.as_ref()?.get(PAGE);
        is_controlled(&self.metadata, website) && page() == Some(&website.spec.html)
    }
}

impl Child for Deployment {
    fn is_up_to_date(&self, website: &Website) -> bool {
        let image = || self.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.as_ref();
        let replicas = || self.spec.as_ref()?.replicas;
        is_controlled(&self.metadata, website)
            && replicas() == Some(website.spec.replicas)
            && image() == Some(&website.spec.image)
    }
}

impl Child for Service {
    fn is_up_to_date(&self, website: &Website) -> bool {
        let port = || Some(self.spec.as_ref()?.ports.as_ref()?.first()?.port);
        is_controlled(&self.metadata, website) && port() == Some(PORT)
    }
}

fn is_controlled(metadata: &ObjectMeta, website: &Website) -> bool {
    let is_website = |owner: &OwnerReference| {
        owner.controller == Some(true) && Some(&owner.uid) == website.metadata.uid.as_ref()
    };
    metadata.owner_references.as_ref().is_some_and(|owners| owners.iter().any(is_website))
}

/// Returns the desired ConfigMap.
pub(super) fn config_map(website: &Website) -> ConfigMap {
    let data = BTreeMap::from([(PAGE.to_owned(), website.spec.html.clone())]);
    ConfigMap { metadata: metadata(website), data: Some(data), ..ConfigMap::default() }
}

/// Returns the desired Deployment.
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

/// Returns the desired Service.
pub(super) fn service(website: &Website) -> Service {
    let port = ServicePort {
        port: PORT,
        target_port: Some(IntOrString::Int(SERVER_PORT)),
        ..ServicePort::default()
    };
    let spec = ServiceSpec {
        cluster_ip: Some(HEADLESS.to_owned()),
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
