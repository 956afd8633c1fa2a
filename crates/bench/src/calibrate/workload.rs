//! The workloads of a calibration: Pods with different sizes, numbers of fields, annotations and
//! managedFields, and objects of other kinds.

use anyhow::{Context as _, Result};
use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::managed_fields::{ManagedFields, managed_fields};
use super::objects::{Content, Extra, add_variables, labels, merge, resize, text};
use crate::pods::Pod;
use crate::wire::Kind;

/// The resourceVersion of the list in a recording, before it is raised.
pub(super) const LIST_VERSION: usize = 100_000;

/// A set of objects of one kind that have the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) part: Part,
    /// The number of objects in percent of the number that the command line contains.
    percent: usize,
    source: Source,
}

/// The objects of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Pods(Shape),
    Others(Content),
}

/// The purpose of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The coefficients are fitted to its measurements.
    Training,
    /// The coefficients are tested with its measurements.
    HeldOut,
    /// Like `HeldOut`. Its objects were chosen and measured after the inputs of the model were final.
    Later,
}

/// The properties of the Pods of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Containers in addition to the first two containers. A negative number removes containers.
    containers: i8,
    /// Environment variables in addition to the variables of a usual container.
    env: usize,
    /// Additional labels.
    labels: usize,
    /// Additional annotations, and the bytes of each annotation.
    annotations: (usize, usize),
    managed_fields: ManagedFields,
}

const fn training(name: &'static str, percent: usize, source: Source) -> Workload {
    Workload { name, part: Part::Training, percent, source }
}

const fn held_out(name: &'static str, percent: usize, source: Source) -> Workload {
    Workload { name, part: Part::HeldOut, percent, source }
}

const fn later(name: &'static str, percent: usize, source: Source) -> Workload {
    Workload { name, part: Part::Later, percent, source }
}

const fn pods(
    containers: i8,
    env: usize,
    annotations: (usize, usize),
    managed_fields: ManagedFields,
) -> Source {
    Source::Pods(Shape { containers, env, labels: 0, annotations, managed_fields })
}

/// Pods with two containers, labels and annotations.
const fn labelled_pods(labels: usize, annotations: (usize, usize)) -> Source {
    Source::Pods(Shape { containers: 0, env: 0, labels, annotations, managed_fields: Usual })
}

const fn others(kind: Kind, entries: usize, bytes: usize, managed_fields: ManagedFields) -> Source {
    with(kind, entries, bytes, managed_fields, Extra::Nothing)
}

const fn with(
    kind: Kind,
    entries: usize,
    bytes: usize,
    managed_fields: ManagedFields,
    extra: Extra,
) -> Source {
    Source::Others(Content { kind, entries, bytes, managed_fields, extra })
}

use Extra::{Labels, MixedSizes, Resources, Variables};
use Kind::{ConfigMap, Database, Deployment, Node, ReplicaSet, Secret};
use ManagedFields::{Few, Many, Missing, Usual};

/// The Pods of a usual cluster.
pub(super) const USUAL_PODS: Workload = training("Pods, two containers", 100, pods(0, 0, (0, 0), Usual));

/// All workloads. A held-out workload has another shape than each training workload. Nodes and ReplicaSets
/// are only held out.
///
/// The workloads of `Part::Later` show the error of a model that was chosen without them. If you change the
/// inputs of the model, replace these workloads by new ones.
pub(super) const ALL: [Workload; 36] = [
    training("Pods, single container", 150, pods(-1, 0, (0, 0), Usual)),
    training("Pods, single container without managedFields", 200, pods(-1, 0, (0, 0), Missing)),
    training("Pods, two containers, many managers", 75, pods(0, 0, (0, 0), Many)),
    training("Pods, eight containers, few managers", 50, pods(6, 0, (0, 0), Few)),
    training("Pods, many variables without managedFields", 75, pods(0, 60, (0, 0), Missing)),
    training("Pods, many small annotations", 75, pods(-1, 0, (60, 20), Usual)),
    training("Pods, large annotations", 75, pods(0, 0, (4, 2_000), Usual)),
    training("Pods, very large annotations without managedFields", 30, pods(-1, 0, (2, 20_000), Missing)),
    training("ConfigMaps, few objects", 1, others(ConfigMap, 3, 60, Few)),
    training("ConfigMaps, small values", 400, others(ConfigMap, 3, 60, Few)),
    training("ConfigMaps, many keys", 150, others(ConfigMap, 60, 20, Few)),
    training("ConfigMaps, a large file", 100, others(ConfigMap, 1, 12_000, Few)),
    training("Secrets, small values", 400, others(Secret, 2, 200, Few)),
    training("Deployments", 100, others(Deployment, 2, 0, Usual)),
    training("Databases, one member", 200, others(Database, 1, 20, Usual)),
    training("ConfigMaps, 150 small keys", 75, others(ConfigMap, 150, 8, Few)),
    training("Secrets, 80 small keys", 100, others(Secret, 80, 16, Few)),
    held_out("Pods, three containers", 80, pods(1, 5, (2, 100), Usual)),
    held_out("Pods, six containers, many managers", 40, pods(4, 0, (5, 40), Many)),
    held_out("Pods, many variables and annotations", 60, pods(0, 30, (20, 60), Missing)),
    held_out("Nodes, 40 images", 100, others(Node, 40, 0, Usual)),
    held_out("ReplicaSets, one container", 150, others(ReplicaSet, 1, 0, Usual)),
    held_out("Secrets, Helm releases", 60, others(Secret, 1, 18_000, Few)),
    held_out("Databases, 12 members", 100, others(Database, 12, 60, Few)),
    held_out("Pods, single container, a huge annotation", 20, pods(-1, 0, (1, 60_000), Usual)),
    held_out("Deployments, four containers", 60, others(Deployment, 4, 0, Usual)),
    held_out("ReplicaSets, four containers, many managers", 60, others(ReplicaSet, 4, 0, Many)),
    held_out("Nodes, five images", 200, others(Node, 5, 0, Usual)),
    held_out("Databases, three members, long strings", 100, others(Database, 3, 600, Few)),
    later("ConfigMaps, 90 keys of mixed sizes", 60, with(ConfigMap, 90, 8, Few, MixedSizes)),
    later("Secrets, 30 small keys", 200, others(Secret, 30, 24, Few)),
    later("Pods, 25 labels and 25 annotations", 80, labelled_pods(25, (25, 40))),
    later("Nodes, 44 resources", 150, with(Node, 10, 0, Usual, Resources(40))),
    later("Deployments, two containers, 30 variables", 80, with(Deployment, 2, 0, Usual, Variables(30))),
    later("ReplicaSets, two containers, 15 labels", 120, with(ReplicaSet, 2, 0, Few, Labels(15))),
    later("Databases, six members, 20 labels", 150, with(Database, 6, 40, Usual, Labels(20))),
];

