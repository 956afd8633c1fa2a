//! `Calibration`: the output of `kube-bench calibrate`, from which the memory of caches is predicted.
//!
//! kube-bench contains this module by its path. It does not depend on this crate: the allocator that counts
//! memory would become the allocator of all programs that kube-bench measures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Contains the properties of a set of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Features {
    /// The number of objects.
    pub(crate) objects: u64,
    /// The bytes of the JSON without managedFields.
    pub(crate) bytes: u64,
    /// The bytes of all strings without managedFields. Names of fields are not included. The data of a Secret
    /// counts as decoded base64.
    pub(crate) text_bytes: u64,
    /// The number of strings without managedFields.
    pub(crate) texts: u64,
    /// The number of numbers, booleans and nulls without managedFields.
    pub(crate) scalars: u64,
    /// The number of maps without managedFields.
    pub(crate) maps: u64,
    /// The number of lists without managedFields.
    pub(crate) lists: u64,
    /// The bytes of the JSON of managedFields.
    pub(crate) managed_bytes: u64,
    /// The number of JSON values in managedFields.
    pub(crate) managed_values: u64,
    /// The nodes of a `BTreeMap` for each map in managedFields. kube-rs caches these maps.
    pub(crate) managed_nodes: u64,
    /// The computed memory of the fields that are maps in Go, with their keys, in bytes. Examples are labels,
    /// annotations and data.
    pub(crate) go_map_bytes: u64,
    /// The counted memory of a typed cache of kube-informer, without managedFields.
    pub(crate) typed_bytes: u64,
    /// The same for a kind without a type in k8s-openapi, which is cached as `DynamicObject`.
    pub(crate) dynamic_bytes: u64,
}

/// The coefficients of all libraries, and the measurements from which they were computed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Calibration {
    /// The commands that measured the memory, in this order. The last command measured the workloads with
    /// `is_later`, if there are such workloads.
    pub(crate) commands: Vec<String>,
    pub(crate) versions: Versions,
    /// The allocator of the measured programs in Rust.
    pub(crate) allocator: String,
    pub(crate) libraries: Vec<Calibrated>,
}

/// The measured versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Versions {
    pub(crate) kube_informer: String,
    pub(crate) kube_runtime: String,
    pub(crate) client_go: String,
    pub(crate) go: String,
}

/// The coefficients of a library, and their errors.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Calibrated {
    pub(crate) name: String,
    pub(crate) coefficients: Coefficients,
    /// The largest relative error of the workloads to which the coefficients are fitted.
    pub(crate) training_error: f64,
    /// The largest relative error of all held-out workloads.
    pub(crate) held_out_error: f64,
    pub(crate) workloads: Vec<Tested>,
}

/// Bytes of resident memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Coefficients {
    /// The memory of a process without objects.
    pub(crate) base: f64,
    /// The memory of each unit of an input, by the name of the input.
    pub(crate) inputs: BTreeMap<String, f64>,
}

/// A measured workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tested {
    pub(crate) workload: String,
    /// The resource, for example `pods`.
    pub(crate) resource: String,
    /// Whether the coefficients were not fitted to this workload.
    pub(crate) is_held_out: bool,
    /// True if this held-out workload was chosen and measured after the inputs of the model were final.
    #[serde(default)]
    pub(crate) is_later: bool,
    pub(crate) features: Features,
    /// The median of the resident memory in all rounds, in bytes.
    pub(crate) measured: u64,
    /// The resident memory in each round, in bytes.
    pub(crate) rounds: Vec<u64>,
    /// The predicted memory in bytes.
    pub(crate) predicted: u64,
}

/// The number of inputs of the model.
pub(crate) const INPUTS: usize = 8;

/// Returns the inputs of the model, with their names.
pub(crate) fn inputs(features: &Features) -> [(&'static str, f64); INPUTS] {
    [
        ("object", features.objects),
        ("typedByte", features.typed_bytes),
        ("dynamicByte", features.dynamic_bytes),
        ("textByte", features.text_bytes),
        ("text", features.texts),
        ("managedByte", features.managed_bytes),
        ("managedNode", features.managed_nodes),
        ("goMapByte", features.go_map_bytes),
    ]
    .map(|(name, count)| (name, count as f64))
}

impl Coefficients {
    /// Returns the memory of a cache of these objects, in bytes, without the base of the process.
    pub(crate) fn bytes(&self, features: &Features) -> f64 {
        inputs(features).iter().map(|(name, count)| self.inputs.get(*name).unwrap_or(&0.0) * count).sum()
    }
}
