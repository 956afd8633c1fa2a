//! `Election`: takes part in the election that a Lease decides, and renews the lease while this process
//! is the leader.

pub(crate) mod guard;
pub(crate) mod leadership;
pub(crate) mod lease;
pub(crate) mod lease_object;
pub(crate) mod no_retry;

use std::{
    fmt::Display,
    hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::StreamExt;
use jiff::Timestamp;
use kube_client::{Api, Client, api::PostParams, core::DynamicObject};
use kube_informer::{EventStream, Informer, ListWatch, ObjectKey, ReflectorOptions, set_requested_kind};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    leadership::{LeaderState, Leadership},
    lease::{Candidate, ElectionError, LeaseTimes, LeaseWrite, NextStep},
    lease_object::{apply_write, lease_resource, next_renew_time, parse_record},
    no_retry::NoRetry,
};
use crate::{
    log_throttle::LogThrottle,
    redact::{redact, single_line},
};

/// The length of an identity in logs and errors, in characters. Other processes write the identity.
const MAX_IDENTITY_CHARS: usize = 128;

/// The message of a process that is not the leader. The holder can be the previous process of the same Pod.
const FOLLOWING: &str =
    "another process holds the lease; waiting until it is released, or not renewed for lease_duration";

/// Identifies the Lease of an election and this process, and sets the times of the election.
#[derive(Clone, Debug)]
pub struct ElectionOptions {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The identity of this process in the Lease. [`ElectionOptions::new`] creates a unique identity.
    ///
    /// The identity must be unique for each process. Two processes with the same identity would both act
    /// as the leader. A host name is not sufficient: several processes may run on one host, and a
    /// restarted process has the same host name.
    pub identity: String,
    /// The lease duration, the renew deadline and the retry period.
    pub times: LeaseTimes,
}

impl ElectionOptions {
    /// Creates options with default times and a unique identity.
    ///
    /// The identity consists of the environment variable `HOSTNAME` and a random suffix. In a Pod,
    /// `HOSTNAME` contains the name of the Pod. If `HOSTNAME` is not set, the identity starts with
    /// the name of the Lease.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let name = name.into();
        let identity = format!("{}_{}", hostname().unwrap_or_else(|| name.clone()), random_suffix());
        Self { namespace: namespace.into(), name, identity, times: LeaseTimes::default() }
    }
}

/// Returns a random text of 16 hexadecimal digits.
pub(crate) fn random_suffix() -> String {
    // The standard library seeds `RandomState` from the operating system.
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// Returns a seed for random delays. It differs between processes, and is the same when a test is repeated.
pub(crate) fn seed_of(identity: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    hasher.finish()
}

/// Returns the environment variable `HOSTNAME`. In a Pod it is the name of the Pod.
pub(crate) fn hostname() -> Option<String> {
    std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty())
}

/// Takes part in a leader election. The election starts with [`Election::run`], and
/// [`Election::leadership`] reports its result.
pub struct Election {
    options: ElectionOptions,
    api: Api<DynamicObject>,
    state: watch::Sender<LeaderState>,
    candidate: Candidate,
    /// Last observed state of the Lease. Writes keep the fields that other programs added.
    lease: Option<DynamicObject>,
    /// The renew time of the last write.
    written_at: Option<Timestamp>,
    /// The last error. A successful write clears it. An observed Lease clears it only if another process
    /// holds the lease, and the lease has not expired.
    last_error: watch::Sender<Option<String>>,
    failure_log: LogThrottle,
    failed_renewals: Arc<AtomicU64>,
}

/// State of an election, for errors, metrics and pages.
#[derive(Clone)]
pub(crate) struct ElectionView {
    /// The namespace and name of the Lease.
    pub(crate) lease: ObjectKey,
    pub(crate) leadership: Leadership,
    /// The last error. A successful write clears it. An observed Lease clears it only if another process
    /// holds the lease, and the lease has not expired.
    pub(crate) last_error: watch::Receiver<Option<String>>,
    /// The number of failed renewals. After each of them, the leader reads the Lease.
    #[cfg(feature = "metrics")]
    pub(crate) failed_renewals: Arc<AtomicU64>,
}

