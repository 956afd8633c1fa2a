//! `World`: a server, the external resources, and the violations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use http::Response;
use http_body_util::BodyExt as _;
use kube_client::client::Body;
use kube_object::SlotSet;
use kube_operator::{Leadership, OwnedSlots};
use kube_testserver::{FaultPlan, Server, StreamingLists};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::BoxError;

use crate::{
    process::{Process, Side, Step},
    support::{self, Site, VERSION},
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const FINALIZER: &str = "shop.example.com/site";
pub(crate) const LEASE: &str = "site-operator";
/// Time limit for convergence after all faults, in seconds.
const MAX_CONVERGENCE_SECONDS: usize = 900;

/// Crash points of processes, with counts.
pub(crate) type Ends = BTreeMap<String, usize>;

/// How the processes share their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// One process reconciles all sites.
    Election,
    /// Each process reconciles the sites in its slots.
    Shards,
}

/// What a running process may do.
struct Owner {
    leadership: Leadership,
    slots: Option<OwnedSlots>,
    /// The sites that the process reconciles.
    running: BTreeSet<String>,
}

/// A running reconcile. Its drop ends the reconcile.
pub(crate) struct RunningReconcile {
    world: Arc<World>,
    process: Arc<str>,
    site: String,
}

impl Drop for RunningReconcile {
    fn drop(&mut self) {
        if let Some(owner) = self.world.processes.lock().get_mut(&*self.process) {
            owner.running.remove(&self.site);
        }
    }
}

pub(crate) struct World {
    pub(crate) server: Server,
    /// Resources outside of the cluster, by the uid of their site. The garbage collector does not
    /// delete them.
    external: Mutex<BTreeMap<String, External>>,
    records: Mutex<Records>,
    /// The running processes.
    processes: Mutex<BTreeMap<String, Owner>>,
    /// The last version of each site that a process has written and received.
    written: Mutex<BTreeMap<String, u64>>,
    pub(crate) sharing: Sharing,
    start: Instant,
}

#[derive(Default)]
struct External {
    says: Option<String>,
    cleanups: usize,
}

/// The history and the violations.
#[derive(Default)]
struct Records {
    history: Vec<String>,
    violations: BTreeSet<String>,
    ends: Ends,
}

impl World {
    pub(crate) fn new(seed: u64, sharing: Sharing) -> Arc<Self> {
        let server = support::server(Some(FaultPlan::common_faults(seed).rate(0.04)));
        // Without streaming lists, a list may be as old as the cache of the replica.
        if seed.is_multiple_of(2) {
            server.set_streaming_lists(StreamingLists::Refused);
        }
        let (external, records, processes, written) = Default::default();
        Arc::new(Self { server, external, records, processes, written, sharing, start: Instant::now() })
    }

    pub(crate) fn log(&self, event: impl std::fmt::Display) {
        let at = self.start.elapsed().as_secs_f64();
        self.records.lock().history.push(format!("{at:9.3} {event}"));
    }

    pub(crate) fn violation(&self, text: String) {
        self.log(format_args!("VIOLATION: {text}"));
        self.records.lock().violations.insert(text);
    }

    pub(crate) fn add_process(&self, identity: &str, leadership: Leadership, slots: Option<OwnedSlots>) {
        let owner = Owner { leadership, slots, running: BTreeSet::new() };
        self.processes.lock().insert(identity.to_owned(), owner);
    }

    pub(crate) fn remove_process(&self, identity: &str) {
        self.processes.lock().remove(identity);
    }

    /// Checks that at most one process is leader, or that each slot has at most one owner.
    pub(crate) fn check_owners(&self) {
        let violation = {
            let processes = self.processes.lock();
            match self.sharing {
                Sharing::Election => {
                    let leaders = processes.iter().filter(|(_, owner)| owner.leadership.is_leader());
                    let leaders: Vec<&String> = leaders.map(|(identity, _)| identity).collect();
                    (leaders.len() > 1).then(|| format!("{leaders:?} are leaders at the same time"))
                }
                Sharing::Shards => {
                    let owned = processes.values().filter_map(|owner| Some(owner.slots.as_ref()?.get()));
                    let owned: Vec<SlotSet> = owned.collect();
                    let all = owned.iter().fold(SlotSet::default(), |all, slots| all.union(slots));
                    let count: usize = owned.iter().map(SlotSet::len).sum();
                    (count > all.len()).then(|| format!("a slot has two owners: {owned:?}"))
                }
            }
        };
        if let Some(violation) = violation {
            self.violation(violation);
        }
    }

