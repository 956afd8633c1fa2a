//! Checks the work of an operator: the cluster contains exactly the expected objects, and all
//! operators produce the same objects.

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
use super::website::Website;
use super::workload::has_websites;

/// The number of problems in an error message.
const MAX_PROBLEMS: usize = 5;
const PAGE_SIZE: u32 = 1_000;

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The first problems.
    pub(super) problems: Vec<String>,
    /// A digest of all objects without fields that differ between runs: uids, resourceVersions,
    /// times and field managers.
    pub(super) digest: String,
}

/// Checks all Websites and their children.
pub(super) async fn check(client: &Client, objects: usize) -> Result<State> {
    let mut hasher = DefaultHasher::new();
    let mut problems = Vec::new();
    let websites: Vec<Website> = list(client, &mut hasher).await?;
    if websites.len() != objects {
        problems.push(format!("found {} Websites, expected {objects}", websites.len()));
    }
    let unreported = websites.iter().filter(|website| !website.is_reported());
    problems.extend(unreported.map(|website| format!("{:?} is not ready", website.metadata.name)));
    problems.extend(child_problems(&list::<ConfigMap>(client, &mut hasher).await?, &websites));
    problems.extend(child_problems(&list::<Deployment>(client, &mut hasher).await?, &websites));
    problems.extend(child_problems(&list::<Service>(client, &mut hasher).await?, &websites));
    problems.truncate(MAX_PROBLEMS);
    Ok(State { problems, digest: format!("{:016x}", hasher.finish()) })
}

/// Returns the problems of the children of a kind. Each Website has one child, and both lists are
/// sorted by name.
fn child_problems<T: Child + Resource<DynamicType = ()>>(
    children: &[T],
    websites: &[Website],
) -> Vec<String> {
    let kind = T::kind(&());
    if children.len() != websites.len() {
        return vec![format!("found {} objects of kind {kind}, expected {}", children.len(), websites.len())];
    }
    let pairs = children.iter().zip(websites).filter(|(child, website)| !child.is_up_to_date(website));
    pairs.map(|(_, website)| format!("the {kind} of {:?} is not up to date", website.metadata.name)).collect()
}

/// Lists the objects of a type in the namespaces with Websites.
async fn list<T>(client: &Client, hasher: &mut DefaultHasher) -> Result<Vec<T>>
where
    T: Resource<DynamicType = ()> + DeserializeOwned,
{
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<T>(&()));
    let (mut objects, mut params) = (Vec::new(), ListParams::default().limit(PAGE_SIZE));
    loop {
        let page = api.list(&params).await.with_context(|| format!("cannot list {}", T::kind(&())))?;
        let is_included =
            |object: &DynamicObject| object.metadata.namespace.as_deref().is_some_and(has_websites);
        for object in page.items.into_iter().filter(is_included) {
            let object = serde_json::to_value(object)?;
            comparable(object.clone()).to_string().hash(hasher);
            objects.push(
                serde_json::from_value(object).with_context(|| format!("cannot decode {}", T::kind(&())))?,
            );
        }
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(objects);
        }
    }
}

/// Removes the fields that differ between runs.
fn comparable(mut object: Value) -> Value {
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
    use crate::operators::workload::fill;

    /// Creates a server with one Website.
    async fn with_website() -> (Server, Client) {
        let server = Server::new();
        let client = Client::new(server.service(), "default");
        fill(&client, 1).await.unwrap();
        (server, client)
    }

    /// Creates a server with one Website and its children.
    async fn with_children() -> (Server, Client, Website) {
        let (server, client) = with_website().await;
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

    async fn problems(client: &Client) -> Vec<String> {
        check(client, 1).await.unwrap().problems
    }

    #[tokio::test]
    async fn complete_clusters_have_no_problems_and_equal_digests() {
        let (one, other) = (with_children().await.1, with_children().await.1);
        let (one, other) = (check(&one, 1).await.unwrap(), check(&other, 1).await.unwrap());
        assert_eq!((one.problems.len(), &one), (0, &other));
    }

    #[tokio::test]
    async fn missing_extra_and_outdated_objects_are_reported() {
        let found = problems(&with_website().await.1).await;
        assert_eq!(found.len(), 4, "{found:?}");

        let (server, client, website) = with_children().await;
        let name = website.metadata.name.as_deref().unwrap();
        let namespace = website.metadata.namespace.as_deref();
        server.patch("example.com/v1", "Website", namespace, name, &json!({"spec": {"image": "x"}})).unwrap();
        let found = problems(&client).await;
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].starts_with("the Deployment"), "{found:?}");

        let (server, client, _) = with_children().await;
        let another = |namespace| {
            let metadata = json!({"name": "a", "namespace": namespace});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        };
        server.create(another("default")).unwrap();
        assert_eq!(problems(&client).await, [""; 0], "other namespaces are not checked");
        server.create(another("team-00")).unwrap();
        assert_eq!(problems(&client).await, ["found 2 objects of kind ConfigMap, expected 1"]);
    }
}
