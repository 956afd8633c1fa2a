//! The operators that are measured, and their objects.

use anyhow::Result;
use clap::ValueEnum;
use kube_client::api::ApiResource;
use kube_client::core::GroupVersionKind;
use kube_informer_operators::cluster::read_crd;
use kube_testserver::Server;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::operators::workload::{NAMESPACES, name, namespace, spec_json};

/// The group and the version of the custom resources.
const API_VERSION: &str = "example.com/v1";

/// Identifies an operator in examples/operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Operator {
    /// Creates three children for each Website.
    Website,
    /// Polls a storage service for each Bucket.
    Bucket,
}

impl Operator {
    /// All operators, in the order of the tables.
    pub(super) const ALL: [Self; 2] = [Self::Website, Self::Bucket];

    /// Returns the name of the operator, which is also the name of its folder.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Website => "website",
            Self::Bucket => "bucket",
        }
    }

    /// Returns the number of watched types.
    pub(super) fn watched_types(self) -> u64 {
        match self {
            Self::Website => 4,
            Self::Bucket => 1,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Website => "Website",
            Self::Bucket => "Bucket",
        }
    }

    /// Returns the resource of the reconciled objects.
    pub(super) fn resource(self) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", self.kind()))
    }

    /// Installs the CRD, the namespaces and `objects` objects.
    pub(super) fn fill(self, server: &Server, objects: usize) -> Result<()> {
        server.create(read_crd(self.name())?)?;
        for number in 0..NAMESPACES {
            let metadata = json!({"name": namespace(number)});
            server.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))?;
        }
        for number in 0..objects {
            server.create(json!({
                "apiVersion": API_VERSION, "kind": self.kind(),
                "metadata": {"name": name(number), "namespace": namespace(number)},
                "spec": self.spec(number, 1),
            }))?;
        }
        Ok(())
    }

    /// Changes the spec of an object.
    pub(super) fn change(self, server: &Server, number: usize) -> Result<()> {
        let patch = json!({"spec": self.spec(number, 2)});
        server.patch(API_VERSION, self.kind(), Some(&namespace(number)), &name(number), &patch)?;
        Ok(())
    }

    fn spec(self, number: usize, revision: usize) -> Value {
        match self {
            Self::Website => spec_json(number, revision),
            Self::Bucket => json!({"region": "north", "quota": 1_000 * revision}),
        }
    }
}
