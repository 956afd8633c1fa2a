//! The expected state: a consistent list from the server that bypasses the informers.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use kube_client::api::{ApiResource, DynamicObject, ListParams};
use kube_client::{Api, Client};
use kube_informer::{Object, ObjectKey, ResourceVersion, Uid};

/// The label with the number of the write. It identifies a state even if a restored server reuses a
/// version.
pub const WRITE: &str = "write";

/// A state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The uid of the object.
    pub uid: Uid,
    /// The version of the state.
    pub version: ResourceVersion,
    /// The number of the write.
    pub write: u64,
}

impl State {
    /// Returns the state of an object with separate identity.
    pub fn of(uid: Uid, version: ResourceVersion, object: &impl Object) -> Self {
        let write = object.label(WRITE).and_then(|text| text.parse().ok()).unwrap_or_default();
        Self { uid, version, write }
    }
}

/// The states of many objects.
pub type States = BTreeMap<ObjectKey, State>;

/// The scope of a list, for informers and for the expected state.
#[derive(Clone, Debug, PartialEq)]
pub struct Scope {
    /// The resource.
    pub resource: ApiResource,
    /// The namespace. `None` for all namespaces.
    pub namespace: Option<&'static str>,
    /// A label selector.
    pub labels: Option<&'static str>,
}

impl Scope {
    /// All of a resource.
    pub fn all(resource: ApiResource) -> Self {
        Self { resource, namespace: None, labels: None }
    }

    /// Returns an `Api` for the scope, without its labels.
    pub fn api(&self, client: Client) -> Api<DynamicObject> {
        match self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        }
    }

    /// Returns the present state of the server.
    pub async fn list(&self, client: &Client) -> Result<States> {
        let params = ListParams { label_selector: self.labels.map(str::to_owned), ..ListParams::default() };
        let listed = self.api(client.clone()).list_metadata(&params).await;
        let listed = listed.with_context(|| format!("listing {}", self.resource.plural))?;
        let state = |object: &_| {
            let id = Object::id(object);
            (id.key.to_key(), State::of(id.uid, id.version, object))
        };
        Ok(listed.items.iter().map(state).collect())
    }
}

/// Returns a text with the differences of two maps, or `None` if they are equal.
pub fn difference(has: &States, should: &States) -> Option<String> {
    let missing = should.iter().filter(|(key, state)| has.get(*key) != Some(*state));
    let superfluous = has.keys().filter(|key| !should.contains_key(*key));
    let (wrong, extra) = (missing.clone().count(), superfluous.clone().count());
    if wrong + extra == 0 {
        return None;
    }
    let example = missing.map(|(key, state)| (key, has.get(key), Some(state)));
    let mut example = example.chain(superfluous.map(|key| (key, has.get(key), None)));
    Some(format!("{wrong} missing or old, {extra} too many, such as {:?}", example.next()))
}