    /// Checks that no other process reconciles this site. With shards, also checks that the process observes
    /// the earlier writes of all processes.
    pub(crate) fn start_reconcile(
        self: &Arc<Self>,
        process: &Process,
        site: &str,
        version: Option<&str>,
    ) -> RunningReconcile {
        let others: Vec<String> = {
            let mut processes = self.processes.lock();
            let runs = |(_, owner): &(&String, &Owner)| owner.running.contains(site);
            let others = processes.iter().filter(runs).map(|(identity, _)| identity.clone()).collect();
            if let Some(owner) = processes.get_mut(&*process.identity) {
                owner.running.insert(site.to_owned());
            }
            others
        };
        if !others.is_empty() {
            self.violation(format!("{} reconciles {site}, and {others:?} do too", process.identity));
        }
        let written = self.written.lock().get(site).copied();
        let observed = version.and_then(|version| version.parse::<u64>().ok());
        // An election does not promise this: the caches of a new leader can be older.
        if let (Some(written), Some(observed), Sharing::Shards) = (written, observed, self.sharing)
            && observed < written
        {
            self.violation(format!("{} reconciles {site} at {observed} after {written}", process.identity));
        }
        let (world, process) = (Arc::clone(self), Arc::clone(&process.identity));
        RunningReconcile { world, process, site: site.to_owned() }
    }

    /// Records the version of a written site, and returns the response.
    pub(crate) async fn record_write(
        &self,
        process: &Process,
        path: &str,
        response: Response<kube_testserver::Body>,
    ) -> Result<Response<Body>, BoxError> {
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        let written: Value = serde_json::from_slice(&body).unwrap_or_default();
        let site = path.trim_end_matches("/status").rsplit('/').next().unwrap_or_default();
        let version = written["metadata"]["resourceVersion"].as_str();
        let version = version.and_then(|text| text.parse::<u64>().ok());
        if let Some(version) = version.filter(|_| head.status.is_success() && !process.ended.is_cancelled()) {
            let mut versions = self.written.lock();
            let last: &mut u64 = versions.entry(site.to_owned()).or_default();
            *last = version.max(*last);
        }
        Ok(Response::from_parts(head, Body::from(body)))
    }

    /// Records the end of a process.
    pub(crate) fn record_end(&self, identity: &str, place: &str) {
        self.log(format_args!("{identity} ends: {place}"));
        *self.records.lock().ends.entry(place.to_owned()).or_default() += 1;
    }

    pub(crate) fn site(&self, name: &str) -> Option<Value> {
        self.server.get_untyped(VERSION, "Site", Some("default"), name).ok()
    }

    /// Returns the holder of the Lease on the server.
    pub(crate) fn leader(&self) -> Option<String> {
        let lease =
            self.server.get_untyped("coordination.k8s.io/v1", "Lease", Some("default"), LEASE).ok()?;
        lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }

    /// Returns the Leases on the server that prove that a process of the group of shards is alive.
    pub(crate) fn live_members(&self) -> Vec<String> {
        let leases =
            self.server.list_untyped("coordination.k8s.io/v1", "Lease", Some("default")).unwrap_or_default();
        let is_live =
            |lease: &&Value| lease["metadata"]["annotations"]["kube-informer.dev/killed-by"].is_null();
        let names = leases.iter().filter(is_live).filter_map(|lease| lease["metadata"]["name"].as_str());
        names.filter(|name| *name != LEASE).map(str::to_owned).collect()
    }

    pub(crate) fn is_leader(&self, identity: &str) -> bool {
        self.leader().as_deref() == Some(identity)
    }

    /// Returns whether the process is the leader, or owns a slot.
    pub(crate) fn has_work(&self, identity: &str) -> bool {
        match self.sharing {
            Sharing::Election => self.is_leader(identity),
            Sharing::Shards => {
                let processes = self.processes.lock();
                let slots = processes.get(identity).and_then(|owner| owner.slots.as_ref());
                slots.is_some_and(|slots| !slots.get().is_empty())
            }
        }
    }

    /// Checks that a writer holds the Lease, before and after the write. With shards, the checks of
    /// reconciles are sufficient.
    pub(crate) fn check_writer(&self, identity: &str, step: Step, side: Side) {
        if self.sharing == Sharing::Election && !self.is_leader(identity) {
            self.violation(format!(
                "{identity} does not hold the Lease ({:?} does): {side:?} {step:?}",
                self.leader()
            ));
        }
    }

    /// Returns whether the server has the site with this uid and the finalizer.
    fn has_site(&self, name: &str, uid: &str) -> bool {
        let site = self.site(name).unwrap_or_default();
        site["metadata"]["uid"] == uid && has_finalizer(&site)
    }

    pub(crate) fn make(&self, site: &Site) {
        let (name, uid) = identity(site);
        if !self.has_site(name, uid) {
            self.violation(format!("a resource for {name} ({uid}) was created without its finalizer"));
        }
        let mut external = self.external.lock();
        let made = external.entry(uid.to_owned()).or_default();
        made.says = Some(site.spec.says.clone());
        let is_late = made.cleanups > 0;
        drop(external);
        if is_late {
            self.violation(format!("a resource for {name} ({uid}) was created after its cleanup"));
        }
    }

