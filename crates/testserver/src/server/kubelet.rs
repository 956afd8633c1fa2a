//! A simulated kubelet: it schedules Pods, reports their status, and removes deleted Pods.

mod status;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::OptionFuture;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};

use self::status::Goal;
use crate::server::Server;
use crate::state::{Served, State};
use crate::status::Status;
use crate::storage::entry::Entry;
use crate::wire::object::meta;
use crate::wire::selector::LabelSelector;
use crate::write::delete_options::DeleteOptions;
use crate::write::{self, Mode, Object, Part, Target, Via, WriteOptions};

impl Server {
    /// Returns a builder to start a simulated kubelet, which also schedules Pods.
    pub fn kubelet(&self) -> KubeletBuilder {
        KubeletBuilder {
            server: self.clone(),
            nodes: vec!["node-1".into()],
            ready_after: Duration::ZERO,
            complete_after: Duration::ZERO,
            terminate_after: Duration::MAX,
        }
    }
}

/// Configures a simulated kubelet. [`Server::kubelet`] creates the builder.
///
/// All durations follow tokio's clock, which a test can pause.
#[derive(Clone, Debug)]
#[must_use]
pub struct KubeletBuilder {
    server: Server,
    nodes: Vec<String>,
    ready_after: Duration,
    complete_after: Duration,
    terminate_after: Duration,
}

impl KubeletBuilder {
    /// Sets the names of the nodes. Default: `node-1`. The kubelet creates missing Node objects, and ignores
    /// the Pods of other nodes.
    pub fn nodes<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.nodes = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the time from the start of a Pod until it is ready. Default: zero.
    pub fn ready_after(mut self, delay: Duration) -> Self {
        self.ready_after = delay;
        self
    }

    /// Sets the time from the start of a Pod until it succeeds, if its `restartPolicy` is `Never` or
    /// `OnFailure`, like in a Job. Default: zero.
    pub fn complete_after(mut self, delay: Duration) -> Self {
        self.complete_after = delay;
        self
    }

    /// Sets the time that the containers of a deleted Pod need to stop. The default and the maximum is the
    /// grace period of the Pod.
    pub fn terminate_after(mut self, delay: Duration) -> Self {
        self.terminate_after = delay;
        self
    }

    /// Creates the nodes, and starts the kubelet as a task.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub fn start(self) -> Kubelet {
        let pods = self.server.shared.find("", "v1", "pods").expect("the server serves Pods");
        let (memory, woken) = (Mutex::default(), Notify::new());
        let state = Arc::new(KubeletState { config: self, pods, memory, woken });
        state.create_nodes();
        Kubelet { task: tokio::spawn(state.clone().run()), state }
    }
}

/// Controls a simulated kubelet. The kubelet stops when this handle is dropped.
///
/// The kubelet binds each Pod to the next node. It reports the containers as running, and removes a
/// deleted Pod after its grace period. Selectors have the form of kubectl, for example `app=web`. They apply
/// to existing and to later Pods of all namespaces. The last matching call takes precedence.
#[derive(Debug)]
#[must_use]
pub struct Kubelet {
    state: Arc<KubeletState>,
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Lets the selected Pods fail with this reason.
    ///
    /// After `Evicted` and similar reasons, the phase is `Failed`. After reasons such as `ImagePullBackOff`,
    /// the containers never start. After other reasons, for example `OOMKilled`, the containers terminate.
    /// The Pod then fails if its `restartPolicy` is `Never`. Otherwise, its containers wait with the reason
    /// `CrashLoopBackOff`.
    ///
    /// # Errors
    /// Returns a status if the selector is invalid.
    pub fn fail(&self, selector: &str, reason: &str) -> Result<(), Status> {
        self.add_rule(selector, Some(Goal::failed(reason)))
    }

    /// Keeps the selected Pods from being ready, like a readiness probe that fails.
    ///
    /// # Errors
    /// Returns a status if the selector is invalid.
    pub fn never_ready(&self, selector: &str) -> Result<(), Status> {
        self.add_rule(selector, Some(Goal::Running { ready: false }))
    }

    /// Ends the effects of [`Kubelet::fail`] and [`Kubelet::never_ready`] on the selected Pods. A Pod with
    /// the phase `Failed` keeps this phase.
    ///
    /// # Errors
    /// Returns a status if the selector is invalid.
    pub fn recover(&self, selector: &str) -> Result<(), Status> {
        self.add_rule(selector, None)
    }