/// An object in two states, as JSON without kind and apiVersion.
pub(super) struct States {
    pub(super) listed: Vec<u8>,
    pub(super) changed: Vec<u8>,
}

impl Workload {
    /// Returns the kind of the objects.
    pub(super) fn kind(&self) -> Kind {
        match self.source {
            Source::Pods(_) => Kind::Pod,
            Source::Others(content) => content.kind,
        }
    }

    /// Returns the number of objects, if a workload of 100 percent has `objects` objects.
    pub(super) fn objects(&self, objects: usize) -> usize {
        (objects * self.percent / 100).max(1)
    }

    /// Returns the object with its type, before or after its change.
    pub(super) fn object(&self, index: usize, is_changed: bool) -> Result<Value> {
        let States { listed, changed } = self.states(index)?;
        let mut object: Value = serde_json::from_slice(if is_changed { &changed } else { &listed })?;
        let texts = self.kind().texts();
        object["apiVersion"] = texts.api_version.into();
        object["kind"] = texts.kind.into();
        Ok(object)
    }

    /// Creates the object with this index.
    pub(super) fn states(&self, index: usize) -> Result<States> {
        let (listed, changed) = match &self.source {
            Source::Pods(shape) => shape.states(index).context("a Pod is not a JSON object")?,
            Source::Others(content) => (content.object(index, 1), content.object(index, 2)),
        };
        let state = |mut object: Value, version: usize| -> Result<Vec<u8>> {
            object["metadata"]["resourceVersion"] = version.to_string().into();
            Ok(serde_json::to_vec(&object)?)
        };
        Ok(States { listed: state(listed, index + 1)?, changed: state(changed, LIST_VERSION + index + 1)? })
    }
}

impl Shape {
    /// Returns the Pod before and after a restart of its containers.
    fn states(&self, index: usize) -> Option<(Value, Value)> {
        let pod = Pod::new(index);
        let mut restarted = pod.started();
        merge(&mut restarted, pod.restarted());
        Some((self.object(&pod, index, pod.started())?, self.object(&pod, index, restarted)?))
    }

    fn object(&self, pod: &Pod, index: usize, mut status: Value) -> Option<Value> {
        let mut rng = Rng::with_seed(index as u64);
        let mut object = pod.created();
        for type_field in ["kind", "apiVersion"] {
            object.as_object_mut()?.remove(type_field);
        }
        let node = pod.binding()["target"]["name"].take();
        let metadata = object["metadata"].as_object_mut()?;
        metadata.insert("namespace".into(), pod.namespace().into());
        metadata.insert("uid".into(), format!("6f1c2b3a-0000-4000-8000-{index:012x}").into());
        metadata.insert("creationTimestamp".into(), "2026-01-01T00:00:00Z".into());
        self.annotate(metadata.get_mut("annotations")?.as_object_mut()?, &mut rng);
        metadata.get_mut("labels")?.as_object_mut()?.extend(labels(&mut rng, self.labels));
        let containers = object["spec"]["containers"].as_array_mut()?;
        resize(containers, self.containers(containers));
        add_variables(&mut containers[0], &mut rng, self.env);
        let spec = object["spec"].as_object_mut()?;
        spec.extend(defaults(&node));
        let statuses = status["status"]["containerStatuses"].as_array_mut()?;
        resize(statuses, self.containers(statuses));
        object["status"] = status["status"].take();
        if let Some(fields) = managed_fields(self.managed_fields, &object) {
            object["metadata"]["managedFields"] = fields;
        }
        Some(object)
    }

