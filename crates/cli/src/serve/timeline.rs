//! `Timeline`: the objects and the events of a recording, in their order.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use kube_operator::RecordedBody;
use serde_json::{Value, json};

/// The maximum difference between the times at which two watches deliver events of the same time.
const MAX_WATCH_DELAY: Duration = Duration::from_secs(1);
/// The maximum number of events that an event passes when the events are sorted.
const MAX_MOVES: usize = 10_000;

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

/// The objects that a list or a watch selects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Collection {
    /// `v1`, or a group and a version.
    api_version: String,
    namespace: Option<String>,
    plural: String,
    /// The selectors in the query of the URL, sorted. Lists with other selectors have other objects.
    selectors: BTreeSet<String>,
}

impl Collection {
    /// Parses the path and the query of a list or a watch. The query also contains parameters of one request,
    /// for example a limit, which do not change the collection.
    fn parse(url: &str) -> Option<Self> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
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
        let is_selector = |part: &&str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            matches!(name, "labelSelector" | "fieldSelector") && !value.is_empty()
        };
        let selectors = query.split('&').filter(is_selector).map(str::to_owned).collect();
        Some(Self { api_version, namespace, plural: plural.to_owned(), selectors })
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
                reader.read(&body.path, body.at, value);
            }
        }
        Self::from(reader)
    }
}

impl From<Reader> for Timeline {
    fn from(reader: Reader) -> Self {
        let crds = reader.crds();
        let Reader { initial: mut actions, mut events, .. } = reader;
        actions.sort_by_key(|action| version(&action.object));
        sort_concurrent(&mut events);
        actions.extend(events);
        Self { crds, actions }
    }
}

/// Sorts the events of different watches by resourceVersion, because the program can receive the later event
/// first. Events with a larger difference in time can belong to different histories, and stay in their order.
/// An event moves by at most `MAX_MOVES` places, so the work for a file of any contents is bounded.
fn sort_concurrent(events: &mut [Action]) {
    for last in 1..events.len() {
        let mut index = last;
        let first = last.saturating_sub(MAX_MOVES);
        while index > first && is_reversed(&events[index - 1], &events[index]) {
            events.swap(index - 1, index);
            index -= 1;
        }
    }
}

fn is_reversed(first: &Action, second: &Action) -> bool {
    let is_concurrent = second.at.saturating_sub(first.at) <= MAX_WATCH_DELAY;
    is_concurrent && version(&first.object) > version(&second.object)
}

impl Reader {
    /// Reads one body of a response to a request of this path, which was received at the time `at`.
    fn read(&mut self, path: &str, at: Duration, mut value: Value) {
        if value["kind"] == "APIResourceList" {
            let api_version = value["groupVersion"].as_str().unwrap_or_default().to_owned();
            let resources = value["resources"].as_array().cloned().unwrap_or_default();
            self.resources.insert(api_version, resources);
            return;
        }
        let Some(collection) = Collection::parse(path) else { return };
        if let Some(event) = value["type"].as_str() {
            let is_removal = event == "DELETED";
            let is_change = is_removal || matches!(event, "ADDED" | "MODIFIED");
            let object = value.get_mut("object").filter(|object| is_change && object.is_object());
            if let Some(object) = object {
                let object = object.take();
                self.change(&collection, at, is_removal, object);
            }
            return;
        }
        let kind = value["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
        let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) else { return };
        for mut item in std::mem::take(items).into_iter().filter(Value::is_object) {
            // Lists omit the type of their items.
            item["apiVersion"] = collection.api_version.clone().into();
            item["kind"] = kind.clone().into();
            self.pages.entry(collection.clone()).or_default().insert(name(&item));
            self.change(&collection, at, false, item);
        }
        if value["metadata"]["continue"].as_str().is_none_or(str::is_empty) {
            self.complete(&collection, at);
        }
    }

    /// Adds a change, unless the object already has this state.
    fn change(&mut self, collection: &Collection, at: Duration, is_removal: bool, object: Value) {
        let name = name(&object);
        if is_removal {
            self.known.entry(collection.clone()).or_default().remove(&name);
            if self.is_in_other(collection, &name, |_| true) {
                return;
            }
        } else {
            let is_same = |known: &Value| version(known) == version(&object);
            let is_known = self.is_in_other(collection, &name, is_same);
            let old = self.known.entry(collection.clone()).or_default().insert(name, object.clone());
            if is_known || old.as_ref().is_some_and(is_same) {
                return;
            }
        }
        let is_initial = !self.listed.contains(collection);
        let action = Action { at, is_initial, is_removal, object };
        if is_initial { self.initial.push(action) } else { self.events.push(action) }
    }

    /// Returns whether another collection of the same resource has an object with this name. An object that
    /// no longer fulfils one selector still exists if it fulfils another.
    fn is_in_other(&self, collection: &Collection, name: &str, is_wanted: impl Fn(&Value) -> bool) -> bool {
        self.known.iter().any(|(other, objects)| {
            let is_same_resource =
                other.api_version == collection.api_version && other.plural == collection.plural;
            is_same_resource && other != collection && objects.get(name).is_some_and(&is_wanted)
        })
    }