impl ElectionView {
    /// Returns the likely reason for the loss of the lease.
    pub(crate) fn loss_reason(&self) -> String {
        loss_reason(self.leadership.other_leader().as_deref(), self.last_error.borrow().as_deref())
    }
}

/// Returns the text of a failed request for the Lease. A Lease contains nothing confidential.
pub(crate) fn lease_error(mut error: kube_client::Error) -> String {
    if let kube_client::Error::Api(status) = &mut error {
        set_requested_kind(status, "leases");
    }
    redact(&error)
}

/// Returns the likely reason for the loss of the lease. Without an error, the process was probably paused.
fn loss_reason(other_leader: Option<&str>, last_error: Option<&str>) -> String {
    match (other_leader, last_error) {
        (Some(leader), _) => format!("{} is the leader now", single_line(leader, MAX_IDENTITY_CHARS)),
        (None, Some(error)) => format!("renewals failed: {error}"),
        (None, None) => "it expired, or another program changed the Lease; no request failed".to_owned(),
    }
}

impl Election {
    /// Creates an election. The election sends its first request in [`Election::run`].
    ///
    /// # Errors
    /// Returns an [`ElectionError`] if the identity is empty or the times are unsafe; see
    /// [`LeaseTimes::validate`].
    pub fn new(client: Client, options: ElectionOptions) -> Result<Self, ElectionError> {
        if options.identity.is_empty() {
            return Err(ElectionError::EmptyIdentity);
        }
        let times = options.times.validate()?;
        let candidate = Candidate::new(options.identity.clone(), times, Instant::now());
        let client = NoRetry::new().client(client);
        let api = Api::namespaced_with(client, &options.namespace, &lease_resource());
        let state = watch::Sender::new(LeaderState::Following(None));
        let last_error = watch::Sender::default();
        Ok(Self {
            options,
            api,
            state,
            candidate,
            lease: None,
            written_at: None,
            last_error,
            failure_log: LogThrottle::default(),
            failed_renewals: Arc::default(),
        })
    }

    pub(crate) fn view(&self) -> ElectionView {
        ElectionView {
            lease: self.key(),
            leadership: self.leadership(),
            last_error: self.last_error.subscribe(),
            #[cfg(feature = "metrics")]
            failed_renewals: Arc::clone(&self.failed_renewals),
        }
    }

    /// Returns a handle that reports whether this process is the leader.
    pub fn leadership(&self) -> Leadership {
        Leadership::new(self.state.subscribe())
    }

