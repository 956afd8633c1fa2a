//! `ManagerCollector`: metrics that are read when Prometheus scrapes: work queues, informers, the election.

use std::{collections::HashMap, fmt, sync::atomic::Ordering::Relaxed};

use kube_informer::{Escaped, InformerStatus};
use kube_workqueue::Priority;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    metrics::MetricType,
};

use super::{
    ManagerView,
    metrics::{controller_labels, queue_labels},
};
use crate::{
    ClusterName, ClusterState, Clusters, EventRecorder, OwnedSlots, RecorderStatus,
    controller::{
        history::MAX_REMEMBERED_RUNS,
        keys::{ClusterRuns, REPEATED_FAILURES},
    },
};

/// Encodes the current state of a manager.
#[derive(Debug)]
pub(crate) struct ManagerCollector(pub(crate) ManagerView);

impl Collector for ManagerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_queues(&mut encoder)?;
        self.encode_cluster_runs(&mut encoder)?;
        self.encode_informers(&mut encoder)?;
        self.encode_recorders(&mut encoder)?;
        if let Some(clusters) = &self.0.clusters {
            encode_clusters(&mut encoder, clusters)?;
        }
        if let Some(shards) = &self.0.shards {
            encode_shards(&mut encoder, shards)?;
        }
        if let Some(election) = &self.0.election {
            let is_leader = f64::from(election.leadership.is_leader());
            let values = [([("name", election.lease.name())], is_leader)];
            gauges(&mut encoder, "leader_election_master_status", "1 if this process is the leader", values)?;
            let values = [([("name", election.lease.name())], election.failed_renewals.load(Relaxed))];
            let help = "Failed renewals of the lease, after which the leader reads the Lease";
            counters(&mut encoder, "leader_election_slowpath", help, values)?;
        }
        Ok(())
    }
}

impl ManagerCollector {
    fn encode_queues(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let all = &self.0.controllers.current();
        let concurrency = all
            .iter()
            .map(|state| (controller_labels(&state.options.name), state.options.concurrency as f64));
        let name = "controller_runtime_max_concurrent_reconciles";
        gauges(encoder, name, "Maximum number of concurrent reconciles", concurrency)?;
        let active =
            all.iter().map(|state| (controller_labels(&state.options.name), state.reconciles.len() as f64));
        gauges(encoder, "controller_runtime_active_workers", "Number of running reconciles", active)?;
        let failing = all
            .iter()
            .map(|state| (controller_labels(&state.options.name), state.keys.repeatedly_failing() as f64));
        let help = format!(
            "Number of keys whose last {REPEATED_FAILURES} reconciles failed, at most {MAX_REMEMBERED_RUNS}"
        );
        gauges(encoder, "reconcile_failing_keys", &help, failing)?;

        let queues: Vec<_> =
            all.iter().map(|state| (queue_labels(&state.options.name), state.keys.status())).collect();
        let depth = queues.iter().flat_map(|(labels, queue)| {
            let lane = |priority: Priority, keys: usize| {
                let [name, controller] = labels.clone();
                ([name, controller, ("priority", priority.0.to_string().into())], keys as f64)
            };
            let normal = queue.ready - queue.ready_background;
            [lane(Priority::NORMAL, normal), lane(Priority::LOW, queue.ready_background)]
        });
        gauges(encoder, "workqueue_depth", "Number of keys that wait for a worker", depth)?;
        let unfinished =
            queues.iter().map(|(labels, queue)| (labels.as_slice(), queue.unfinished_work().as_secs_f64()));
        let help = "Total time that workers have spent so far on their current keys";
        gauges(encoder, "workqueue_unfinished_work_seconds", help, unfinished)?;
        let longest =
            queues.iter().map(|(labels, queue)| (labels.as_slice(), queue.longest_running().as_secs_f64()));
        let name = "workqueue_longest_running_processor_seconds";
        gauges(encoder, name, "Longest time that a worker has spent so far on its current key", longest)?;
        let adds = queues.iter().map(|(labels, queue)| (labels.as_slice(), queue.adds));
        counters(encoder, "workqueue_adds", "Keys added to the work queue", adds)?;
        let retries = queues.iter().map(|(labels, queue)| (labels.as_slice(), queue.retries));
        counters(encoder, "workqueue_retries", "Keys added again after a failure", retries)
    }

