//! A process: a separate runtime with a separate clock. The clock advances also while the process is paused.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use fastrand::Rng;
use futures_util::FutureExt;
use http::{Method, Request};
use kube_client::{Client, client::Body};
use kube_operator::{Leadership, LeaseTimes, ManagerError};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot},
    task::{JoinHandle, yield_now},
    time::{Instant, advance},
};
use tokio_util::sync::CancellationToken;

use crate::{
    judge::{Coverage, Judge},
    network::{Network, NetworkResponse},
    operator,
};

/// Capacity of the queue between the client and the connection.
const QUEUE_CAPACITY: usize = 64;

/// State that a process and the simulation share. Clones share this state.
#[derive(Clone)]
pub(crate) struct ProcessContext {
    pub(crate) identity: Arc<str>,
    pub(crate) judge: Arc<Judge>,
    pub(crate) leadership: Arc<OnceLock<Leadership>>,
    /// End of the lease by the documented rule: the renew deadline after the send time of the last
    /// accepted write.
    lease: Arc<Mutex<Option<Instant>>>,
    /// Until this time, a reconcile is expected soon. The last reconcile requested it, and it waits for
    /// the cache.
    pub(crate) reconciles_soon: Arc<Mutex<Option<Instant>>>,
}

impl ProcessContext {
    pub(crate) fn has_lease(&self) -> bool {
        self.lease.lock().is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn reconciles_soon(&self) -> bool {
        self.reconciles_soon.lock().is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.leadership.get().is_some_and(Leadership::is_leader)
    }

    /// Checks that this process may start a reconcile or send a write now.
    pub(crate) fn check_action(&self, action: &str) {
        let (identity, judge) = (&self.identity, &self.judge);
        if !self.has_lease() {
            judge.violation(format!("{identity}: {action} after its lease has expired by its own clock"));
        }
        if !self.is_leader() {
            judge.violation(format!("{identity}: {action} while it is not the leader"));
        }
        if judge.holder().as_deref() != Some(&**identity) {
            judge.violation(format!(
                "{identity}: {action} while the Lease has the holder {:?}",
                judge.holder()
            ));
        }
    }
}

type PendingRequest = (Request<Body>, oneshot::Sender<(Option<Instant>, oneshot::Receiver<NetworkResponse>)>);

pub(crate) struct Process {
    pub(crate) me: ProcessContext,
    pub(crate) stop: CancellationToken,
    runtime: Runtime,
    task: JoinHandle<Result<(), ManagerError>>,
    calls: mpsc::WeakSender<PendingRequest>,
    /// Number of polls between two turns of the event loop.
    polls_per_turn: u32,
}

impl Process {
    /// Starts a process. If `is_guarded` is false, it writes through a client without a leadership check.
    pub(crate) fn start(
        identity: &str,
        judge: &Arc<Judge>,
        network: &Network,
        is_guarded: bool,
        mut rng: Rng,
    ) -> Self {
        // The event loop handles timers and other threads after each poll, or only after many polls.
        let polls_per_turn = [1, 8, 61][rng.usize(..3)];
        let mut builder = Builder::new_current_thread();
        let runtime =
            builder.enable_time().start_paused(true).event_interval(polls_per_turn).build().unwrap();
        let inside = runtime.enter();
        let (judge, stop) = (Arc::clone(judge), CancellationToken::new());
        let (leadership, lease, reconciles_soon) = Default::default();
        let me = ProcessContext { identity: identity.into(), judge, leadership, lease, reconciles_soon };
        let (calls, queue) = mpsc::channel(QUEUE_CAPACITY);
        let (weak, client) = (calls.downgrade(), client(me.clone(), calls));
        tokio::spawn(run_connection(me.clone(), queue, network.clone()));
        let task = tokio::spawn(operator::run(me.clone(), client, is_guarded, stop.clone(), rng));
        drop(inside);
        Self { me, stop, runtime, task, calls: weak, polls_per_turn }
    }

    /// Advances the clock without polling tasks.
    pub(crate) fn advance_clock(&self, by: Duration) {
        let _inside = self.runtime.enter();
        // The first poll sets the clock.
        let _set = advance(by).now_or_never();
    }

    /// Polls the tasks about this many times.
    pub(crate) fn poll_tasks(&self, polls: u32) {
        self.runtime.block_on(async {
            for _ in 0..polls.div_ceil(self.polls_per_turn) {
                yield_now().await;
            }
        });
    }

    pub(crate) fn with_context<T>(&self, read: impl FnOnce(&ProcessContext) -> T) -> T {
        let _inside = self.runtime.enter();
        read(&self.me)
    }

    /// Returns whether a request waits for the connection.
    pub(crate) fn has_unsent_requests(&self) -> bool {
        self.calls.upgrade().is_some_and(|calls| calls.capacity() < QUEUE_CAPACITY)
    }

    pub(crate) fn take_result(&mut self) -> Option<Result<(), ManagerError>> {
        let _inside = self.runtime.enter();
        (&mut self.task).now_or_never().map(Result::unwrap)
    }
}

/// Returns a client that passes requests to the task of a connection, like the client of kube-client.
fn client(me: ProcessContext, calls: mpsc::Sender<PendingRequest>) -> Client {
    let send = tower::service_fn(move |request: Request<Body>| {
        let (me, calls) = (me.clone(), calls.clone());
        async move {
            let (reply, sent) = oneshot::channel();
            calls.send((request, reply)).await.map_err(|_| "no connection")?;
            let (renews, response) = sent.await?;
            let response = response.await??;
            if let Some(sent) = renews.filter(|_| response.status().is_success()) {
                *me.lease.lock() = Some(sent + LeaseTimes::default().renew_deadline);
            }
            Ok::<_, crate::network::BoxError>(response)
        }
    });
    Client::new(send, "default")
}

/// Sends requests one by one, like hyper. A request is skipped if its caller was dropped or its body fails.
async fn run_connection(me: ProcessContext, mut queue: mpsc::Receiver<PendingRequest>, network: Network) {
    while let Some((request, reply)) = queue.recv().await {
        if reply.is_closed() {
            continue;
        }
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect_bytes().await else { continue };
        let path = head.uri.path();
        let mut renews = None;
        if head.method != Method::GET && path.contains("/leases") {
            let lease: Value = serde_json::from_slice(&body).unwrap();
            let is_mine = lease["spec"]["holderIdentity"] == *me.identity;
            renews = is_mine.then(Instant::now);
            if !is_mine {
                *me.lease.lock() = None;
            }
        } else if head.method != Method::GET && !is_allowed_without_lease(path) {
            me.judge.count(Coverage::Write);
            me.check_action(&format!("{} {path} was sent", head.method));
        }
        let (sender, response) = oneshot::channel();
        network.deliver(Request::from_parts(head, body), sender);
        // The caller may have been dropped.
        let _gone = reply.send((renews, response));
    }
}

/// Reviews change nothing, and every process may report events.
fn is_allowed_without_lease(path: &str) -> bool {
    path.ends_with("selfsubjectaccessreviews") || path.contains("/events")
}
