//! Whether an operator has done its work: all is there that Websites ask for, nothing else is, and all operators leave the
//! same behind them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube_client::api::{ApiResource, DynamicObject, ListParams};
use kube_client::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::children::Child;
use super::cluster::has_websites;
use super::website::Website;

/// So many complaints are told.
const TOLD: usize = 5;
/// So many objects are listed at once.
const PAGE: u32 = 1_000;

/// What an operator has left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// Some of what is wrong.
    pub(super) wrong: Vec<String>,
    /// Of all that there is, but for what differs from one time to the next: uids, versions, times and owners of fields.
    pub(super) digest: String,
}

/// Looks at all Websites and all that they get.
pub(super) async fn check(client: &Client, objects: usize) -> Result<State> {
    let mut hasher = DefaultHasher::new();
    let mut wrong = Vec::new();
    let websites: Vec<Website> = list(client, &mut hasher).await?;
    if websites.len() != objects {
        wrong.push(format!("{} Websites instead of {objects}", websites.len()));
    }
    let unreported = websites.iter().filter(|website| !website.is_reported());
    wrong.extend(unreported.map(|website| format!("{:?} is not ready", website.metadata.name)));
    wrong.extend(unfit(&list::<ConfigMap>(client, &mut hasher).await?, &websites));
    wrong.extend(unfit(&list::<Deployment>(client, &mut hasher).await?, &websites));
    wrong.extend(unfit(&list::<Service>(client, &mut hasher).await?, &websites));
    wrong.truncate(TOLD);
    Ok(State { wrong, digest: format!("{:016x}", hasher.finish()) })
}

/// What is wrong with the objects of a kind: each Website gets one, both are in the order of their names.
fn unfit<T: Child + Resource<DynamicType = ()>>(children: &[T], websites: &[Website]) -> Vec<String> {
    let kind = T::kind(&());
    if children.len() != websites.len() {
        return vec![format!("{} objects of kind {kind} instead of {}", children.len(), websites.len())];
    }
    let pairs = children.iter().zip(websites).filter(|(child, website)| !child.fits(website));
    pairs.map(|(_, website)| format!("the {kind} of {:?} does not fit", website.metadata.name)).collect()
}

/// The objects of a type that are in namespaces with Websites.
async fn list<T>(client: &Client, hasher: &mut DefaultHasher) -> Result<Vec<T>>
where
    T: Resource<DynamicType = ()> + DeserializeOwned,
{
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<T>(&()));
    let (mut objects, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
    loop {
        let page = api.list(&params).await.with_context(|| format!("listing {}", T::kind(&())))?;
        let theirs = |object: &DynamicObject| object.metadata.namespace.as_deref().is_some_and(has_websites);
        for object in page.items.into_iter().filter(theirs) {
            let object = serde_json::to_value(object)?;
            lasting(object.clone()).to_string().hash(hasher);
            objects
                .push(serde_json::from_value(object).with_context(|| format!("reading {}", T::kind(&())))?);
        }
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(objects);
        }
    }
}

/// What is the same whoever has made the object, and when.
fn lasting(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| {
            !matches!(&**key, "uid" | "resourceVersion" | "creationTimestamp" | "managedFields")
        });
    }
    remove_each(&mut object, "/metadata/ownerReferences", "uid");
    remove_each(&mut object, "/status/conditions", "lastTransitionTime");
    object
}

fn remove_each(object: &mut Value, list: &str, field: &str) {
    let items = object.pointer_mut(list).and_then(Value::as_array_mut);
    for item in items.into_iter().flatten().filter_map(Value::as_object_mut) {
        item.remove(field);
    }
}

#[cfg(test)]
mod tests {
    use kube_testserver::Server;
    use serde_json::json;

    use super::*;
    use crate::operators::children::{config_map, deployment, service};
    use crate::operators::cluster::fill;

    /// A server with one Website.
    async fn filled() -> (Server, Client) {
        let server = Server::new();
        let client = Client::new(server.service(), "default");
        fill(&client, 1).await.unwrap();
        (server, client)
    }

    /// One for which an operator has done its work; and that Website.
    async fn done() -> (Server, Client, Website) {
        let (server, client) = filled().await;
        let website = server.list("example.com/v1", "Website", None).unwrap().remove(0);
        let website: Website = serde_json::from_value(website).unwrap();
        for child in [
            serde_json::to_value(config_map(&website)).unwrap(),
            serde_json::to_value(deployment(&website)).unwrap(),
            serde_json::to_value(service(&website)).unwrap(),
        ] {
            server.create(child).unwrap();
        }
        let mut reported = serde_json::to_value(&website).unwrap();
        reported["status"] = website.report()["status"].clone();
        server.update_status(reported).unwrap();
        (server, client, website)
    }

    async fn wrong(client: &Client) -> Vec<String> {
        check(client, 1).await.unwrap().wrong
    }

    #[tokio::test]
    async fn what_is_right_is_right_and_the_same_in_another_cluster() {
        let (one, other) = (done().await.1, done().await.1);
        let (one, other) = (check(&one, 1).await.unwrap(), check(&other, 1).await.unwrap());
        assert_eq!((one.wrong.len(), &one), (0, &other));
    }

    #[tokio::test]
    async fn what_is_missing_too_much_or_of_an_older_spec_is_found() {
        let complaints = wrong(&filled().await.1).await;
        assert_eq!(complaints.len(), 4, "{complaints:?}");

        let (server, client, website) = done().await;
        let name = website.metadata.name.as_deref().unwrap();
        let namespace = website.metadata.namespace.as_deref();
        server.patch("example.com/v1", "Website", namespace, name, &json!({"spec": {"image": "x"}})).unwrap();
        let complaints = wrong(&client).await;
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[1].starts_with("the Deployment"), "{complaints:?}");

        let (server, client, _) = done().await;
        let another = |namespace| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}});
        server.create(another("default")).unwrap();
        assert_eq!(wrong(&client).await, [""; 0], "that is the server's own affair");
        server.create(another("team-00")).unwrap();
        assert_eq!(wrong(&client).await, ["2 objects of kind ConfigMap instead of 1"]);
    }
}
