//! `Election`: takes part in the election that a Lease of the cluster decides, and keeps the lease while it has it.

pub(crate) mod leadership;
pub(crate) mod lease;
pub(crate) mod lease_object;
pub(crate) mod no_retry;

use std::{
    fmt::Display,
    hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState},
    time::Duration,
};

use futures_util::StreamExt;
use jiff::Timestamp;
use kube_client::{Api, Client, api::PostParams, core::DynamicObject};
use kube_informer::{EventStream, Informer, ListWatch, ObjectKey, ReflectorOptions};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    leadership::{Leadership, Standing},
    lease::{Candidate, ElectionError, LeaseTimes, Next, Write},
    lease_object::{later, leases, record, written},
};
use crate::{observe::collector::Elected, redact::redact};

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
        // The standard library asks the system for what is random in it.
        let random = RandomState::new().hash_one(std::process::id());
        let identity = format!("{}_{random:016x}", host().unwrap_or_else(|| name.clone()));
        Self { namespace: namespace.into(), name, identity, times: LeaseTimes::default() }
    }
}

/// Which in a Pod is the Pod's name, if the environment tells.
pub(crate) fn host() -> Option<String> {
    std::env::var("HOSTNAME").ok().filter(|host| !host.is_empty())
}

/// A part in an election, which is taken by [`Election::run`].
pub struct Election {
    options: ElectionOptions,
    api: Api<DynamicObject>,
    standing: watch::Sender<Standing>,
    candidate: Candidate,
    /// As the candidate has seen it last: what others have put into it is kept.
    lease: Option<DynamicObject>,
    /// The time that was written last.
    written_at: Option<Timestamp>,
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
            return Err(ElectionError::EmptyIdentity);
        }
        let times = options.times.validate()?;
        let candidate = Candidate::new(options.identity.clone(), times, Instant::now());
        let api = Api::namespaced_with(client, &options.namespace, &leases());
        let standing = watch::Sender::new(Standing::Follows(None));
        let trouble = watch::Sender::default();
        Ok(Self { options, api, standing, candidate, lease: None, written_at: None, trouble })
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
    /// The Lease is watched, so that one that is given back or left is taken at once; where that is not allowed, and while it
    /// fails, it is looked at every [`LeaseTimes::retry_period`].
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
    fn watch(&self) -> Informer<DynamicObject> {
        let source = ListWatch::dynamic(self.api.clone(), &leases())
            .fields(&format!("metadata.name={}", self.options.name));
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
    async fn go_on(&mut self, watched: &Informer<DynamicObject>, changes: &mut EventStream<DynamicObject>) {
        let until = match self.candidate.next(Instant::now()) {
            Next::Read => return self.read().await,
            Next::Write(write) => return self.write(write).await,
            Next::Wait(until) => until,
        };
        let look = Instant::now() + self.options.times.retry_period;
        tokio::select! {
            biased;
            Some(_) = changes.next() => {
                let lease = watched.lister().get_by_key(&self.key());
                if self.candidate.watched(lease.as_deref().map(record), Instant::now()) {
                    self.lease = lease.as_deref().cloned();
                }
            }
            () = sleep_until(until.min(look)) => {
                // A right may be taken away at any time, and then nothing is told any more.
                if !watched.has_synced() || watched.reflector_status().borrow().failing.is_some() {
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
            Ok(Err(error)) => self.failed("read", sent, &redact(&error)),
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
            Ok(Err(error)) => self.failed("write", sent, &redact(&error)),
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

    async fn send(&self, lease: &DynamicObject) -> kube_client::Result<DynamicObject> {
        let params = PostParams::default();
        match lease.metadata.resource_version {
            Some(_) => self.api.replace(&self.options.name, &params, lease).await,
            None => self.api.create(&params, lease).await,
        }
    }

    /// The Lease as this write makes it.
    fn lease(&mut self, write: &Write) -> DynamicObject {
        let now = later(self.written_at, Timestamp::now());
        self.written_at = Some(now);
        let new = || DynamicObject::new(&self.options.name, &leases()).within(&self.options.namespace);
        written(self.lease.clone().unwrap_or_else(new), write, now)
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
