//! The workloads of a calibration: Pods with different sizes, numbers of fields, annotations and
//! managedFields.

use anyhow::{Context as _, Result};
use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::managed_fields::{ManagedFields, managed_fields};
use crate::pods::Pod;

/// The resourceVersion of the list in a recording, before it is raised.
pub(super) const LIST_VERSION: usize = 100_000;

/// A set of Pods that have the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) part: Part,
    /// The number of Pods in percent of the number that the command line contains.
    percent: usize,
    shape: Shape,
}

/// The purpose of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The coefficients are fitted to its measurements.
    Training,
    /// The coefficients are tested with its measurements.
    HeldOut,
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

const fn training(name: &'static str, percent: usize, shape: Shape) -> Workload {
    Workload { name, part: Part::Training, percent, shape }
}

const fn held_out(name: &'static str, percent: usize, shape: Shape) -> Workload {
    Workload { name, part: Part::HeldOut, percent, shape }
}

const fn shape(
    containers: i8,
    env: usize,
    annotations: (usize, usize),
    managed_fields: ManagedFields,
) -> Shape {
    Shape { containers, env, annotations, managed_fields }
}

use ManagedFields::{Few, Many, Missing, Usual};

/// All workloads. A held-out workload has another shape than each training workload.
pub(super) const ALL: [Workload; 17] = [
    training("single container", 150, shape(-1, 0, (0, 0), Usual)),
    training("single container without managedFields", 200, shape(-1, 0, (0, 0), Missing)),
    training("two containers", 100, shape(0, 0, (0, 0), Usual)),
    training("two containers without managedFields", 100, shape(0, 0, (0, 0), Missing)),
    training("two containers, many managers", 75, shape(0, 0, (0, 0), Many)),
    training("four containers", 50, shape(2, 0, (0, 0), Usual)),
    training("eight containers, few managers", 50, shape(6, 0, (0, 0), Few)),
    training("many variables", 50, shape(0, 60, (0, 0), Usual)),
    training("many variables without managedFields", 75, shape(0, 60, (0, 0), Missing)),
    training("many small annotations", 75, shape(-1, 0, (60, 20), Usual)),
    training("large annotations", 75, shape(0, 0, (4, 2_000), Usual)),
    training("very large annotations without managedFields", 30, shape(-1, 0, (2, 20_000), Missing)),
    held_out("three containers", 80, shape(1, 5, (2, 100), Usual)),
    held_out("single container with a large annotation", 100, shape(-1, 10, (1, 6_000), Few)),
    held_out("six containers, many managers", 40, shape(4, 0, (5, 40), Many)),
    held_out("many variables and annotations", 60, shape(0, 30, (20, 60), Missing)),
    held_out("small Pods, many objects", 300, shape(-1, 0, (1, 30), Few)),
];

/// A Pod in two states, as JSON without kind and apiVersion.
pub(super) struct States {
    pub(super) listed: Vec<u8>,
    pub(super) changed: Vec<u8>,
}

impl Workload {
    /// Returns the number of Pods, if a workload of 100 percent has `objects` Pods.
    pub(super) fn objects(&self, objects: usize) -> usize {
        (objects * self.percent / 100).max(1)
    }

    /// Creates the Pod with this index.
    pub(super) fn pod(&self, index: usize) -> Result<States> {
        let pod = Pod::new(index);
        let state = |status: Value, version: usize| -> Result<Vec<u8>> {
            let mut object = self.shape.object(&pod, index, status).context("a Pod is not a JSON object")?;
            object["metadata"]["resourceVersion"] = version.to_string().into();
            Ok(serde_json::to_vec(&object)?)
        };
        let mut restarted = pod.started();
        merge(&mut restarted, pod.restarted());
        Ok(States {
            listed: state(pod.started(), index + 1)?,
            changed: state(restarted, LIST_VERSION + index + 1)?,
        })
    }
}

impl Shape {
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
        resize(containers, self.containers);
        for variable in 0..self.env {
            let value = json!({"name": format!("VARIABLE_{variable}"), "value": text(&mut rng, 16)});
            containers[0]["env"].as_array_mut()?.push(value);
        }
        let spec = object["spec"].as_object_mut()?;
        spec.extend(defaults(&node));
        resize(status["status"]["containerStatuses"].as_array_mut()?, self.containers);
        object["status"] = status["status"].take();
        if let Some(fields) = managed_fields(self.managed_fields, &object) {
            object["metadata"]["managedFields"] = fields;
        }
        Some(object)
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

/// Adds copies of the last item with other names, or removes items. At least one item remains.
fn resize(items: &mut Vec<Value>, change: i8) {
    let wanted = items.len().saturating_add_signed(change.into()).max(1);
    items.truncate(wanted);
    while let Some(mut item) = items.last().cloned()
        && items.len() < wanted
    {
        item["name"] = format!("sidecar-{}", items.len()).into();
        items.push(item);
    }
}

/// Merges maps. Other values of `patch` replace the values of `target`.
fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (name, value) in patch {
                merge(target.entry(name).or_insert(Value::Null), value);
            }
        }
        // The restarted Pod reports only its changed conditions. The server keeps the other conditions.
        (Value::Array(target), Value::Array(patch)) if patch.len() < target.len() => {
            target.truncate(target.len() - patch.len());
            target.extend(patch);
        }
        (target, patch) => *target = patch,
    }
}

fn text(rng: &mut Rng, bytes: usize) -> String {
    (0..bytes).map(|_| rng.alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_have_different_shapes() {
        for (number, workload) in ALL.iter().enumerate() {
            assert!(ALL[..number].iter().all(|other| other.shape != workload.shape), "{}", workload.name);
        }
        assert_eq!(ALL.iter().filter(|workload| workload.part == Part::HeldOut).count(), 5);
    }

    #[test]
    fn pods_have_the_shape_of_their_workload() -> Result<()> {
        for workload in &ALL {
            let pod: Value = serde_json::from_slice(&workload.pod(3)?.changed)?;
            let containers = pod["spec"]["containers"].as_array().context("containers")?;
            assert_eq!(containers.len() as i8, 2 + workload.shape.containers, "{}", workload.name);
            let has_managers = pod["metadata"]["managedFields"].is_array();
            assert_eq!(has_managers, workload.shape.managed_fields != Missing, "{}", workload.name);
            assert_eq!(pod["status"]["conditions"].as_array().map(Vec::len), Some(5));
            assert_eq!(pod["metadata"]["resourceVersion"], "100004");
        }
        Ok(())
    }

    #[test]
    fn quick_workload_has_at_least_one_pod() {
        assert!(ALL.iter().all(|workload| workload.objects(1) >= 1));
    }
}