    /// The reconciles of controllers of many clusters. The series of a cluster end when it leaves.
    fn encode_cluster_runs(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let controllers = self.0.controllers.current();
        let all: Vec<_> = controllers
            .iter()
            .flat_map(|state| {
                let [controller] = controller_labels(&state.options.name);
                let of = move |(cluster, runs): (String, ClusterRuns)| {
                    ([controller.clone(), ("cluster", cluster.into())], runs)
                };
                state.keys.by_cluster().into_iter().map(of)
            })
            .collect();
        if all.is_empty() {
            return Ok(());
        }
        let results = all.iter().flat_map(|([controller, cluster], runs)| {
            let result = |result: &str, runs: u64| {
                ([controller.clone(), cluster.clone(), ("result", result.into())], runs)
            };
            [result("success", runs.succeeded), result("error", runs.failed)]
        });
        counters(encoder, "cluster_reconciles", "Reconciles of the objects of a cluster", results)?;
        let seconds = all.iter().map(|(labels, runs)| (labels.as_slice(), runs.took.as_secs_f64()));
        let help = "Total time of the reconciles of the objects of a cluster";
        let mut family =
            encoder.encode_descriptor("cluster_reconcile_seconds", help, None, MetricType::Counter)?;
        for (labels, seconds) in seconds {
            family.encode_family(&labels)?.encode_counter::<[(&str, &str); 0], f64, f64>(&seconds, None)?;
        }
        Ok(())
    }

    fn encode_informers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let all = with_unique_names(self.0.informers());
        let mut gauge = |name: &str, help: &str, value: fn(&InformerStatus) -> Option<f64>| {
            let values = all.iter().filter_map(|(labels, status)| Some((labels.as_slice(), value(status)?)));
            gauges(encoder, name, help, values)
        };
        gauge("informer_objects", "Objects in the cache", |informer| Some(informer.objects as f64))?;
        let help = "Cached objects whose newest version could not be decoded";
        gauge("informer_stale_objects", help, |informer| Some(informer.stale as f64))?;
        gauge("informer_synced", "1 if the cache contains the initial list", |informer| {
            Some(f64::from(informer.synced))
        })?;
        gauge("informer_failing", "1 after a failed request, until a request succeeds", |informer| {
            Some(f64::from(informer.reflector.failing.is_some()))
        })?;
        let help = "Time since a watch delivered an object";
        gauge("informer_event_age_seconds", help, |informer| Some(informer.event_age?.as_secs_f64()))?;
        let help = "Time since a watch delivered a bookmark";
        gauge("informer_bookmark_age_seconds", help, |informer| Some(informer.bookmark_age?.as_secs_f64()))?;
        let help = "Pending events of the slowest handler or stream";
        gauge("informer_pending_events", help, |informer| {
            Some(informer.handlers.iter().map(|handler| handler.pending).max()? as f64)
        })?;

        let mut counter = |name: &str, help: &str, value: fn(&InformerStatus) -> u64| {
            let values = all.iter().map(|(labels, status)| (labels.as_slice(), value(status)));
            counters(encoder, name, help, values)
        };
        counter("informer_lists", "Started lists, including the initial list", |informer| {
            informer.reflector.lists
        })?;
        counter(
            "informer_relists",
            "Started lists, without the initial list and without retries",
            |informer| informer.reflector.relists,
        )?;
        counter("informer_watches", "Started watches", |informer| informer.reflector.watches)?;
        counter("informer_errors", "Failed requests, including timeouts", |informer| {
            informer.reflector.errors
        })?;
        let help = "Objects that could not be decoded";
        counter("informer_undecodable", help, |informer| informer.reflector.undecodable)?;
        counter("informer_handler_panics", "Handler calls that panicked", |informer| informer.handler_panics)
    }

    fn encode_recorders(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let labelled = |(cluster, controller, recorder): (Option<ClusterName>, String, EventRecorder)| {
            let cluster = cluster.map(|cluster| ("cluster", cluster.to_string()));
            let labels: Vec<_> = cluster.into_iter().chain([("controller", controller)]).collect();
            (labels, recorder.status())
        };
        let all: Vec<_> = self.0.recorders().into_iter().map(labelled).collect();
        if all.is_empty() {
            return Ok(());
        }
        let waiting = all.iter().map(|(labels, status)| (labels.as_slice(), status.waiting as f64));
        gauges(encoder, "event_recorder_waiting", "Reported events that are not written yet", waiting)?;
        let ended = all.iter().flat_map(|(labels, status)| {
            let RecorderStatus { sent, failed, dropped, .. } = status;
            let results = [
                ("sent", *sent),
                ("failed", *failed),
                ("queue_full", dropped.queue_full),
                ("rate_limited", dropped.rate_limited),
                ("invalid", dropped.invalid),
                ("stopped", dropped.stopped),
            ];
            results.map(|(result, events)| {
                ([labels.as_slice(), &[("result", result.to_owned())]].concat(), events)
            })
        });
        counters(encoder, "event_recorder_events", "Reported events, by result", ended)
    }
}

