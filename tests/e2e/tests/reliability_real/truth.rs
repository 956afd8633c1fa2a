//! What the server has: a fresh, consistent list, taken behind the informers' backs.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use kube_client::api::{ApiResource, DynamicObject, ListParams};
use kube_client::{Api, Client};
use kube_informer::{Object, ObjectKey, ResourceVersion, Uid};

/// The label that tells states apart even where a restored server uses a version again: the number of the write.
pub(crate) const WRITE: &str = "write";

/// One state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) uid: Uid,
    pub(crate) version: ResourceVersion,
    pub(crate) write: u64,
}

impl State {
    /// The state of an object under an identity that was kept beside it.
    pub(crate) fn of(uid: Uid, version: ResourceVersion, object: &impl Object) -> Self {
        let write = object.label(WRITE).and_then(|text| text.parse().ok()).unwrap_or_default();
        Self { uid, version, write }
    }
}

/// The states of many objects.
pub(crate) type States = BTreeMap<ObjectKey, State>;

/// What is listed: by informers, and by this module to know what they should have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scope {
    pub(crate) resource: ApiResource,
    pub(crate) namespace: Option<&'static str>,
    pub(crate) labels: Option<&'static str>,
}

impl Scope {
    /// All of a resource.
    pub(crate) fn all(resource: ApiResource) -> Self {
        Self { resource, namespace: None, labels: None }
    }

    /// An `Api` that covers it, but for the labels.
    pub(crate) fn api(&self, client: Client) -> Api<DynamicObject> {
        match self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        }
    }

    /// What the server has now.
    pub(crate) async fn list(&self, client: &Client) -> Result<States> {
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

/// In which objects two maps differ, in words; `None` where they are equal.
pub(crate) fn difference(has: &States, should: &States) -> Option<String> {
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
