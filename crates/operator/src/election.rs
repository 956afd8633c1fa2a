//! `Election`: takes part in the election that a Lease of the cluster decides, and keeps the lease while it has it.

use std::{
    fmt::Display,
    hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState},
    time::Duration,
};

use futures_util::StreamExt;
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube_client::{Api, Client, api::PostParams, core::ObjectMeta};
use kube_informer::{EventStream, Informer, ListWatch, ObjectKey, ReflectorOptions, ResourceVersion};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    collect::Elected,
    leadership::{Leadership, Standing},
    lease::{Candidate, ElectionError, LeaseTimes, Next, Record, Write},
    said::said,
};

/// The Lease that decides who leads, and in whose name this process takes part.
#[derive(Clone, Debug)]
pub struct ElectionOptions {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// Another one in each process: two of one name would both take the lease for theirs. A host's name will not do where
    /// Pods share it, or start anew on it. [`ElectionOptions::new`] makes one that nobody else has.
    pub identity: String,
    /// How long a lease holds, and how often it is renewed.
    pub times: LeaseTimes,
}

impl ElectionOptions {
    /// The Lease of this name, with the usual times, in a name that nobody else has: that of the host (`HOSTNAME`, which in a
    /// Pod is the Pod's name) and something random.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let name = name.into();
        let host = std::env::var("HOSTNAME").ok().filter(|host| !host.is_empty());
        // The standard library asks the system for what is random in it.
        let random = RandomState::new().hash_one(std::process::id());
        let identity = format!("{}_{random:016x}", host.unwrap_or_else(|| name.clone()));
        Self { namespace: namespace.into(), name, identity, times: LeaseTimes::default() }
    }
}

/// A part in an election, which is taken by [`Election::run`].
pub struct Election {
    options: ElectionOptions,
    api: Api<Lease>,
    standing: watch::Sender<Standing>,
    candidate: Candidate,
    /// As the candidate has seen it last: what others have put into it is kept.
    lease: Option<Lease>,
    /// Why the last request has failed, until one does not.
    trouble: watch::Sender<Option<String>>,
}

impl Election {
    /// Nothing is asked before [`Election::run`].
    ///
    /// # Errors
    /// No identity, or times, with which two could lead at once.
    pub fn new(client: Client, options: ElectionOptions) -> Result<Self, ElectionError> {
        if options.identity.is_empty() {
            return Err(ElectionError::NoIdentity);
        }
        let times = options.times.check()?;
        let candidate = Candidate::new(options.identity.clone(), times, Instant::now());
        let api = Api::namespaced(client, &options.namespace);
        let standing = watch::Sender::new(Standing::Follows(None));
        Ok(Self { options, api, standing, candidate, lease: None, trouble: watch::Sender::default() })
    }

    pub(crate) fn shown(&self) -> Elected {
        let (name, leadership) = (self.options.name.clone(), self.leadership());
        Elected { name, leadership, trouble: self.trouble.subscribe() }
    }

    /// Whether this process leads.
    pub fn leadership(&self) -> Leadership {
        Leadership::new(self.standing.subscribe())
    }

