//! The model of the memory of other libraries: coefficients that `kube-bench calibrate` measured.

use std::sync::LazyLock;

use clap::ValueEnum;
use serde::Serialize;

use super::{
    calibration::{Calibrated, Calibration, Versions},
    features::Features,
};

/// The output of `kube-bench calibrate`.
const CALIBRATION: &str = include_str!("coefficients.json");

static MODEL: LazyLock<Model> =
    LazyLock::new(|| Model { calibration: serde_json::from_str(CALIBRATION).unwrap_or_default() });

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

/// Predicts the memory of all libraries.
#[derive(Debug)]
pub(super) struct Model {
    calibration: Calibration,
}

impl Model {
    /// Returns the model in this program.
    pub(super) fn get() -> &'static Self {
        &MODEL
    }

    /// Returns the measured versions.
    pub(super) fn versions(&self) -> &Versions {
        &self.calibration.versions
    }

    fn library(&self, library: Library) -> Option<&Calibrated> {
        self.calibration.libraries.iter().find(|calibrated| calibrated.name == library.measured_name())
    }

    /// Returns the memory of a cache of these objects, in bytes, without the base of the process.
    pub(super) fn bytes(&self, library: Library, features: &Features) -> u64 {
        self.library(library).map_or(0, |calibrated| calibrated.coefficients.bytes(features) as u64)
    }

    /// Returns the memory of a cache of these objects if managedFields are removed, in bytes.
    pub(super) fn bytes_without_managed_fields(&self, library: Library, features: &Features) -> u64 {
        let without = Features { managed_bytes: 0, managed_values: 0, managed_nodes: 0, ..*features };
        self.bytes(library, &without)
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
    use super::super::calibration::Tested;
    use super::*;

    /// The largest allowed error of a held-out workload.
    const MAX_HELD_OUT_ERROR: f64 = 0.15;

    #[test]
    fn all_libraries_are_calibrated() {
        let model = Model::get();
        for library in Library::all() {
            assert!(model.library(library).is_some(), "{library:?}");
        }
        assert!(model.versions().client_go.starts_with("v0."));
    }

    #[test]
    fn held_out_workloads_are_predicted_within_fifteen_percent() {
        for library in Library::all() {
            let calibrated = Model::get().library(library).unwrap();
            let held_out: Vec<_> = calibrated.workloads.iter().filter(|tested| tested.is_held_out).collect();
            assert!(held_out.len() >= 5, "{library:?}");
            for tested in &held_out {
                // The prediction of this program, and not the stored prediction.
                let predicted =
                    calibrated.coefficients.base + calibrated.coefficients.bytes(&tested.features);
                let error = (predicted / tested.measured as f64 - 1.0).abs();
                assert!(error <= MAX_HELD_OUT_ERROR, "{library:?}: {}: {error}", tested.workload);
                assert!(
                    error <= calibrated.held_out_error + 0.001,
                    "{library:?}: {}: {error}",
                    tested.workload
                );
            }
            let fitted = calibrated.workloads.iter().filter(|tested| !tested.is_held_out);
            let fitted: Vec<_> = fitted.map(|tested| tested.resource.as_str()).collect();
            let is_new = |tested: &&&Tested| !fitted.contains(&tested.resource.as_str());
            assert!(held_out.iter().any(|tested| is_new(&tested)), "{library:?}: each kind is fitted");
        }
    }

    #[test]
    fn more_objects_need_more_memory() {
        let pod = Features {
            objects: 1,
            bytes: 5_000,
            text_bytes: 2_000,
            texts: 120,
            scalars: 30,
            maps: 40,
            lists: 10,
            managed_bytes: 2_000,
            managed_values: 200,
            managed_nodes: 80,
            go_map_bytes: 2_000,
            typed_bytes: 9_000,
            dynamic_bytes: 0,
        };
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
