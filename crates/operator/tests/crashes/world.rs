//! What is judged: a server, what was made outside of it, and what should not have happened.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube_operator::Leadership;
use kube_testserver::{Plan, Server, StreamingLists};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    life::{Moment, Step},
    support::{self, Site, VERSION},
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const FINALIZER: &str = "shop.example.com/site";
pub(crate) const LEASE: &str = "site-operator";
/// After all troubles all has to be well within so many seconds.
const CONVERGES: usize = 900;

/// Where a life was ended, and how often.
pub(crate) type Ends = BTreeMap<String, usize>;

pub(crate) struct World {
    pub(crate) server: Server,
    /// What is made outside of the cluster, by the uid of the site that asks for it. No garbage collector looks there.
    outside: Mutex<BTreeMap<String, Outside>>,
    seen: Mutex<Seen>,
    /// Those who live now.
    living: Mutex<BTreeMap<String, Leadership>>,
    begun: Instant,
}

#[derive(Default)]
struct Outside {
    says: Option<String>,
    cleanups: usize,
}

/// What has happened, and what of it should not have.
#[derive(Default)]
struct Seen {
    history: Vec<String>,
    wrongs: BTreeSet<String>,
    ends: Ends,
}

impl World {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        let server = support::server(Some(Plan::usual(seed).rate(0.04)));
        // What is listed otherwise may be as old as the replica's cache.
        if seed.is_multiple_of(2) {
            server.set_streaming_lists(StreamingLists::Refused);
        }
        let (outside, seen, living) = Default::default();
        Arc::new(Self { server, outside, seen, living, begun: Instant::now() })
    }

    pub(crate) fn tell(&self, what: impl std::fmt::Display) {
        let at = self.begun.elapsed().as_secs_f64();
        self.seen.lock().history.push(format!("{at:9.3} {what}"));
    }

    pub(crate) fn wrong(&self, what: String) {
        self.tell(format_args!("WRONG: {what}"));
        self.seen.lock().wrongs.insert(what);
    }

    pub(crate) fn begins(&self, who: &str, leadership: Leadership) {
        self.living.lock().insert(who.to_owned(), leadership);
    }

    pub(crate) fn is_over(&self, who: &str) {
        self.living.lock().remove(who);
    }

    /// At no moment two of them believe that they lead.
    pub(crate) fn judge_leaders(&self) {
        let living = self.living.lock();
        let leaders: Vec<String> =
            living.iter().filter(|(_, leads)| leads.is_leader()).map(|(who, _)| who.clone()).collect();
        drop(living);
        if leaders.len() > 1 {
            self.wrong(format!("{leaders:?} lead at once"));
        }
    }

    /// A life ends here.
    pub(crate) fn ends(&self, who: &str, place: &str) {
        self.tell(format_args!("{who} ends: {place}"));
        *self.seen.lock().ends.entry(place.to_owned()).or_default() += 1;
    }

    pub(crate) fn site(&self, name: &str) -> Option<Value> {
        self.server.get(VERSION, "Site", Some("default"), name).ok()
    }

    /// Whom the Lease names, as the server has it.
    pub(crate) fn leader(&self) -> Option<String> {
        let lease = self.server.get("coordination.k8s.io/v1", "Lease", Some("default"), LEASE).ok()?;
        lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }

    pub(crate) fn leads(&self, who: &str) -> bool {
        self.leader().as_deref() == Some(who)
    }

    /// Whoever writes has to be the one whom the Lease names, when it sends and when that is done.
    pub(crate) fn judge_writer(&self, who: &str, step: Step, moment: Moment) {
        if !self.leads(who) {
            self.wrong(format!("{who} does not lead ({:?} does): {moment:?} {step:?}", self.leader()));
        }
    }

    /// Whether the server has this very site now, with the finalizer.
    fn holds(&self, name: &str, uid: &str) -> bool {
        let there = self.site(name).unwrap_or_default();
        there["metadata"]["uid"] == uid && has_finalizer(&there)
    }

    pub(crate) fn make(&self, site: &Site) {
        let (name, uid) = identity(site);
        if !self.holds(name, uid) {
            self.wrong(format!("something was made for {name} ({uid}) without its finalizer"));
        }
        let mut outside = self.outside.lock();
        let made = outside.entry(uid.to_owned()).or_default();
        made.says = Some(site.spec.says.clone());
        let is_late = made.cleanups > 0;
        drop(outside);
        if is_late {
            self.wrong(format!("something was made for {name} ({uid}) after its cleanup"));
        }
    }

    /// The cleanup of a site begins, or is done. It may be repeated, but not once the server has taken the finalizer away.
    pub(crate) fn judge_cleanup(&self, site: &Site) {
        let (name, uid) = identity(site);
        if !self.holds(name, uid) {
            self.wrong(format!("{name} ({uid}) is cleaned up without its finalizer"));
        }
    }

    pub(crate) fn clean_up(&self, site: &Site) {
        self.judge_cleanup(site);
        let mut outside = self.outside.lock();
        let made = outside.entry(identity(site).1.to_owned()).or_default();
        made.says = None;
        made.cleanups += 1;
    }

    /// How many sites were cleaned up.
    pub(crate) fn cleaned_up(&self) -> usize {
        self.outside.lock().values().filter(|made| made.cleanups > 0).count()
    }

    /// What is there outside belongs to a site that is there with its finalizer, at every moment.
    pub(crate) fn check(&self) {
        let sites = self.list(VERSION, "Site");
        let held = sites.iter().filter(|site| has_finalizer(site)).map(|site| &site["metadata"]["uid"]);
        let held: Vec<&Value> = held.collect();
        for uid in self.made() {
            if !held.iter().any(|held| **held == *uid) {
                self.wrong(format!("what was made for {uid} has lost its site"));
            }
        }
    }

    fn made(&self) -> Vec<String> {
        let outside = self.outside.lock();
        outside.iter().filter(|(_, made)| made.says.is_some()).map(|(uid, _)| uid.clone()).collect()
    }

    /// What is not as it should be in the end: each site has what it asks for, and nothing else is there.
    pub(crate) fn amiss(&self) -> Vec<String> {
        let (sites, maps) = (self.list(VERSION, "Site"), self.list("v1", "ConfigMap"));
        let mut amiss = Vec::new();
        let mut expected = Vec::new();
        let mut made = self.made();
        for site in &sites {
            let (meta, says) = (&site["metadata"], &site["spec"]["says"]);
            let uid = meta["uid"].as_str().unwrap();
            if !meta["deletionTimestamp"].is_null() {
                amiss.push(format!("{} is still being deleted", meta["name"]));
            }
            made.retain(|made| made != uid);
            let outside = self.outside.lock().get(uid).and_then(|made| made.says.clone());
            if outside.as_deref() != says.as_str() {
                amiss.push(format!("{} does not have what it asks for outside", meta["name"]));
            }
            if site["status"]["said"] != *says {
                amiss.push(format!("the status of {} says something else", meta["name"]));
            }
            for kind in ["updated", "applied"] {
                let name = format!("{}-{kind}", meta["name"].as_str().unwrap());
                expected.push(json!([name, says, uid]));
            }
        }
        amiss.extend(made.iter().map(|uid| format!("what was made for {uid} is left")));
        let is = maps.iter().map(|map| {
            let meta = &map["metadata"];
            json!([meta["name"], map["data"]["says"], meta["ownerReferences"][0]["uid"]])
        });
        let is: Vec<Value> = is.collect();
        amiss.extend(expected.iter().filter(|map| !is.contains(map)).map(|map| format!("{map} is missing")));
        amiss.extend(is.iter().filter(|map| !expected.contains(map)).map(|map| format!("{map} is left")));
        amiss
    }

    fn list(&self, version: &str, kind: &str) -> Vec<Value> {
        self.server.list(version, kind, Some("default")).unwrap()
    }

    /// Waits until all has been well for a while, or too long.
    pub(crate) async fn settle(&self) {
        let mut well = 0;
        for _ in 0..CONVERGES {
            sleep(SECOND).await;
            well = if self.amiss().is_empty() { well + 1 } else { 0 };
            if well == 20 {
                return;
            }
        }
    }

    /// All that was and is wrong.
    pub(crate) fn wrongs(&self) -> Vec<String> {
        self.check();
        self.seen.lock().wrongs.iter().cloned().chain(self.amiss()).collect()
    }

    pub(crate) fn history(&self) -> Vec<String> {
        self.seen.lock().history.clone()
    }

    pub(crate) fn all_ends(&self) -> Ends {
        self.seen.lock().ends.clone()
    }
}

fn has_finalizer(site: &Value) -> bool {
    site["metadata"]["finalizers"].as_array().is_some_and(|names| names.iter().any(|name| name == FINALIZER))
}

fn identity(site: &Site) -> (&str, &str) {
    let meta = &site.metadata;
    (meta.name.as_deref().unwrap_or_default(), meta.uid.as_deref().unwrap_or_default())
}
