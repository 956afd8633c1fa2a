//! Reads the inputs of the model from the report of `kubectl informer cost`, with some objects of each
//! workload.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use kube_testserver::Server;
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;

use super::features::Features;
use super::outcome::Measurement;
use super::workload::Workload;
use crate::cost_program::create;
use crate::wire::Kind;

/// The number of objects of a sample. All objects of a workload have almost the same properties.
const SAMPLE: usize = 100;

/// The part of the report that this module reads.
#[derive(Debug, Deserialize)]
struct Report {
    resources: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    features: Features,
}

/// Replaces the features of the measurements. The number of objects does not change.
pub(super) async fn read_features(measured: &mut [Measurement], cost_program: &Path) -> Result<()> {
    let mut known: Vec<(&str, Features)> = Vec::new();
    for measurement in measured {
        let workload = measurement.workload;
        let sample = known.iter().find(|(name, _)| *name == workload.name).map(|(_, sample)| *sample);
        let sample = match sample {
            Some(sample) => sample,
            None => {
                let read = sampled(&workload, cost_program).await;
                let sample =
                    read.with_context(|| format!("cannot read the features of {:?}", workload.name))?;
                known.push((workload.name, sample));
                sample
            }
        };
        measurement.features = scaled(&sample, measurement.features.objects);
    }
    Ok(())
}

async fn sampled(workload: &Workload, cost_program: &Path) -> Result<Features> {
    let server =
        Server::builder().seed(1).require_token(false).validation(false).field_ownership(false).build();
    if workload.kind() == Kind::Database {
        create(
            &server,
            &json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "databases.example.com"},
                "spec": {
                    "group": "example.com", "scope": "Namespaced", "names": {"plural": "databases", "kind": "Database"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
                },
            }),
        )?;
    }
    for index in 0..SAMPLE {
        create(&server, &workload.object(index, true)?)?;
    }
    let listening = server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let temporary = tempfile::tempdir()?;
    let kubeconfig = temporary.path().join("kubeconfig");
    std::fs::write(&kubeconfig, listening.kubeconfig())?;
    let mut command = Command::new(cost_program);
    command.args(["cost", workload.kind().plural(), "-o", "json", "--kubeconfig"]).arg(&kubeconfig);
    let output = command.kill_on_drop(true).output().await?;
    ensure!(
        output.status.success(),
        "kubectl informer cost failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let report: Report = serde_json::from_slice(&output.stdout).context("the report is not JSON")?;
    let features = report.resources.first().context("the report contains no resource")?.features;
    ensure!(features.objects == SAMPLE as u64, "cost counted {} objects", features.objects);
    // The test server adds defaults and entries of managedFields, which the measured programs did not cache.
    let mut own = Features::default();
    for index in 0..SAMPLE {
        own.add(&json_features(workload, index)?);
    }
    Ok(Features { typed_bytes: features.typed_bytes, dynamic_bytes: features.dynamic_bytes, ..own })
}

/// Returns the features of an object, without the counted memory.
fn json_features(workload: &Workload, index: usize) -> Result<Features> {
    let json = workload.states(index)?.changed;
    let mut features = Features::of_json(&json)?;
    if workload.kind() == Kind::Secret {
        let object: serde_json::Value = serde_json::from_slice(&json)?;
        features.decode_data(object["data"].to_string().len() as u64);
    }
    Ok(features)
}

/// Returns the features of another number of equal objects.
fn scaled(sample: &Features, objects: u64) -> Features {
    let scale = |count: u64| count * objects / SAMPLE as u64;
    Features {
        objects,
        bytes: scale(sample.bytes),
        text_bytes: scale(sample.text_bytes),
        texts: scale(sample.texts),
        scalars: scale(sample.scalars),
        maps: scale(sample.maps),
        lists: scale(sample.lists),
        managed_bytes: scale(sample.managed_bytes),
        managed_values: scale(sample.managed_values),
        managed_nodes: scale(sample.managed_nodes),
        go_map_bytes: scale(sample.go_map_bytes),
        typed_bytes: scale(sample.typed_bytes),
        dynamic_bytes: scale(sample.dynamic_bytes),
    }
}