    /// Takes part in the election until `stop` is cancelled. Then releases the lease. Another
    /// candidate can then take the lease immediately.
    ///
    /// The election watches the Lease and takes a free lease immediately. If the watch is forbidden
    /// or fails, the election reads the Lease every [`LeaseTimes::retry_period`] instead.
    ///
    /// Before you cancel `stop`, stop all work that requires leadership. Otherwise the work
    /// overlaps with the work of the next leader. A [`Manager`](crate::Manager) ensures this order.
    /// Without a manager, use a separate stop token for each controller. Cancel that token and
    /// wait for the controller before you cancel `stop`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lease is not released, and other candidates wait until it
    /// expires. [`Leadership`] still reports this process as the leader until the renew deadline.
    pub async fn run(mut self, stop: CancellationToken) {
        let identity = single_line(&self.options.identity, MAX_IDENTITY_CHARS);
        tracing::info!(lease = %self.key(), %identity, "joined the election");
        let informer = self.start_informer();
        let mut events = informer.events();
        while !stop.is_cancelled() {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.advance(&informer, &mut events) => self.publish(),
            }
        }
        self.set_state(&LeaderState::Ended);
        self.release().await;
        informer.stop().await;
    }

    /// Starts an informer that watches only the Lease. It ends when the informer and its event stream
    /// are dropped.
    fn start_informer(&self) -> Informer<DynamicObject> {
        let source = ListWatch::dynamic(self.api.clone(), &lease_resource())
            .fields(&format!("metadata.name={}", self.options.name));
        let seed = Some(seed_of(&self.options.identity));
        let options = ReflectorOptions { seed, ..ReflectorOptions::default() };
        let name = format!("Lease {}", self.key());
        let informer = Informer::from_source(source).name(name).reflector_options(options).build();
        informer.start();
        informer
    }

    fn key(&self) -> ObjectKey {
        ObjectKey::new(Some(&self.options.namespace), &self.options.name)
    }

    /// Performs the next step of the candidate: one request, or a wait for a time or an event.
    async fn advance(&mut self, informer: &Informer<DynamicObject>, events: &mut EventStream<DynamicObject>) {
        let until = match self.candidate.next_step(Instant::now()) {
            NextStep::Read => return self.read().await,
            NextStep::Write(write) => {
                let is_renewal = !write.acquires;
                if !self.write(write).await && is_renewal {
                    self.failed_renewals.fetch_add(1, Relaxed);
                }
                return;
            }
            NextStep::Wait(until) => until,
        };
        let next_poll = Instant::now() + self.options.times.retry_period;
        tokio::select! {
            biased;
            Some(_) = events.next() => {
                let lease = informer.lister().get_by_key(&self.key());
                if self.candidate.on_watch_event(lease.as_deref().map(parse_record), Instant::now()) {
                    self.lease = lease.as_deref().cloned();
                    self.clear_error_as_follower();
                }
            }
            () = sleep_until(until.min(next_poll)) => {
                // Permission to watch can be revoked at any time, and then no more events arrive.
                if !informer.has_synced() || informer.reflector_status().borrow().failing.is_some() {
                    self.candidate.require_reread();
                }
            }
        }
    }

    async fn read(&mut self) {
        let sent = Instant::now();
        match timeout(self.request_timeout(), self.api.get_opt(&self.options.name)).await {
            Ok(Ok(lease)) => {
                self.candidate.on_read(lease.as_ref().map(parse_record), Instant::now());
                self.lease = lease;
                self.clear_error_as_follower();
            }
            Ok(Err(error)) => self.request_failed("read", sent, &lease_error(error)),
            Err(_) => self.request_failed("read", sent, &self.timeout_text()),
        }
    }

    /// Sends a write of the Lease. Returns whether it succeeded.
    async fn write(&mut self, write: LeaseWrite) -> bool {
        let (sent, lease) = (Instant::now(), self.next_lease(&write));
        match timeout(self.request_timeout(), self.send(&lease)).await {
            Ok(Ok(lease)) => {
                self.last_error.send_replace(None);
                self.candidate.on_written(parse_record(&lease), sent, Instant::now());
                self.lease = Some(lease);
                return true;
            }
            // Another process has written the Lease. The next step reads it.
            Ok(Err(kube_client::Error::Api(status)))
                if status.is_conflict() || status.is_already_exists() =>
            {
                tracing::debug!(lease = %self.key(), "the Lease was changed by another process");
                self.candidate.on_failure(sent, Instant::now());
            }
            Ok(Err(error)) => self.request_failed("write", sent, &lease_error(error)),
            Err(_) => self.request_failed("write", sent, &self.timeout_text()),
        }
        false
    }

    /// Returns half of the renew deadline, like the components of Kubernetes. A lost request then
    /// leaves time for a retry.
    fn request_timeout(&self) -> Duration {
        self.options.times.renew_deadline / 2
    }

    fn timeout_text(&self) -> String {
        format!("no response within {:?}", self.request_timeout())
    }

    /// Clears the last error if another process holds a lease that has not expired. Otherwise, this process
    /// must write the Lease, and the error of the last write stays.
    fn clear_error_as_follower(&self) {
        if self.candidate.held_by_other().is_some() && !self.candidate.other_has_expired() {
            self.last_error.send_replace(None);
        }
    }

    fn request_failed(&mut self, verb: &str, sent: Instant, error: &dyn Display) {
        let (now, text) = (Instant::now(), Some(format!("cannot {verb} the Lease: {error}")));
        if self.last_error.send_replace(text.clone()) != text {
            self.failure_log.reset();
        }
        if let Some(suppressed) = self.failure_log.allow(now) {
            tracing::warn!(lease = %self.key(), %error, suppressed, "cannot {verb} the Lease");
        }
        self.candidate.on_failure(sent, now);
    }

    async fn send(&self, lease: &DynamicObject) -> kube_client::Result<DynamicObject> {
        let params = PostParams::default();
        match lease.metadata.resource_version {
            Some(_) => self.api.replace(&self.options.name, &params, lease).await,
            None => self.api.create(&params, lease).await,
        }
    }

    /// Returns the Lease object that `write` sends.
    fn next_lease(&mut self, write: &LeaseWrite) -> DynamicObject {
        let now = next_renew_time(self.written_at, Timestamp::now());
        self.written_at = Some(now);
        let new =
            || DynamicObject::new(&self.options.name, &lease_resource()).within(&self.options.namespace);
        apply_write(self.lease.clone().unwrap_or_else(new), write, now)
    }

    /// Reads the Lease first, because a write in flight may have been applied. Then releases it.
    async fn release(&mut self) {
        self.read().await;
        let Some(write) = self.candidate.release() else { return };
        let lease = self.key();
        if self.write(write).await {
            tracing::info!(%lease, "released the lease");
        } else {
            let expires_after = self.options.times.lease_duration;
            tracing::warn!(%lease, ?expires_after, "lease was not released; other candidates wait until it expires");
        }
    }

    fn publish(&self) {
        let now = Instant::now();
        let state = match (self.candidate.leads_until(now), self.candidate.other_holder()) {
            (Some(until), _) => LeaderState::Leading(until),
            (None, Some(holder)) if self.candidate.other_has_expired() => {
                LeaderState::Expired(holder.to_owned())
            }
            (None, holder) => LeaderState::Following(holder.map(str::to_owned)),
        };
        self.set_state(&state);
    }

    fn set_state(&self, state: &LeaderState) {
        let mut before = state.clone();
        self.state.send_if_modified(|current| {
            before = std::mem::replace(current, state.clone());
            before != *state
        });
        self.log_change(&before, state);
    }

    /// Logs the changes that show which process is the leader. Does not log renewals.
    fn log_change(&self, before: &LeaderState, after: &LeaderState) {
        let lease = self.key();
        let other = |state: &LeaderState| match state {
            LeaderState::Following(Some(holder)) | LeaderState::Expired(holder) => {
                Some(single_line(holder, MAX_IDENTITY_CHARS))
            }
            _ => None,
        };
        match (before, after) {
            (LeaderState::Leading(_), LeaderState::Following(_) | LeaderState::Expired(_)) => {
                let leader =
                    if let LeaderState::Following(holder) = after { holder.as_deref() } else { None };
                let reason = loss_reason(leader, self.last_error.borrow().as_deref());
                tracing::warn!(%lease, %reason, "lost the lease");
            }
            (LeaderState::Leading(_), LeaderState::Leading(_)) => {}
            (_, LeaderState::Leading(_)) => match other(before) {
                // A released lease has no holder.
                Some(previous) => {
                    tracing::info!(%lease, %previous, "became the leader; the previous leader did not renew the lease");
                }
                None => tracing::info!(%lease, "became the leader"),
            },
            _ => {
                if let Some(leader) = other(after)
                    && other(before).as_ref() != Some(&leader)
                {
                    let record = self.candidate.held_by_other();
                    let renewed = record.map(|record| &*record.renewed);
                    let lease_duration = record.map(|record| tracing::field::debug(record.duration));
                    tracing::info!(%lease, %leader, renewed, lease_duration, "{FOLLOWING}");
                }
            }
        }
    }
}
