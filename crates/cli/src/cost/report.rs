//! `Report`: the result of `cost`, for all forms of the output.

use serde::Serialize;

use super::{
    advice::{Advice, Candidate, advice, combined},
    calibration::{Features, Versions},
    churn::Churn,
    forms::Forms,
    listing::{Listed, PAGE_OBJECTS},
    model::{Library, Model},
    savings::{Saving, savings},
    usage::{Sum, largest},
};

/// The number of largest namespaces, fields and annotations in a report.
const LARGEST: usize = 5;
/// The numbers of shards for which the share of a replica is reported.
const SHARDS: [u64; 3] = [2, 4, 8];

/// The cost of all chosen resources.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) cluster: String,
    /// The workload and its service account, with `--of-workload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) account: Option<String>,
    /// The library to which the advice refers.
    pub(super) library: Library,
    pub(super) resources: Vec<ResourceCost>,
    pub(super) failures: Vec<Failure>,
    pub(super) total: Totals,
    pub(super) restart: Restart,
    pub(super) advice: Vec<Advice>,
    /// The memory after the largest change of each resource that keeps the library, in bytes.
    pub(super) combined: u64,
    pub(super) estimates: Vec<Estimate>,
    pub(super) versions: Versions,
}

/// A resource that could not be read.
#[derive(Debug, Serialize)]
pub(super) struct Failure {
    pub(super) resource: String,
    pub(super) reason: String,
}

/// The cost of one resource.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceCost {
    pub(super) resource: String,
    pub(super) kind: String,
    pub(super) group: String,
    pub(super) version: String,
    /// The namespace of the list. Absent for all namespaces, and for a cluster-scoped kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) objects: u64,
    /// Objects that do not have the fields of their kind.
    pub(super) undecodable: u64,
    pub(super) json_bytes: u64,
    pub(super) managed_fields_bytes: u64,
    /// Whether the kind has a type in k8s-openapi. Otherwise, the typed form is generic.
    pub(super) is_typed: bool,
    pub(super) caches: Caches,
    /// The fields of `--fields` that no object has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) missing_fields: Vec<String>,
    /// The inputs of the estimates.
    pub(super) features: Features,
    pub(super) largest_objects: Vec<Part>,
    pub(super) largest_namespaces: Vec<Part>,
    pub(super) largest_fields: Vec<Part>,
    pub(super) largest_annotations: Vec<Part>,
    pub(super) savings: Vec<Saving>,
    pub(super) selections: Vec<Selection>,
    pub(super) list_requests: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) events: Option<Events>,
}

/// The memory of a cache in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Caches {
    /// The representations of kube-informer, built in memory and counted.
    #[serde(flatten)]
    pub(super) forms: Forms,
    /// Estimated, see `estimates`.
    pub(super) client_go_protobuf: u64,
    pub(super) client_go_json: u64,
    pub(super) kube_rs: u64,
}

/// A part of the objects.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

/// The size of a cache with a restriction.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Selection {
    pub(super) restriction: String,
    pub(super) objects: u64,
    /// The memory with the library of the advice, in bytes.
    pub(super) bytes: u64,
}

/// The events of a resource during `--duration`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Events {
    pub(super) seconds: f64,
    pub(super) added: u64,
    pub(super) modified: u64,
    pub(super) deleted: u64,
    pub(super) per_second: f64,
    pub(super) bytes_per_second: f64,
    pub(super) gaps: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<String>,
    /// The last failure after which the watch was repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<String>,
    pub(super) managers: Vec<ManagerEvents>,
}

/// The events of a field manager.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManagerEvents {
    pub(super) manager: String,
    pub(super) events: u64,
    pub(super) per_second: f64,
    pub(super) bytes_per_second: f64,
    pub(super) fields: Vec<Part>,
}

/// The sums over all resources.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Totals {
    pub(super) objects: u64,
    pub(super) json_bytes: u64,
    pub(super) managed_fields_bytes: u64,
    pub(super) caches: Caches,
    pub(super) events_per_second: f64,
    pub(super) bytes_per_second: f64,
}

