//! `Timeline`: the objects and the events of a recording, in their order.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use kube_operator::RecordedBody;
use serde_json::{Value, json};

/// A change of an object.
#[derive(Clone, Debug)]
pub(super) struct Action {
    /// The time since the start of the recording.
    pub(super) at: Duration,
    /// Whether the first list of a resource contains the object.
    pub(super) is_initial: bool,
    pub(super) is_removal: bool,
    pub(super) object: Value,
}

/// The contents of a recording.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// The definitions of the custom resources of the recorded objects.
    pub(super) crds: Vec<Value>,
    /// The initial objects by resourceVersion, and then the events by time.
    pub(super) actions: Vec<Action>,
}

/// A resource in the URL of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Collection {
    /// `v1`, or a group and a version.
    api_version: String,
    namespace: Option<String>,
    plural: String,
}

impl Collection {
    /// Parses the path of a list or a watch.
    fn parse(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default().trim_matches('/');
        let parts: Vec<&str> = path.split('/').collect();
        let (api_version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return None,
        };
        let (namespace, plural) = match rest {
            ["namespaces", namespace, plural] => (Some((*namespace).to_owned()), *plural),
            [plural] => (None, *plural),
            _ => return None,
        };
        Some(Self { api_version, namespace, plural: plural.to_owned() })
    }
}

/// Reads the bodies of a recording in their order.
#[derive(Default)]
struct Reader {
    initial: Vec<Action>,
    events: Vec<Action>,
    /// The last state of each object, by collection and by namespace and name.
    known: HashMap<Collection, BTreeMap<String, Value>>,
    /// The names in the pages of a list that is not complete.
    pages: HashMap<Collection, BTreeSet<String>>,
    /// The collections with a complete list.
    listed: BTreeSet<Collection>,
    /// The resources that the server has, by API version.
    resources: HashMap<String, Vec<Value>>,
}

impl Timeline {
    /// Reads the lists and the events of a recording. Other bodies are ignored.
    pub(super) fn new(bodies: &[RecordedBody]) -> Self {
        let mut reader = Reader::default();
        for body in bodies.iter().filter(|body| body.method == "GET" && body.status == 200) {
            if let Ok(value) = serde_json::from_str(&body.body) {
                reader.read(body, value);
            }
        }
        let crds = reader.crds();
        let Reader { initial: mut actions, events, .. } = reader;
        actions.sort_by_key(|action| version(&action.object));
        actions.extend(events);
        Self { crds, actions }
    }
}

impl Reader {
    fn read(&mut self, body: &RecordedBody, mut value: Value) {
        if value["kind"] == "APIResourceList" {
            let api_version = value["groupVersion"].as_str().unwrap_or_default().to_owned();
            let resources = value["resources"].as_array().cloned().unwrap_or_default();
            self.resources.insert(api_version, resources);
            return;
        }
        let Some(collection) = Collection::parse(&body.path) else { return };
        if let Some(event) = value["type"].as_str() {
            let is_removal = event == "DELETED";
            if is_removal || matches!(event, "ADDED" | "MODIFIED") {
                self.change(&collection, body.at, is_removal, value["object"].take());
            }
            return;
        }
        let kind = value["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
        let Some(items) = value["items"].as_array_mut() else { return };
        for mut item in std::mem::take(items) {
            // Lists omit the type of their items.
            item["apiVersion"] = collection.api_version.clone().into();
            item["kind"] = kind.clone().into();
            self.pages.entry(collection.clone()).or_default().insert(name(&item));
            self.change(&collection, body.at, false, item);
        }
        if value["metadata"]["continue"].as_str().is_none_or(str::is_empty) {
            self.complete(&collection, body.at);
        }
    }

    /// Adds a change, unless the object already has this state.
    fn change(&mut self, collection: &Collection, at: Duration, is_removal: bool, object: Value) {
        let (name, known) = (name(&object), self.known.entry(collection.clone()).or_default());
        if is_removal {
            known.remove(&name);
        } else if known.get(&name).is_some_and(|known| version(known) == version(&object)) {
            return;
        } else {
            known.insert(name, object.clone());
        }
        let is_initial = !self.listed.contains(collection);
        let action = Action { at, is_initial, is_removal, object };
        if is_initial { self.initial.push(action) } else { self.events.push(action) }
    }

    /// Removes the objects that a complete list no longer contains.
    fn complete(&mut self, collection: &Collection, at: Duration) {
        let names = self.pages.remove(collection).unwrap_or_default();
        self.listed.insert(collection.clone());
        let known = self.known.entry(collection.clone()).or_default();
        let missing: Vec<String> = known.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for name in missing {
            let object = known.remove(&name).unwrap_or_default();
            self.events.push(Action { at, is_initial: false, is_removal: true, object });
        }
    }

    /// Returns definitions of the recorded resources whose groups have a dot. Built-in groups with a dot end
    /// with `.k8s.io`, and the server already contains these groups.
    fn crds(&self) -> Vec<Value> {
        let collections = self.known.keys().filter(|collection| {
            let group = collection.api_version.split_once('/').map_or("", |(group, _)| group);
            group.contains('.') && !group.ends_with(".k8s.io")
        });
        let kinds: BTreeSet<_> =
            collections.map(|collection| (&collection.api_version, &collection.plural)).collect();
        kinds.into_iter().filter_map(|(api_version, plural)| self.crd(api_version, plural)).collect()
    }

    fn crd(&self, api_version: &str, plural: &str) -> Option<Value> {
        let (group, version) = api_version.split_once('/')?;
        let resource = self.resources.get(api_version)?.iter().find(|resource| resource["name"] == plural)?;
        let scope = if resource["namespaced"] == true { "Namespaced" } else { "Cluster" };
        let names = json!({
            "plural": plural, "kind": resource["kind"],
            "singular": resource["singularName"].as_str().unwrap_or_default(),
            "shortNames": resource["shortNames"].as_array().cloned().unwrap_or_default(),
        });
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        Some(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": scope, "names": names,
                "versions": [{"name": version, "served": true, "storage": true, "schema": schema}],
            },
        }))
    }
}

/// Returns the namespace and the name of an object.
fn name(object: &Value) -> String {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collection_is_parsed_from_path() {
        let parsed = |path: &str| {
            Collection::parse(path).map(|collection| {
                (collection.api_version, collection.namespace.unwrap_or_default(), collection.plural)
            })
        };
        let expected = |version: &str, namespace: &str, plural: &str| {
            Some((version.to_owned(), namespace.to_owned(), plural.to_owned()))
        };
        assert_eq!(parsed("/api/v1/pods?limit=500"), expected("v1", "", "pods"));
        assert_eq!(parsed("/apis/apps/v1/namespaces/a/deployments"), expected("apps/v1", "a", "deployments"));
        assert_eq!(parsed("/api/v1/namespaces"), expected("v1", "", "namespaces"));
        assert_eq!(parsed("/api/v1/namespaces/a/pods/b"), None);
        assert_eq!(parsed("/version"), None);
    }
}
