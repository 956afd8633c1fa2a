//! The workloads of a calibration: Pods with different sizes, numbers of fields, annotations and
//! managedFields, and objects of other kinds.

use anyhow::{Context as _, Result};
use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::managed_fields::{ManagedFields, managed_fields};
use super::objects::{Content, merge, resize, text};
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
    Source::Pods(Shape { containers, env, annotations, managed_fields })
}

const fn others(kind: Kind, entries: usize, bytes: usize, managed_fields: ManagedFields) -> Source {
    Source::Others(Content { kind, entries, bytes, managed_fields })
}

use Kind::{ConfigMap, Database, Deployment, Node, ReplicaSet, Secret};
use ManagedFields::{Few, Many, Missing, Usual};

/// The Pods of a usual cluster.
pub(super) const USUAL_PODS: Workload = training("Pods, two containers", 100, pods(0, 0, (0, 0), Usual));

/// All workloads. A held-out workload has another shape than each training workload. Nodes and ReplicaSets
/// are only held out.
///
/// After a change of the inputs of the model, the workloads of `Part::Later` are no longer a test of these
/// inputs. Replace them by other workloads.
pub(super) const ALL: [Workload; 29] = [
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
    held_out("Pods, three containers", 80, pods(1, 5, (2, 100), Usual)),
    held_out("Pods, six containers, many managers", 40, pods(4, 0, (5, 40), Many)),
    held_out("Pods, many variables and annotations", 60, pods(0, 30, (20, 60), Missing)),
    held_out("Nodes, 40 images", 100, others(Node, 40, 0, Usual)),
    held_out("ReplicaSets, one container", 150, others(ReplicaSet, 1, 0, Usual)),
    held_out("Secrets, Helm releases", 60, others(Secret, 1, 18_000, Few)),
    held_out("Databases, 12 members", 100, others(Database, 12, 60, Few)),
    later("Pods, single container, a huge annotation", 20, pods(-1, 0, (1, 60_000), Usual)),
    later("ConfigMaps, 150 small keys", 75, others(ConfigMap, 150, 8, Few)),
    later("Deployments, four containers", 60, others(Deployment, 4, 0, Usual)),
    later("ReplicaSets, four containers, many managers", 60, others(ReplicaSet, 4, 0, Many)),
    later("Secrets, 80 small keys", 100, others(Secret, 80, 16, Few)),
    later("Nodes, five images", 200, others(Node, 5, 0, Usual)),
    later("Databases, three members, long strings", 100, others(Database, 3, 600, Few)),
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
        let containers = object["spec"]["containers"].as_array_mut()?;
        resize(containers, self.containers(containers));
        for variable in 0..self.env {
            let value = json!({"name": format!("VARIABLE_{variable}"), "value": text(&mut rng, 16)});
            containers[0]["env"].as_array_mut()?.push(value);
        }
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
        }
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