/// The load of a restart on the API server.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Restart {
    pub(super) replicas: u64,
    /// The pages and watches of all replicas.
    pub(super) requests: u64,
    /// The JSON of the lists of all replicas.
    pub(super) bytes: u64,
}

/// The accuracy of an estimate.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Estimate {
    pub(super) library: &'static str,
    /// The memory of a process without objects, in bytes. The memory of a cache does not include it.
    pub(super) process_bytes: u64,
    /// The largest relative error of all measured workloads.
    pub(super) error: f64,
}

/// The measurements of a report.
pub(super) struct Results {
    pub(super) cluster: String,
    pub(super) account: Option<String>,
    pub(super) library: Library,
    pub(super) replicas: u64,
    pub(super) listed: Vec<(Listed, Option<Churn>)>,
    pub(super) failures: Vec<Failure>,
}

impl Report {
    /// Creates the report. The most expensive resource is the first.
    pub(super) fn new(results: Results) -> Self {
        let Results { cluster, account, library, replicas, listed, failures } = results;
        let cost =
            |(listed, churn): &(Listed, Option<Churn>)| ResourceCost::new(listed, churn.as_ref(), library);
        let mut resources: Vec<ResourceCost> = listed.iter().map(cost).collect();
        resources.sort_by_key(|cost| std::cmp::Reverse((cost.caches.of(library), cost.json_bytes)));
        let total = Totals::of(&resources);
        let candidates: Vec<Candidate<'_>> = resources.iter().map(|cost| cost.candidate(library)).collect();
        let estimate = |library: Library| Estimate {
            library: library.name(),
            process_bytes: Model::get().base(library),
            error: Model::get().error(library),
        };
        Self {
            advice: advice(&candidates, library),
            combined: combined(&candidates, library),
            restart: Restart {
                replicas,
                requests: replicas * resources.iter().map(|cost| cost.list_requests + 1).sum::<u64>(),
                bytes: replicas * total.json_bytes,
            },
            cluster,
            account,
            library,
            total,
            resources,
            failures,
            estimates: Library::all().into_iter().map(estimate).collect(),
            versions: Model::get().versions().clone(),
        }
    }
}

impl Caches {
    fn new(listed: &Listed) -> Self {
        let bytes = |library| Model::get().bytes(library, &listed.usage.cached);
        Self {
            forms: listed.usage.forms,
            client_go_protobuf: bytes(Library::ClientGo),
            client_go_json: bytes(Library::ClientGoJson),
            kube_rs: bytes(Library::KubeRs),
        }
    }

    /// Returns the memory with a library, in bytes.
    pub(super) fn of(&self, library: Library) -> u64 {
        match library {
            Library::ClientGo => self.client_go_protobuf,
            Library::ClientGoJson => self.client_go_json,
            Library::KubeRs => self.kube_rs,
            Library::KubeInformer => self.forms.typed,
        }
    }
}

impl ResourceCost {
    fn new(listed: &Listed, churn: Option<&Churn>, library: Library) -> Self {
        let (usage, resource) = (&listed.usage, &listed.target.resource.resource);
        let caches = Caches::new(listed);
        let parts = |parts: Vec<(String, Sum)>| parts.into_iter().map(Part::from).collect();
        let largest_objects = usage.largest_objects();
        Self {
            resource: listed.target.name(),
            kind: resource.kind.clone(),
            group: resource.group.clone(),
            version: resource.version.clone(),
            namespace: listed.target.namespace.clone(),
            objects: usage.features.objects,
            undecodable: usage.undecodable,
            json_bytes: usage.json_bytes(),
            managed_fields_bytes: usage.features.managed_bytes,
            is_typed: listed.decoder.is_typed,
            caches,
            missing_fields: listed.decoder.missing_fields(),
            features: usage.cached,
            largest_objects: largest_objects
                .into_iter()
                .map(|(name, bytes)| Part { name, objects: 1, bytes })
                .collect(),
            largest_namespaces: parts(largest(&usage.namespaces, LARGEST)),
            largest_fields: parts(usage.fields.largest(LARGEST)),
            largest_annotations: parts(usage.annotations.largest(LARGEST)),
            savings: savings(listed, caches.of(library), library),
            selections: selections(listed, caches.of(library)),
            list_requests: usage.features.objects.div_ceil(PAGE_OBJECTS.into()).max(listed.requests),
            events: churn.map(Events::new),
        }
    }
}

