//! What is looked up when Prometheus asks: queues, informers, the lease.

use std::{
    collections::HashMap,
    fmt::{self, Debug},
    sync::Arc,
};

use kube_informer::{InformerFactory, InformerStatus};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    metrics::MetricType,
};
use tokio::sync::watch;

use super::metrics::{labels_of, labels_of_queue};
use crate::{Leadership, controller::state::ControllerState};

/// What a manager has to show.
pub(crate) struct Shown {
    pub(crate) factory: InformerFactory,
    pub(crate) controllers: Vec<Arc<ControllerState>>,
    pub(crate) election: Option<Elected>,
}

/// An election as it is shown.
#[derive(Clone)]
pub(crate) struct Elected {
    /// That of the Lease.
    pub(crate) name: String,
    pub(crate) leadership: Leadership,
    /// Why the last request to the Lease has failed, until one does not.
    pub(crate) trouble: watch::Receiver<Option<String>>,
}

impl Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.queues(&mut encoder)?;
        self.informers(&mut encoder)?;
        if let Some(Elected { name, leadership, .. }) = &self.election {
            let leads = [([("name", name.as_str())], f64::from(leadership.is_leader()))];
            gauges(&mut encoder, "leader_election_master_status", "1 if this process leads", leads)?;
        }
        Ok(())
    }
}

impl Shown {
    fn queues(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let all = &self.controllers;
        let concurrency = all.iter().map(|of| (labels_of(&of.options.name), of.options.concurrency as f64));
        let name = "controller_runtime_max_concurrent_reconciles";
        gauges(encoder, name, "How many runs there may be at once", concurrency)?;
        let active = all.iter().map(|of| (labels_of(&of.options.name), of.runs.len() as f64));
        gauges(encoder, "controller_runtime_active_workers", "How many runs there are", active)?;

        let queues: Vec<_> =
            all.iter().map(|of| (labels_of_queue(&of.options.name), of.keys.queue.status())).collect();
        let depth = queues.iter().map(|(of, queue)| (of.as_slice(), queue.ready as f64));
        gauges(encoder, "workqueue_depth", "How many keys wait", depth)?;
        let unfinished =
            queues.iter().map(|(of, queue)| (of.as_slice(), queue.unfinished_work().as_secs_f64()));
        let help = "How long the keys that are worked on have been, all together";
        gauges(encoder, "workqueue_unfinished_work_seconds", help, unfinished)?;
        let longest = queues.iter().map(|(of, queue)| (of.as_slice(), queue.longest_running().as_secs_f64()));
        let name = "workqueue_longest_running_processor_seconds";
        gauges(encoder, name, "How long the longest run has run", longest)?;
        let adds = queues.iter().map(|(of, queue)| (of.as_slice(), queue.adds));
        counters(encoder, "workqueue_adds", "How many runs were asked for", adds)?;
        let retries = queues.iter().map(|(of, queue)| (of.as_slice(), queue.retries));
        counters(encoder, "workqueue_retries", "How many keys came back after a failure", retries)
    }

    fn informers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let all = named(self.factory.status());
        let mut gauge = |name: &str, help: &str, value: fn(&InformerStatus) -> Option<f64>| {
            let values = all.iter().filter_map(|(name, status)| Some(([("informer", name)], value(status)?)));
            gauges(encoder, name, help, values)
        };
        gauge("informer_objects", "Objects in the cache", |informer| Some(informer.objects as f64))?;
        let help = "Objects whose newest state could not be decoded";
        gauge("informer_stale_objects", help, |informer| Some(informer.stale as f64))?;
        gauge("informer_synced", "1 if the first list is in the cache", |informer| {
            Some(f64::from(informer.synced))
        })?;
        gauge("informer_failing", "1 from a failed request to the next that succeeds", |informer| {
            Some(f64::from(informer.reflector.failing.is_some()))
        })?;
        let help = "How long ago a watch last brought an object";
        gauge("informer_event_age_seconds", help, |informer| Some(informer.event_age?.as_secs_f64()))?;
        let help = "How long ago a watch last brought a bookmark";
        gauge("informer_bookmark_age_seconds", help, |informer| Some(informer.bookmark_age?.as_secs_f64()))?;
        let help = "Events that wait for the handler that is furthest behind";
        gauge("informer_pending_events", help, |informer| {
            Some(informer.handlers.iter().map(|handler| handler.pending).max()? as f64)
        })?;

        let mut counter = |name: &str, help: &str, value: fn(&InformerStatus) -> u64| {
            let values = all.iter().map(|(name, status)| ([("informer", name)], value(status)));
            counters(encoder, name, help, values)
        };
        counter("informer_lists", "Lists begun", |informer| informer.reflector.lists)?;
        counter("informer_relists", "Lists begun to replace a state that was lost", |informer| {
            informer.reflector.relists
        })?;
        counter("informer_watches", "Watches begun", |informer| informer.reflector.watches)?;
        counter("informer_errors", "Requests that failed", |informer| informer.reflector.errors)?;
        let help = "Objects that could not be decoded";
        counter("informer_undecodable", help, |informer| informer.reflector.undecodable)?;
        counter("informer_handler_panics", "Calls of handlers that have panicked", |informer| {
            informer.handler_panics
        })
    }
}

/// Each informer under a name of its own: those that keep the same objects in different forms share theirs.
fn named(all: Vec<InformerStatus>) -> Vec<(String, InformerStatus)> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut named: Vec<_> = all
        .into_iter()
        .map(|informer| {
            let times = seen.entry(informer.name.clone()).or_default();
            *times += 1;
            let name = match *times {
                1 => informer.name.clone(),
                times => format!("{} #{times}", informer.name),
            };
            (name, informer)
        })
        .collect();
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    named
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