    /// Takes part until it is told to stop; then gives the lease back, so that whoever comes next need not wait.
    ///
    /// The Lease is watched, so that one that is given back or left is taken at once; where that is not allowed, it is looked
    /// at every [`LeaseTimes::retry`].
    ///
    /// What was begun under the lease has to have ended before `stop` comes, or else somebody else begins beside it: a
    /// [`Manager`](crate::Manager) sees to that, and a controller that runs without one needs a stop of its own, which comes
    /// first.
    ///
    /// # Cancel safety
    /// Dropped, it leaves the lease to expire; this process counts on it until then.
    pub async fn run(mut self, stop: CancellationToken) {
        let watched = self.watch();
        let mut changes = watched.events();
        while !stop.is_cancelled() {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.go_on(&watched, &mut changes) => self.publish(),
            }
        }
        self.standing.send_replace(Standing::Over);
        self.release().await;
        watched.stop().await;
    }

    /// An informer of nothing but the Lease. It ends with whoever holds it and its events.
    fn watch(&self) -> Informer<Lease> {
        let source = ListWatch::new(self.api.clone()).fields(&format!("metadata.name={}", self.options.name));
        // Another one in each process, and the same whenever a run is repeated.
        let mut seed = DefaultHasher::new();
        self.options.identity.hash(&mut seed);
        let options = ReflectorOptions { seed: Some(seed.finish()), ..ReflectorOptions::default() };
        let name = format!("Lease {}", self.key());
        let informer = Informer::from_source(source).name(name).reflector(options).build();
        informer.start();
        informer
    }

    fn key(&self) -> ObjectKey {
        ObjectKey::new(Some(&self.options.namespace), &self.options.name)
    }

    /// Does what is next, or waits until something changes.
    async fn go_on(&mut self, watched: &Informer<Lease>, changes: &mut EventStream<Lease>) {
        let until = match self.candidate.next(Instant::now()) {
            Next::Read => return self.read().await,
            Next::Write(write) => return self.write(write).await,
            Next::Wait(until) => until,
        };
        let is_watched = watched.has_synced();
        let look = Instant::now() + self.options.times.retry;
        tokio::select! {
            biased;
            Some(_) = changes.next() => {
                let lease = watched.lister().get_by_key(&self.key());
                if self.candidate.watched(lease.as_deref().map(record), Instant::now()) {
                    self.lease = lease.as_deref().cloned();
                }
            }
            () = sleep_until(if is_watched { until } else { until.min(look) }) => {
                if !is_watched {
                    self.candidate.doubt();
                }
            }
        }
    }

    async fn read(&mut self) {
        let sent = Instant::now();
        match timeout(self.patience(), self.api.get_opt(&self.options.name)).await {
            Ok(Ok(lease)) => {
                self.trouble.send_replace(None);
                self.candidate.read(lease.as_ref().map(record), Instant::now());
                self.lease = lease;
            }
            Ok(Err(error)) => self.failed("read", sent, &said(&error)),
            Err(elapsed) => self.failed("read", sent, &elapsed),
        }
    }

    async fn write(&mut self, write: Write) {
        let (sent, lease) = (Instant::now(), self.lease(&write));
        match timeout(self.patience(), self.send(&lease)).await {
            Ok(Ok(lease)) => {
                self.trouble.send_replace(None);
                self.candidate.wrote(record(&lease), sent, Instant::now());
                self.lease = Some(lease);
            }
            Ok(Err(error)) => self.failed("write", sent, &said(&error)),
            Err(elapsed) => self.failed("write", sent, &elapsed),
        }
    }

    /// As kube's own components have it: a server that needs longer costs the lease, and a request that is lost leaves time for
    /// another one.
    fn patience(&self) -> Duration {
        self.options.times.renew_deadline / 2
    }

    fn failed(&mut self, what: &str, sent: Instant, error: &dyn Display) {
        tracing::warn!(lease = %self.key(), %error, "can't {what} the lease");
        self.trouble.send_replace(Some(format!("can't {what} it: {error}")));
        self.candidate.failed(sent, Instant::now());
    }

    async fn send(&self, lease: &Lease) -> kube_client::Result<Lease> {
        let params = PostParams::default();
        match lease.metadata.resource_version {
            Some(_) => self.api.replace(&self.options.name, &params, lease).await,
            None => self.api.create(&params, lease).await,
        }
    }

    /// The Lease as this write makes it. Its times are for people: nobody compares them with a clock.
    fn lease(&self, write: &Write) -> Lease {
        let mut lease = self.lease.clone().unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.options.name.clone()),
                namespace: Some(self.options.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        lease.metadata.resource_version = write.over.as_ref().map(ResourceVersion::to_string);
        let spec = lease.spec.get_or_insert_default();
        let now = MicroTime(Timestamp::now());
        spec.holder_identity = Some(write.holder.clone()).filter(|holder| !holder.is_empty());
        spec.lease_duration_seconds = i32::try_from(write.duration.as_secs()).ok();
        spec.lease_transitions = Some(write.transitions);
        if write.acquires {
            spec.acquire_time = Some(now.clone());
        }
        spec.renew_time = Some(now);
        lease
    }

    /// A write that was under way may have been made: what is there is read first.
    async fn release(&mut self) {
        self.read().await;
        if let Some(write) = self.candidate.release() {
            self.write(write).await;
        }
    }

    fn publish(&self) {
        let standing = match self.candidate.leads_until(Instant::now()) {
            Some(until) => Standing::Leads(until),
            None => Standing::Follows(self.candidate.other_holder().map(str::to_owned)),
        };
        let changes = |before: &mut Standing| std::mem::replace(before, standing.clone()) != standing;
        self.standing.send_if_modified(changes);
    }
}

/// What counts of a Lease. One that says no duration, or none that can be, is taken for one that has expired.
fn record(lease: &Lease) -> Record {
    let LeaseSpec { holder_identity, lease_duration_seconds, lease_transitions, .. } =
        lease.spec.clone().unwrap_or_default();
    let seconds = lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    Record {
        version: ResourceVersion::new(lease.metadata.resource_version.as_deref().unwrap_or_default()),
        holder: holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(seconds),
        transitions: lease_transitions.unwrap_or_default(),
    }
}