impl ResourceCost {
    fn candidate(&self, library: Library) -> Candidate<'_> {
        Candidate {
            resource: &self.resource,
            kind: &self.kind,
            group: &self.group,
            version: &self.version,
            namespace: self.namespace.as_deref(),
            bytes: self.caches.of(library),
            savings: &self.savings,
        }
    }
}

impl From<(String, Sum)> for Part {
    fn from((name, sum): (String, Sum)) -> Self {
        Self { name, objects: sum.objects, bytes: sum.bytes }
    }
}

/// Returns the sizes of a cache of `bytes` with each namespace, selector and number of shards.
fn selections(listed: &Listed, bytes: u64) -> Vec<Selection> {
    let usage = &listed.usage;
    let share = |restriction: String, sum: Sum| {
        let share = sum.bytes as f64 / usage.json_bytes().max(1) as f64;
        Selection { restriction, objects: sum.objects, bytes: (bytes as f64 * share) as u64 }
    };
    let namespaces = largest(&usage.namespaces, LARGEST).into_iter().filter(|(name, _)| !name.is_empty());
    let namespaces = namespaces.map(|(name, sum)| share(format!("namespace {name}"), sum));
    let selectors = usage.selectors.results(&listed.selectors).into_iter().map(|selected| {
        let kind = if selected.is_label { "label selector" } else { "field selector" };
        share(format!("{kind} {}", selected.text), selected.sum)
    });
    let shards = SHARDS.into_iter().map(|count| Selection {
        restriction: format!("1 of {count} shards"),
        objects: usage.features.objects.div_ceil(count),
        bytes: bytes / count,
    });
    namespaces.chain(selectors).chain(shards).collect()
}

impl Events {
    fn new(churn: &Churn) -> Self {
        let manager = |(name, of): (&String, &super::churn::ManagerChurn)| ManagerEvents {
            manager: name.clone(),
            events: of.events,
            per_second: churn.per_second(of.events),
            bytes_per_second: churn.per_second(of.bytes),
            fields: of.fields.largest(LARGEST).into_iter().map(Part::from).collect(),
        };
        let mut managers: Vec<ManagerEvents> = churn.managers.iter().map(manager).collect();
        managers.sort_by_key(|manager| std::cmp::Reverse(manager.events));
        Self {
            seconds: churn.seconds,
            added: churn.added,
            modified: churn.modified,
            deleted: churn.deleted,
            per_second: churn.per_second(churn.events()),
            bytes_per_second: churn.per_second(churn.bytes),
            gaps: churn.gaps,
            ended: churn.ended.clone(),
            failed: churn.failed.clone(),
            managers,
        }
    }

    /// Returns the reasons for which events are missing.
    pub(super) fn notes(&self) -> Vec<String> {
        let gaps = (self.gaps > 0).then(|| format!("the watch expired {} times", self.gaps));
        let failed = self.failed.as_ref().map(|reason| format!("the watch failed: {reason}"));
        let ended = self.ended.as_ref().map(|reason| format!("the watch stopped early: {reason}"));
        [gaps, failed, ended].into_iter().flatten().collect()
    }
}

impl Totals {
    fn of(resources: &[ResourceCost]) -> Self {
        let mut total = Self::default();
        for cost in resources {
            total.objects += cost.objects;
            total.json_bytes += cost.json_bytes;
            total.managed_fields_bytes += cost.managed_fields_bytes;
            total.caches.forms += cost.caches.forms;
            total.caches.client_go_protobuf += cost.caches.client_go_protobuf;
            total.caches.client_go_json += cost.caches.client_go_json;
            total.caches.kube_rs += cost.caches.kube_rs;
            if let Some(events) = &cost.events {
                total.events_per_second += events.per_second;
                total.bytes_per_second += events.bytes_per_second;
            }
        }
        total
    }
}