/// The number of slots by state, and the number of processes with slots.
fn encode_shards(encoder: &mut DescriptorEncoder<'_>, shards: &OwnedSlots) -> fmt::Result {
    let view = shards.view();
    let value = |count: usize| [([("group", shards.group())], count as f64)];
    let help = "Slots of this process, without slots that move to another process";
    gauges(encoder, "shard_slots_owned", help, value(shards.get().len()))?;
    let help = "Slots of this process that move to another process";
    gauges(encoder, "shard_slots_stopping", help, value(view.stopping.len()))?;
    let help = "Slots without an owner, as this process observes them";
    gauges(encoder, "shard_slots_unowned", help, value(view.unowned.len()))?;
    let help = "Slots of this process whose caches do not contain all writes of earlier owners yet";
    gauges(encoder, "shard_slots_waiting", help, value(view.moves.waiting.len()))?;
    gauges(encoder, "shard_members", "Processes that own slots", value(view.members.len()))?;
    let moves =
        [("claimed", view.moves.claimed), ("released", view.moves.released), ("lost", view.moves.lost)];
    let moves = moves.map(|(result, slots)| ([("group", shards.group()), ("move", result)], slots));
    counters(encoder, "shard_moves", "Slots that this process claimed, released or lost", moves)?;
    let group = [("group", shards.group())];
    let help = "Claimed slots whose caches contain all writes of earlier owners";
    counters(encoder, "shard_slots_ready", help, [(group, view.moves.ready)])?;
    let mut wait = encoder.encode_descriptor(
        "shard_slots_wait_seconds",
        "Total time from claims of slots until their caches contain all writes of earlier owners",
        None,
        MetricType::Counter,
    )?;
    let seconds = view.moves.wait.as_secs_f64();
    wait.encode_family(&group)?.encode_counter::<[(&str, &str); 0], f64, f64>(&seconds, None)
}

/// Returns the labels of each informer: its cluster, unless it is the cluster of the manager, and a unique
/// name. Informers that hold the same objects in different representations have the same name.
fn with_unique_names(
    all: Vec<(Option<ClusterName>, InformerStatus)>,
) -> Vec<(Vec<(&'static str, String)>, InformerStatus)> {
    let mut seen: HashMap<(Option<ClusterName>, String), usize> = HashMap::new();
    let labelled = all.into_iter().map(|(cluster, informer)| {
        let name = Escaped(&informer.name).to_string();
        let times = seen.entry((cluster.clone(), name.clone())).or_default();
        *times += 1;
        let name = if *times == 1 { name } else { format!("{name} #{times}") };
        let cluster = cluster.map(|cluster| ("cluster", cluster.to_string()));
        (cluster.into_iter().chain([("informer", name)]).collect(), informer)
    });
    labelled.collect()
}

/// The number of clusters by state, and whether each cluster fails.
fn encode_clusters(encoder: &mut DescriptorEncoder<'_>, clusters: &Clusters) -> fmt::Result {
    let all = clusters.status();
    use ClusterState::{Failing, OtherReplica, Starting, Synced};

    let states = [Starting, Synced, Failing, OtherReplica].map(|state| {
        let count = all.iter().filter(|cluster| cluster.state == state).count();
        ([("state", state.to_string())], count as f64)
    });
    gauges(encoder, "clusters", "Number of clusters, by state", states)?;
    let failing = all.iter().map(|cluster| {
        let is_failing = cluster.state == ClusterState::Failing;
        ([("cluster", cluster.name.as_str())], f64::from(is_failing))
    });
    gauges(
        encoder,
        "cluster_failing",
        "1 if requests to the cluster fail, or its provider rejects it",
        failing,
    )
}

fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, f64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn counters<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in values {
        family.encode_family(&labels)?.encode_counter::<[(&str, &str); 0], u64, u64>(&value, None)?;
    }
    Ok(())
}
