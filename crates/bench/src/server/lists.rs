//! Single lists of a real kube-apiserver: the CPU time and memory of the server for each kind of request.

mod read;

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use serde_json::json;

use super::ServerSettings;
use super::cluster::{Cluster, ServerCpu};
use super::numbers::{Rows, Table};
use crate::wire::Wire;
use read::{Reading, allocated, create_config_maps};

/// The number of lists at the same time, for the memory of the server.
const CONCURRENT: usize = 8;
/// Each list is repeated until this number of bytes was listed, because the CPU time of a short list is not
/// measurable.
const MIN_BYTES: usize = 100 << 20;
/// The maximum number of repetitions.
const MAX_REPETITIONS: usize = 100;

/// A kind of request for a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) wire: Wire,
    pub(super) gzip: bool,
    pub(super) transport: Transport,
}

/// The requests of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// One response, with the state of the watch cache.
    Any,
    /// The server returns the most recent state in one response.
    Latest,
    /// Pages of 500 objects, with the most recent state.
    Pages,
    /// A streaming list.
    Streaming,
}

const fn case(name: &'static str, wire: Wire, gzip: bool, transport: Transport) -> Case {
    Case { name, wire, gzip, transport }
}

const CASES: [Case; 12] = [
    case("list at 0", Wire::Json, false, Transport::Any),
    case("list of the latest state", Wire::Json, false, Transport::Latest),
    case("list in pages of 500", Wire::Json, false, Transport::Pages),
    case("streaming list", Wire::Json, false, Transport::Streaming),
    case("list at 0, gzip", Wire::Json, true, Transport::Any),
    case("list in pages of 500, gzip", Wire::Json, true, Transport::Pages),
    case("streaming list, gzip", Wire::Json, true, Transport::Streaming),
    case("list at 0, metadata", Wire::Metadata, false, Transport::Any),
    case("streaming list, metadata", Wire::Metadata, false, Transport::Streaming),
    case("list at 0, protobuf", Wire::Protobuf, false, Transport::Any),
    case("list in pages of 500, protobuf", Wire::Protobuf, false, Transport::Pages),
    case("streaming list, protobuf", Wire::Protobuf, false, Transport::Streaming),
];

/// Objects of the cluster.
struct Collection {
    name: String,
    path: String,
    objects: usize,
    /// The approximate size of an object in JSON.
    object_bytes: usize,
}

/// Returns whether the name of a list contains `only`.
pub(super) fn is_case(only: Option<&str>) -> bool {
    chosen(only).next().is_some()
}

fn chosen(only: Option<&str>) -> impl Iterator<Item = Case> {
    CASES.into_iter().filter(move |case| only.is_none_or(|only| case.name.contains(only)))
}

/// Measures all lists of all collections in several rounds.
pub(super) async fn measure(
    settings: &ServerSettings,
    cluster: &Cluster,
    only: Option<&str>,
    progress: &mut impl FnMut(&str),
) -> Result<Vec<Table>> {
    progress("creating ConfigMaps");
    let collections = collections(settings.objects, cluster).await?;
    let mut tables: Vec<Rows> = collections.iter().map(|_| Rows::new(COLUMNS)).collect();
    for number in 1..=settings.rounds {
        let idle = cluster.idle().await?;
        for (collection, rows) in collections.iter().zip(&mut tables) {
            for case in chosen(only) {
                progress(&format!(
                    "round {number} of {}: {}, {}",
                    settings.rounds, collection.name, case.name
                ));
                let measured = measure_case(cluster, collection, case, idle).await;
                let context = || format!("{}, {}", collection.name, case.name);
                rows.add(case.name, &measured.with_context(context)?);
            }
        }
    }
    Ok(tables.into_iter().zip(&collections).map(|(rows, of)| rows.table(&of.name)).collect())
}

async fn collections(objects: usize, cluster: &Cluster) -> Result<Vec<Collection>> {
    let client = cluster.client();
    let (small, large) = (objects, objects.div_ceil(50));
    for (namespace, count, bytes) in [("small", small, 500), ("large", large, 100_000)] {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        read::post(client, "/api/v1/namespaces", &body).await?;
        create_config_maps(client, namespace, count, bytes).await?;
    }
    let few = objects.div_ceil(20);
    let of = |name: &str, path: &str, objects: usize, object_bytes: usize| Collection {
        name: name.to_owned(),
        path: path.to_owned(),
        objects,
        object_bytes,
    };
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    Ok(vec![
        of(&format!("{objects} Pods of 11 KB"), "/api/v1/pods", objects, 11_000),
        of(&format!("{few} Pods of 11 KB in one namespace"), "/api/v1/namespaces/team-00/pods", few, 11_000),
        of(&format!("{small} ConfigMaps of 1 KB"), &maps("small"), small, 1_000),
        of(&format!("{large} ConfigMaps of 100 KB"), &maps("large"), large, 100_000),
    ])
}

const COLUMNS: &[(&str, usize)] = &[
    ("server CPU, us/object", 1),
    ("etcd CPU, us/object", 1),
    ("allocated by the server, KB/object", 1),
    ("received, KB/object", 2),
    ("time of one list, ms", 0),
    ("8 lists at once: growth of the server's RSS, MB", 0),
];

async fn measure_case(
    cluster: &Cluster,
    collection: &Collection,
    case: Case,
    idle: ServerCpu,
) -> Result<[f64; 6]> {
    let client = cluster.client();
    let reading = || Reading { client, path: &collection.path, case }.run();
    // The first list fills the caches of the server.
    let objects = collection.objects as f64;
    reading().await?;
    let repetitions = (MIN_BYTES / (collection.objects * collection.object_bytes)).clamp(1, MAX_REPETITIONS);
    // The start of a part also allocates memory, and reading the metric costs little CPU time.
    let meter = cluster.begin().await?;
    let allocated_before = allocated(client).await?;
    let mut bytes = 0;
    for _ in 0..repetitions {
        bytes += reading().await?;
    }
    let cpu = cluster.end(meter)?;
    let allocated = allocated(client).await? - allocated_before;
    let (wall, cpu, all) = (cpu.wall, cpu.without(idle), objects * repetitions as f64);

    let server = cluster.apiserver();
    server.reset_peak()?;
    let before = server.memory()?.resident;
    try_join_all((0..CONCURRENT).map(|_| reading())).await?;
    let growth = server.memory()?.peak.saturating_sub(before);
    Ok([
        cpu.apiserver * 1e6 / all,
        cpu.etcd * 1e6 / all,
        allocated / 1e3 / all,
        bytes as f64 / 1e3 / all,
        wall * 1e3 / repetitions as f64,
        growth as f64 / 1e6,
    ])
}
