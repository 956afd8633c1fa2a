//! The model of the memory of other libraries: coefficients that `kube-bench calibrate` measured.

use std::sync::LazyLock;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::features::{FEATURES, Features};

/// The output of `kube-bench calibrate`.
const CALIBRATION: &str = include_str!("coefficients.json");

static MODEL: LazyLock<Model> = LazyLock::new(|| serde_json::from_str(CALIBRATION).unwrap_or_default());

/// A library whose memory the model predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Library {
    /// client-go with protobuf, its default for built-in kinds.
    ClientGo,
    /// client-go with JSON, as for custom resources.
    ClientGoJson,
    /// The reflector of kube-runtime.
    KubeRs,
    /// kube-informer, with typed objects.
    KubeInformer,
}

impl Library {
    /// Returns the name in the file of the calibration.
    fn measured_name(self) -> &'static str {
        match self {
            Self::ClientGo => "client-go, protobuf",
            Self::ClientGoJson => "client-go, JSON",
            Self::KubeRs => "kube-runtime, list, one thread",
            Self::KubeInformer => "kube-informer, typed",
        }
    }

    /// Returns the name for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ClientGo => "client-go (protobuf)",
            Self::ClientGoJson => "client-go (JSON)",
            Self::KubeRs => "kube-rs",
            Self::KubeInformer => "kube-informer (typed)",
        }
    }

    /// Returns all libraries.
    pub(super) fn all() -> [Self; 4] {
        [Self::ClientGo, Self::ClientGoJson, Self::KubeRs, Self::KubeInformer]
    }
}

/// The coefficients of all libraries.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Model {
    pub(super) versions: Versions,
    libraries: Vec<Calibrated>,
}

/// The measured versions.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Versions {
    pub(super) kube_runtime: String,
    pub(super) client_go: String,
    pub(super) go: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Calibrated {
    name: String,
    coefficients: Coefficients,
    training_error: f64,
    held_out_error: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Coefficients {
    base: f64,
    object: f64,
    byte: f64,
    value: f64,
    managed_byte: f64,
    managed_value: f64,
}

impl Model {
    /// Returns the model in this program.
    pub(super) fn get() -> &'static Self {
        &MODEL
    }

    fn library(&self, library: Library) -> Option<&Calibrated> {
        self.libraries.iter().find(|calibrated| calibrated.name == library.measured_name())
    }

    /// Returns the memory of a cache of these objects, in bytes, without the base of the process.
    pub(super) fn bytes(&self, library: Library, features: &Features) -> u64 {
        let Some(Calibrated { coefficients: c, .. }) = self.library(library) else { return 0 };
        let coefficients: [f64; FEATURES] = [c.object, c.byte, c.value, c.managed_byte, c.managed_value];
        coefficients.iter().zip(features.array()).map(|(coefficient, count)| coefficient * count).sum::<f64>()
            as u64
    }

    /// Returns the memory of a cache of these objects if managedFields are removed, in bytes.
    pub(super) fn bytes_without_managed_fields(&self, library: Library, features: &Features) -> u64 {
        self.bytes(library, &Features { managed_bytes: 0, managed_values: 0, ..*features })
    }

    /// Returns the memory of a process without objects, in bytes.
    pub(super) fn base(&self, library: Library) -> u64 {
        self.library(library).map_or(0, |calibrated| calibrated.coefficients.base as u64)
    }

    /// Returns the largest relative error of all measured workloads, for example 0.07.
    pub(super) fn error(&self, library: Library) -> f64 {
        self.library(library)
            .map_or(0.0, |calibrated| calibrated.held_out_error.max(calibrated.training_error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_libraries_are_calibrated() {
        let model = Model::get();
        for library in Library::all() {
            assert!(model.library(library).is_some(), "{library:?}");
            let error = model.error(library);
            assert!(error > 0.0 && error < 0.15, "{library:?}: {error}");
        }
        assert!(model.versions.client_go.starts_with("v0."));
    }

    #[test]
    fn more_objects_need_more_memory() {
        let pod =
            Features { objects: 1, bytes: 5_000, values: 200, managed_bytes: 2_000, managed_values: 200 };
        let mut pods = Features::default();
        (0..1000).for_each(|_| pods.add(&pod));
        for library in Library::all() {
            let one = Model::get().bytes(library, &pod);
            let thousand = Model::get().bytes(library, &pods);
            assert!(one > 1_000 && thousand > 999 * one, "{library:?}: {one} {thousand}");
            assert!(Model::get().bytes_without_managed_fields(library, &pods) <= thousand);
        }
    }
}