    fn add_rule(&self, selector: &str, goal: Option<Goal>) -> Result<(), Status> {
        let selector = LabelSelector::parse(selector)?;
        let mut memory = self.state.memory.lock();
        memory.rules.retain(|(other, _)| *other != selector);
        memory.rules.push((selector, goal));
        memory.pods.values_mut().for_each(|pod| pod.settled = None);
        self.state.woken.notify_one();
        Ok(())
    }

    /// Restarts the containers of a running Pod, and increments their `restartCount`. The default namespace
    /// is `default`.
    ///
    /// # Errors
    /// Returns a status if the Pod does not exist or does not run.
    pub fn restart(&self, namespace: Option<&str>, name: &str) -> Result<(), Status> {
        self.state.restart(namespace, name)
    }

    /// Stops the kubelet, and waits until its task has ended. Nodes and Pods remain.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the kubelet still stops.
    pub async fn stop(mut self) {
        self.task.abort();
        // The task was aborted above, so its error is expected.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug)]
struct KubeletState {
    config: KubeletBuilder,
    pods: Served,
    memory: Mutex<Memory>,
    /// Signals a new rule.
    woken: Notify,
}

#[derive(Debug, Default)]
struct Memory {
    /// The goals of selected Pods. `None` ends the effect of earlier rules.
    rules: Vec<(LabelSelector, Option<Goal>)>,
    /// The Pods by uid.
    pods: HashMap<Box<str>, PodTimes>,
    /// The number of Pods that received a node, and of Pods that received an address.
    bound: usize,
    addresses: usize,
}

#[derive(Debug, Default)]
struct PodTimes {
    ready_at: Option<Instant>,
    complete_at: Option<Instant>,
    terminating_since: Option<Instant>,
    /// The stored Pod that needs no action before `next`.
    settled: Option<Arc<Entry>>,
    next: Option<Instant>,
}

impl KubeletState {
    async fn run(self: Arc<Self>) {
        let mut revisions = self.config.server.shared.revisions();
        loop {
            revisions.mark_unchanged();
            let next = self.sync(Instant::now());
            // Without a next action, this future never completes.
            let due = OptionFuture::from(next.map(tokio::time::sleep_until));
            tokio::select! {
                biased;
                () = self.woken.notified() => {}
                changed = revisions.changed() => if changed.is_err() { return },
                Some(()) = due => {}
            }
        }
    }

    /// Executes the next action of each Pod. Returns the earliest time of a later action.
    fn sync(&self, now: Instant) -> Option<Instant> {
        let objects =
            |state: &State| state.store.table(self.pods.table).objects().values().cloned().collect();
        let entries: Vec<Arc<Entry>> = self.config.server.shared.read(objects);
        let memory = &mut *self.memory.lock();
        let mut known = std::mem::take(&mut memory.pods);
        for entry in entries {
            let uid = entry.essentials.uid.clone();
            let mut times = known.remove(&uid).unwrap_or_default();
            let is_settled = times.settled.as_ref().is_some_and(|pod| Arc::ptr_eq(pod, &entry));
            if !is_settled || times.next.is_some_and(|at| at <= now) {
                times.settled = Some(entry.clone());
                times.next = self.advance(memory, &mut times, &entry, now).unwrap_or_else(|status| {
                    tracing::debug!(%uid, %status, "the server rejected a write of the kubelet");
                    None
                });
            }
            memory.pods.insert(uid, times);
        }
        memory.pods.values().filter_map(|times| times.next).min()
    }

    /// Executes the next action of a Pod. Returns the time of the action after it, unless the Pod changes
    /// before.
    fn advance(
        &self,
        memory: &mut Memory,
        times: &mut PodTimes,
        entry: &Entry,
        now: Instant,
    ) -> Result<Option<Instant>, Status> {
        let (shared, pod) = (&self.config.server.shared, entry.object());
        let namespace = entry.essentials.namespace.as_deref().map(Into::into);
        let target = Target { served: self.pods.clone(), namespace, name: entry.essentials.name.to_string() };
        let uid = entry.essentials.uid.to_string();
        let node = status::spec(&pod, "nodeName").as_str().unwrap_or("");
        if node.is_empty() {
            let number = memory.bound.checked_rem(self.config.nodes.len());
            let Some(node) = number.and_then(|number| self.config.nodes.get(number)) else { return Ok(None) };
            memory.bound += 1;
            let body = json!({"metadata": {"name": target.name}, "target": {"name": node}}).to_string();
            write::now(write::binding::bind(shared, &target, &body.into(), options("kube-scheduler")))?;
            return Ok(None);
        }
        let Some(number) = self.config.nodes.iter().position(|own| own == node) else { return Ok(None) };
        if let Some(grace) = status::grace(&pod) {
            let delay = Duration::from_secs(grace).min(self.config.terminate_after);
            let end = times.terminating_since.get_or_insert(now).checked_add(delay);
            // After the removal, only finalizers keep the Pod.
            if grace == 0 || end.is_none_or(|end| end > now) {
                return Ok(end.filter(|_| grace > 0));
            }
            let options = DeleteOptions { grace: Some(0), uid: Some(uid), ..DeleteOptions::default() };
            write::now(write::delete::delete(shared, &target, &options, None))?;
        } else if !matches!(status::phase(&pod), "Succeeded" | "Failed") {
            let goal = self.goal(memory, times, entry, &pod, now);
            memory.addresses += 1;
            let (host, own) = (ip("172.18", number + 1), ip("10.244", memory.addresses));
            let edit = |pod: &Object, now: &str| {
                status::with_goal(&status::with_addresses(pod, &host, &own, now), &goal, now)
            };
            self.report(&target, &uid, edit)?;
        }
        Ok([times.ready_at, times.complete_at].into_iter().flatten().filter(|at| *at > now).min())
    }

    fn goal(&self, memory: &Memory, times: &mut PodTimes, entry: &Entry, pod: &Object, now: Instant) -> Goal {
        let mut latest = memory.rules.iter().rev();
        let rule = latest.find(|(selector, _)| selector.matches(&entry.essentials.labels));
        let goal = rule.and_then(|(_, goal)| goal.clone()).unwrap_or(Goal::Running { ready: true });
        let Goal::Running { ready } = goal else {
            (times.ready_at, times.complete_at) = (None, None);
            return goal;
        };
        if times.ready_at.is_none() {
            let delay = if status::is_ready(pod) { Duration::ZERO } else { self.config.ready_after };
            times.ready_at = now.checked_add(delay);
            let ends = matches!(status::spec(pod, "restartPolicy").as_str(), Some("Never" | "OnFailure"));
            times.complete_at = now.checked_add(self.config.complete_after).filter(|_| ends);
        }
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(times.complete_at) && status::phase(pod) == "Running" {
            return Goal::Completed;
        }
        Goal::Running { ready: ready && is_due(times.ready_at) }
    }

    /// Changes the status of a Pod.
    fn report(
        &self,
        target: &Target,
        uid: &str,
        edit: impl Fn(&Object, &str) -> Object + Send + Sync,
    ) -> Result<(), Status> {
        let shared = &self.config.server.shared;
        let now = shared.config.clock.timestamp(0);
        let mode = Mode { via: Via::Put, part: Part::Status, options: options("kubelet") };
        write::now(write::update(shared, target, &mode, |target, pod| {
            if meta(pod, "uid") == uid { Ok(edit(pod, &now)) } else { Err(target.not_found()) }
        }))
        .map(drop)
    }

    fn restart(&self, namespace: Option<&str>, name: &str) -> Result<(), Status> {
        let server = &self.config.server;
        let pod = server.get_untyped("v1", "Pod", namespace, name)?;
        if pod["status"]["phase"] != "Running" {
            return Err(Status::bad_request(format!("the Pod {name} does not run")));
        }
        let uid = pod["metadata"]["uid"].as_str().unwrap_or("");
        let memory = &mut *self.memory.lock();
        if let Some(times) = memory.pods.get_mut(uid) {
            times.ready_at = None;
        }
        self.report(&server.target("v1", "Pod", namespace, name)?, uid, status::restarted)
    }

    fn create_nodes(&self) {
        let server = &self.config.server;
        for (number, name) in self.config.nodes.iter().enumerate() {
            let node =
                status::node(name, &ip("172.18", number + 1), &server.shared.config.clock.timestamp(0));
            if server.get_untyped("v1", "Node", None, name).is_err()
                && let Err(status) = server.create_or_replace(&node)
            {
                tracing::warn!(%name, %status, "the kubelet cannot create its node");
            }
        }
    }
}

fn ip(network: &str, number: usize) -> String {
    format!("{network}.{}.{}", number / 250 % 250, number % 250 + 1)
}

fn options(manager: &str) -> WriteOptions {
    WriteOptions { manager: manager.into(), ..WriteOptions::default() }
}
