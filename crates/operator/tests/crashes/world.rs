//! `World`: a server, the external resources, and the violations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube_operator::Leadership;
use kube_testserver::{FaultPlan, Server, StreamingLists};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    process::{Side, Step},
    support::{self, Site, VERSION},
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const FINALIZER: &str = "shop.example.com/site";
pub(crate) const LEASE: &str = "site-operator";
/// Time limit for convergence after all faults, in seconds.
const MAX_CONVERGENCE_SECONDS: usize = 900;

/// Crash points of processes, with counts.
pub(crate) type Ends = BTreeMap<String, usize>;

pub(crate) struct World {
    pub(crate) server: Server,
    /// Resources outside of the cluster, by the uid of their site. The garbage collector does not
    /// delete them.
    external: Mutex<BTreeMap<String, External>>,
    records: Mutex<Records>,
    /// The running processes.
    processes: Mutex<BTreeMap<String, Leadership>>,
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
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        let server = support::server(Some(FaultPlan::common_faults(seed).rate(0.04)));
        // Without streaming lists, a list may be as old as the cache of the replica.
        if seed.is_multiple_of(2) {
            server.set_streaming_lists(StreamingLists::Refused);
        }
        let (external, records, processes) = Default::default();
        Arc::new(Self { server, external, records, processes, start: Instant::now() })
    }

    pub(crate) fn log(&self, event: impl std::fmt::Display) {
        let at = self.start.elapsed().as_secs_f64();
        self.records.lock().history.push(format!("{at:9.3} {event}"));
    }

    pub(crate) fn violation(&self, text: String) {
        self.log(format_args!("VIOLATION: {text}"));
        self.records.lock().violations.insert(text);
    }

    pub(crate) fn add_process(&self, identity: &str, leadership: Leadership) {
        self.processes.lock().insert(identity.to_owned(), leadership);
    }

    pub(crate) fn remove_process(&self, identity: &str) {
        self.processes.lock().remove(identity);
    }

    /// Checks that at most one process is leader.
    pub(crate) fn check_leaders(&self) {
        let processes = self.processes.lock();
        let leaders: Vec<String> = processes
            .iter()
            .filter(|(_, leads)| leads.is_leader())
            .map(|(identity, _)| identity.clone())
            .collect();
        drop(processes);
        if leaders.len() > 1 {
            self.violation(format!("{leaders:?} are leaders at the same time"));
        }
    }

    /// Records the end of a process.
    pub(crate) fn record_end(&self, identity: &str, place: &str) {
        self.log(format_args!("{identity} ends: {place}"));
        *self.records.lock().ends.entry(place.to_owned()).or_default() += 1;
    }

    pub(crate) fn site(&self, name: &str) -> Option<Value> {
        self.server.get(VERSION, "Site", Some("default"), name).ok()
    }

    /// Returns the holder of the Lease on the server.
    pub(crate) fn leader(&self) -> Option<String> {
        let lease = self.server.get("coordination.k8s.io/v1", "Lease", Some("default"), LEASE).ok()?;
        lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }

    pub(crate) fn is_leader(&self, identity: &str) -> bool {
        self.leader().as_deref() == Some(identity)
    }

    /// Checks that a writer holds the Lease, before and after the write.
    pub(crate) fn check_writer(&self, identity: &str, step: Step, side: Side) {
        if !self.is_leader(identity) {
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
        self.server.list(version, kind, Some("default")).unwrap()
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