    /// Checks a cleanup when it starts and when it completes. It may be repeated until the finalizer is
    /// removed.
    pub(crate) fn check_cleanup(&self, site: &Site) {
        let (name, uid) = identity(site);
        if !self.has_site(name, uid) {
            self.violation(format!("{name} ({uid}) is cleaned up without its finalizer"));
        }
    }

    pub(crate) fn clean_up(&self, site: &Site) {
        self.check_cleanup(site);
        let mut external = self.external.lock();
        let made = external.entry(identity(site).1.to_owned()).or_default();
        made.says = None;
        made.cleanups += 1;
    }

    /// Returns the number of sites that were cleaned up.
    pub(crate) fn cleaned_up(&self) -> usize {
        self.external.lock().values().filter(|made| made.cleanups > 0).count()
    }

    /// Checks that each external resource belongs to a site with the finalizer.
    pub(crate) fn check_resources(&self) {
        let sites = self.list(VERSION, "Site");
        let held = sites.iter().filter(|site| has_finalizer(site)).map(|site| &site["metadata"]["uid"]);
        let held: Vec<&Value> = held.collect();
        for uid in self.made() {
            if !held.iter().any(|held| **held == *uid) {
                self.violation(format!("the resource of {uid} has lost its site"));
            }
        }
    }

    fn made(&self) -> Vec<String> {
        let external = self.external.lock();
        external.iter().filter(|(_, made)| made.says.is_some()).map(|(uid, _)| uid.clone()).collect()
    }

    /// Returns the differences from the expected end state. Each site must be up to date, and other
    /// resources must not exist.
    pub(crate) fn differences(&self) -> Vec<String> {
        let (sites, maps) = (self.list(VERSION, "Site"), self.list("v1", "ConfigMap"));
        let mut differences = Vec::new();
        let mut expected = Vec::new();
        let mut made = self.made();
        for site in &sites {
            let (meta, says) = (&site["metadata"], &site["spec"]["says"]);
            let uid = meta["uid"].as_str().unwrap();
            if !meta["deletionTimestamp"].is_null() {
                differences.push(format!("{} is still being deleted", meta["name"]));
            }
            made.retain(|made| made != uid);
            let external = self.external.lock().get(uid).and_then(|made| made.says.clone());
            if external.as_deref() != says.as_str() {
                differences.push(format!("the external resource of {} is outdated", meta["name"]));
            }
            if site["status"]["said"] != *says {
                differences.push(format!("the status of {} is outdated", meta["name"]));
            }
            for kind in ["updated", "applied"] {
                let name = format!("{}-{kind}", meta["name"].as_str().unwrap());
                expected.push(json!([name, says, uid]));
            }
        }
        differences.extend(made.iter().map(|uid| format!("the resource of {uid} still exists")));
        let actual = maps.iter().map(|map| {
            let meta = &map["metadata"];
            json!([meta["name"], map["data"]["says"], meta["ownerReferences"][0]["uid"]])
        });
        let actual: Vec<Value> = actual.collect();
        differences.extend(
            expected.iter().filter(|map| !actual.contains(map)).map(|map| format!("{map} is missing")),
        );
        differences.extend(
            actual.iter().filter(|map| !expected.contains(map)).map(|map| format!("{map} still exists")),
        );
        differences
    }

    fn list(&self, version: &str, kind: &str) -> Vec<Value> {
        self.server.list_untyped(version, kind, Some("default")).unwrap()
    }

    /// Waits until the end state is stable for 20 s, or until the time limit.
    pub(crate) async fn settle(&self) {
        let mut stable = 0;
        for _ in 0..MAX_CONVERGENCE_SECONDS {
            sleep(SECOND).await;
            stable = if self.differences().is_empty() { stable + 1 } else { 0 };
            if stable == 20 {
                return;
            }
        }
    }

    /// Returns all violations.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.check_resources();
        self.records.lock().violations.iter().cloned().chain(self.differences()).collect()
    }

    pub(crate) fn history(&self) -> Vec<String> {
        self.records.lock().history.clone()
    }

    pub(crate) fn all_ends(&self) -> Ends {
        self.records.lock().ends.clone()
    }
}

fn has_finalizer(site: &Value) -> bool {
    site["metadata"]["finalizers"].as_array().is_some_and(|names| names.iter().any(|name| name == FINALIZER))
}

fn identity(site: &Site) -> (&str, &str) {
    let meta = &site.metadata;
    (meta.name.as_deref().unwrap_or_default(), meta.uid.as_deref().unwrap_or_default())
}