    /// Returns the wanted number of containers.
    fn containers(&self, usual: &[Value]) -> usize {
        usual.len().saturating_add_signed(self.containers.into())
    }

    fn annotate(&self, annotations: &mut Map<String, Value>, rng: &mut Rng) {
        let (count, bytes) = self.annotations;
        for number in 0..count {
            annotations.insert(format!("example.com/annotation-{number}"), text(rng, bytes).into());
        }
    }
}

/// Fields that kube-apiserver adds to each Pod.
fn defaults(node: &Value) -> Map<String, Value> {
    let defaults = json!({
        "nodeName": node,
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": true,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "serviceAccount": "default",
    });
    match defaults {
        Value::Object(defaults) => defaults,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_have_different_shapes() {
        for (number, workload) in ALL.iter().enumerate() {
            assert!(ALL[..number].iter().all(|other| !is_same_shape(other, workload)), "{}", workload.name);
        }
        let held_out = || ALL.iter().filter(|workload| workload.part == Part::HeldOut);
        for part in [Part::HeldOut, Part::Later] {
            let of_part = ALL.iter().filter(|workload| workload.part == part);
            assert!(of_part.filter(|workload| workload.kind().has_protobuf()).count() >= 5);
        }
        let is_fitted = |kind| ALL.iter().any(|other| other.part == Part::Training && other.kind() == kind);
        assert!(held_out().any(|workload| !is_fitted(workload.kind())));
    }

    /// The number of objects is not a part of the shape, except for the workload with few objects.
    fn is_same_shape(a: &Workload, b: &Workload) -> bool {
        a.source == b.source && (a.part != b.part || a.percent == b.percent)
    }

    #[test]
    fn pods_have_the_shape_of_their_workload() -> Result<()> {
        for workload in &ALL {
            let Source::Pods(shape) = workload.source else { continue };
            let pod: Value = serde_json::from_slice(&workload.states(3)?.changed)?;
            let containers = pod["spec"]["containers"].as_array().context("containers")?;
            assert_eq!(containers.len() as i8, 2 + shape.containers, "{}", workload.name);
            let has_managers = pod["metadata"]["managedFields"].is_array();
            assert_eq!(has_managers, shape.managed_fields != Missing, "{}", workload.name);
            assert_eq!(pod["status"]["conditions"].as_array().map(Vec::len), Some(5));
            assert_eq!(pod["metadata"]["resourceVersion"], "100004");
            let labels = pod["metadata"]["labels"].as_object().context("labels")?;
            assert_eq!(labels.len(), 5 + shape.labels, "{}", workload.name);
        }
        Ok(())
    }

    #[test]
    fn objects_contain_their_extra_parts() -> Result<()> {
        let object = |name: &str| -> Result<Value> {
            let workload = ALL.iter().find(|workload| workload.name == name).context("no workload")?;
            Ok(serde_json::from_slice(&workload.states(3)?.changed)?)
        };
        let length = |value: &Value| value.as_object().map(Map::len);
        let node = object("Nodes, 44 resources")?;
        assert_eq!(length(&node["status"]["capacity"]), Some(44));
        assert_eq!(length(&node["status"]["allocatable"]), Some(44));
        let database = object("Databases, six members, 20 labels")?;
        assert_eq!(length(&database["metadata"]["labels"]), Some(23));
        let deployment = object("Deployments, two containers, 30 variables")?;
        let containers = &deployment["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0]["env"].as_array().map(Vec::len), Some(41));
        let map = object("ConfigMaps, 90 keys of mixed sizes")?;
        let sizes: Vec<_> = (0..5)
            .filter_map(|key| map["data"][format!("setting-{key}.conf")].as_str().map(str::len))
            .collect();
        assert_eq!((length(&map["data"]), sizes), (Some(90), vec![8, 32, 128, 512, 8]));
        Ok(())
    }

    #[test]
    fn objects_of_each_kind_change() -> Result<()> {
        for workload in &ALL {
            let states = workload.states(3)?;
            let [listed, changed]: [Value; 2] =
                [serde_json::from_slice(&states.listed)?, serde_json::from_slice(&states.changed)?];
            assert_ne!(listed["metadata"]["resourceVersion"], changed["metadata"]["resourceVersion"]);
            assert_eq!(listed["metadata"]["name"], changed["metadata"]["name"], "{}", workload.name);
            assert_eq!(listed["metadata"]["namespace"].is_null(), workload.kind() == Node);
        }
        Ok(())
    }

    #[test]
    fn quick_workload_has_at_least_one_object() {
        assert!(ALL.iter().all(|workload| workload.objects(1) >= 1));
    }
}
