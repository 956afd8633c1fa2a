//! Projections of the children. To save memory, they contain only the fields that the operator
//! compares.

use kube_informer::Projection;
use serde::Deserialize;

use super::children::{Child, PORT};
use super::website::Website;

#[derive(Deserialize)]
pub(super) struct ConfigMapView {
    metadata: Metadata,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "index.html")]
    page: Option<Box<str>>,
}

#[derive(Deserialize)]
pub(super) struct DeploymentView {
    metadata: Metadata,
    spec: DeploymentSpecView,
}

#[derive(Deserialize)]
struct DeploymentSpecView {
    replicas: Option<i32>,
    template: Template,
}

#[derive(Deserialize)]
struct Template {
    spec: PodSpecView,
}

#[derive(Deserialize)]
struct PodSpecView {
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    image: Option<Box<str>>,
}

#[derive(Deserialize)]
pub(super) struct ServiceView {
    metadata: Metadata,
    spec: ServiceSpecView,
}

#[derive(Deserialize)]
struct ServiceSpecView {
    #[serde(default)]
    ports: Vec<Port>,
}

#[derive(Deserialize)]
struct Port {
    port: i32,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default, rename = "ownerReferences")]
    owners: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    uid: Box<str>,
    #[serde(default)]
    controller: bool,
}

impl Metadata {
    fn is_controlled(&self, website: &Website) -> bool {
        let uid = website.metadata.uid.as_deref();
        self.owners.iter().any(|owner| owner.controller && Some(&*owner.uid) == uid)
    }
}

impl<K, V: Child> Child for Projection<K, V> {
    fn is_up_to_date(&self, website: &Website) -> bool {
        self.fields.is_up_to_date(website)
    }
}

impl Child for ConfigMapView {
    fn is_up_to_date(&self, website: &Website) -> bool {
        let page = || self.data.as_ref()?.page.as_deref();
        self.metadata.is_controlled(website) && page() == Some(&website.spec.html)
    }
}

impl Child for DeploymentView {
    fn is_up_to_date(&self, website: &Website) -> bool {
        let image = || self.spec.template.spec.containers.first()?.image.as_deref();
        self.metadata.is_controlled(website)
            && self.spec.replicas == Some(website.spec.replicas)
            && image() == Some(&website.spec.image)
    }
}

impl Child for ServiceView {
    fn is_up_to_date(&self, website: &Website) -> bool {
        self.metadata.is_controlled(website) && self.spec.ports.first().is_some_and(|port| port.port == PORT)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::children::{config_map, deployment, service};
    use super::*;

    fn website(replicas: i32, html: &str) -> Website {
        let website = json!({
            "apiVersion": "example.com/v1", "kind": "Website",
            "metadata": {"name": "a", "namespace": "b", "uid": "u", "generation": 1},
            "spec": {"image": "i", "replicas": replicas, "html": html}
        });
        serde_json::from_value(website).unwrap()
    }

    fn view<V: for<'de> Deserialize<'de>>(object: impl serde::Serialize) -> V {
        serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap()
    }

    #[test]
    fn typed_objects_and_projections_agree_about_being_up_to_date() {
        let desired = website(2, "page");
        let other_owner = {
            let mut other = desired.clone();
            other.metadata.uid = Some("v".to_owned());
            other
        };
        for (website, [map, deploys]) in [
            (&desired, [true, true]),
            (&website(3, "page"), [true, false]),
            (&website(2, "other"), [false, true]),
            (&other_owner, [false, false]),
        ] {
            let (a, b, c) = (config_map(&desired), deployment(&desired), service(&desired));
            assert_eq!([a.is_up_to_date(website), b.is_up_to_date(website)], [map, deploys]);
            assert_eq!(c.is_up_to_date(website), map || deploys);
            let projected = [
                view::<ConfigMapView>(&a).is_up_to_date(website),
                view::<DeploymentView>(&b).is_up_to_date(website),
            ];
            assert_eq!(projected, [map, deploys]);
            assert_eq!(view::<ServiceView>(&c).is_up_to_date(website), map || deploys);
        }
    }
}