    /// Removes the objects that a complete list no longer contains.
    fn complete(&mut self, collection: &Collection, at: Duration) {
        let names = self.pages.remove(collection).unwrap_or_default();
        self.listed.insert(collection.clone());
        let known = self.known.entry(collection.clone()).or_default();
        let missing: Vec<Value> = known
            .iter()
            .filter(|(name, _)| !names.contains(*name))
            .map(|(_, object)| object.clone())
            .collect();
        for object in missing {
            self.change(collection, at, true, object);
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

    fn timeline(bodies: &[(&str, Value)]) -> Timeline {
        let mut reader = Reader::default();
        bodies.iter().for_each(|(path, body)| reader.read(path, Duration::ZERO, body.clone()));
        Timeline::from(reader)
    }

    fn list(names: &[&str]) -> Value {
        let items = names.iter().map(|name| json!({"metadata": {"name": name, "resourceVersion": "1"}}));
        json!({"kind": "PodList", "metadata": {}, "items": items.collect::<Vec<_>>()})
    }

    #[test]
    fn lists_with_other_selectors_remove_no_object() {
        let path =
            |name: &str, rest: &str| format!("/api/v1/pods?fieldSelector=metadata.name%3D{name}{rest}");
        let (a, b, again) = (path("a", "&limit=500"), path("b", ""), path("a", "&resourceVersion=5"));
        let timeline = timeline(&[(&a, list(&["a"])), (&b, list(&["b"])), (&again, list(&[]))]);
        let actions: Vec<_> = timeline
            .actions
            .iter()
            .map(|action| (name(&action.object), action.is_initial, action.is_removal))
            .collect();
        let expected = [("/a", true, false), ("/b", true, false), ("/a", false, true)];
        assert_eq!(actions, expected.map(|(name, first, last)| (name.to_owned(), first, last)));
    }

    #[test]
    fn object_that_fulfils_another_selector_remains() {
        let (a, b) = ("/api/v1/pods?labelSelector=a", "/api/v1/pods?labelSelector=b");
        let gone = json!({"type": "DELETED", "object": list(&["x"])["items"][0]});
        let timeline = timeline(&[(a, list(&["x"])), (b, list(&["x"])), (a, gone.clone()), (b, gone)]);
        let removals: Vec<_> = timeline.actions.iter().map(|action| action.is_removal).collect();
        assert_eq!(removals, [false, true], "the object is deleted once, at the last event");
    }

    #[test]
    fn concurrent_events_have_the_order_of_their_versions() {
        let mut reader = Reader::default();
        reader.read("/api/v1/pods", Duration::ZERO, list(&[]));
        for (seconds, version) in [(0, 28), (0, 26), (1, 27), (9, 5)] {
            let metadata = json!({"name": version.to_string(), "resourceVersion": version.to_string()});
            let event = json!({"type": "ADDED", "object": {"metadata": metadata}});
            reader.read("/api/v1/pods?watch=true", Duration::from_secs(seconds), event);
        }
        let events = Timeline::from(reader).actions;
        let versions: Vec<_> = events.iter().map(|event| version(&event.object)).collect();
        assert_eq!(versions, [26, 27, 28, 5], "the last event belongs to another history");
    }

    #[test]
    fn events_move_by_a_limited_number_of_places() {
        let event = |version: usize| Action {
            at: Duration::ZERO,
            is_initial: false,
            is_removal: false,
            object: json!({"metadata": {"resourceVersion": version.to_string()}}),
        };
        let mut events: Vec<_> = (1..=MAX_MOVES + 2).map(event).collect();
        events.push(event(0));
        sort_concurrent(&mut events);
        assert_eq!(events.iter().position(|event| version(&event.object) == 0), Some(2));
    }

    /// Objects in another order would not keep their resourceVersions.
    #[test]
    fn objects_of_first_lists_have_the_order_of_their_versions() {
        let pages = [("/api/v1/pods", [7, 5]), ("/api/v1/secrets", [6, 4])].map(|(path, versions)| {
            let items = versions.map(|version| {
                let version = version.to_string();
                json!({"metadata": {"name": version, "resourceVersion": version}})
            });
            (path, json!({"kind": "List", "metadata": {}, "items": items}))
        });
        let objects = timeline(&pages).actions;
        let versions: Vec<_> = objects.iter().map(|object| version(&object.object)).collect();
        assert_eq!(versions, [4, 5, 6, 7]);
    }

    #[test]
    fn items_that_are_not_objects_are_skipped() {
        let items = json!({"kind": "PodList", "metadata": "x", "items": [1, "x", [], null, {"metadata": 7}]});
        let event = json!({"type": "ADDED", "object": 3});
        let timeline = timeline(&[("/api/v1/pods", items), ("/api/v1/pods?watch=true", event)]);
        assert_eq!(timeline.actions.len(), 1);
        for body in [json!([]), json!(null), json!("x"), json!({"kind": 1, "items": {}})] {
            assert!(super::tests::timeline(&[("/api/v1/pods", body)]).actions.is_empty());
        }
    }

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
