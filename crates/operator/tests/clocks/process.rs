//! One process: a runtime of its own, and with it a clock of its own, which goes on while nothing of the process does.

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
    judge::{Judge, Met},
    network::{Answer, Network},
    operator,
};

/// Requests that wait for the connection's task.
const QUEUE: usize = 64;

/// What a process knows of itself. Clones are of the same process.
#[derive(Clone)]
pub(crate) struct Me {
    pub(crate) identity: Arc<str>,
    pub(crate) judge: Arc<Judge>,
    pub(crate) leadership: Arc<OnceLock<Leadership>>,
    /// Until when its lease holds, as the documented rule has it: the deadline after the sending of the last write of the
    /// Lease that was accepted.
    lease: Arc<Mutex<Option<Instant>>>,
    /// Until then a run is near: one has ended that has asked for another one soon, which waits until the cache shows what was written.
    pub(crate) runs_soon: Arc<Mutex<Option<Instant>>>,
}

impl Me {
    pub(crate) fn has_lease(&self) -> bool {
        self.lease.lock().is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn runs_soon(&self) -> bool {
        self.runs_soon.lock().is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn believes(&self) -> bool {
        self.leadership.get().is_some_and(Leadership::is_leader)
    }

    /// It starts a run or sends a write at this very moment.
    pub(crate) fn acts(&self, what: &str) {
        let (identity, judge) = (&self.identity, &self.judge);
        if !self.has_lease() {
            judge.wrong(format!("{identity}: {what} after its lease has expired by its own clock"));
        }
        if !self.believes() {
            judge.wrong(format!("{identity}: {what} while it says that it does not lead"));
        }
        if judge.holder().as_deref() != Some(&**identity) {
            judge.wrong(format!("{identity}: {what} while the Lease names {:?}", judge.holder()));
        }
    }
}

type Call = (Request<Body>, oneshot::Sender<(Option<Instant>, oneshot::Receiver<Answer>)>);

pub(crate) struct Process {
    pub(crate) me: Me,
    pub(crate) stop: CancellationToken,
    runtime: Runtime,
    task: JoinHandle<Result<(), ManagerError>>,
    calls: mpsc::WeakSender<Call>,
    /// So many polls come together.
    at_once: u32,
}

impl Process {
    /// `is_guarded` as it should be; otherwise it writes through a client that asks nobody.
    pub(crate) fn starts(
        identity: &str,
        judge: &Arc<Judge>,
        network: &Network,
        is_guarded: bool,
        mut rng: Rng,
    ) -> Self {
        // After each poll of a task it can be left alone, or it hears of time and of others only after many.
        let at_once = [1, 8, 61][rng.usize(..3)];
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).event_interval(at_once).build().unwrap();
        let inside = runtime.enter();
        let (judge, stop) = (Arc::clone(judge), CancellationToken::new());
        let (leadership, lease, runs_soon) = Default::default();
        let me = Me { identity: identity.into(), judge, leadership, lease, runs_soon };
        let (calls, queue) = mpsc::channel(QUEUE);
        let (weak, client) = (calls.downgrade(), client(me.clone(), calls));
        tokio::spawn(connection(me.clone(), queue, network.clone()));
        let task = tokio::spawn(operator::runs(me.clone(), client, is_guarded, stop.clone(), rng));
        drop(inside);
        Self { me, stop, runtime, task, calls: weak, at_once }
    }

    /// Its clock goes on, and nothing else.
    pub(crate) fn ages(&self, by: Duration) {
        let _inside = self.runtime.enter();
        // The first poll sets the clock.
        let _set = advance(by).now_or_never();
    }

    /// About so many polls of its tasks.
    pub(crate) fn goes_on(&self, polls: u32) {
        self.runtime.block_on(async {
            for _ in 0..polls.div_ceil(self.at_once) {
                yield_now().await;
            }
        });
    }

    pub(crate) fn asks<T>(&self, question: impl FnOnce(&Me) -> T) -> T {
        let _inside = self.runtime.enter();
        question(&self.me)
    }

    /// A request has been handed over and has not left yet.
    pub(crate) fn is_about_to_send(&self) -> bool {
        self.calls.upgrade().is_some_and(|calls| calls.capacity() < QUEUE)
    }

    pub(crate) fn has_ended(&mut self) -> Option<Result<(), ManagerError>> {
        let _inside = self.runtime.enter();
        (&mut self.task).now_or_never().map(Result::unwrap)
    }
}

/// A client as kube-client's own: what it sends is handed to the task of a connection.
fn client(me: Me, calls: mpsc::Sender<Call>) -> Client {
    let send = tower::service_fn(move |request: Request<Body>| {
        let (me, calls) = (me.clone(), calls.clone());
        async move {
            let (reply, sent) = oneshot::channel();
            calls.send((request, reply)).await.map_err(|_| "there is no connection")?;
            let (renews, answer) = sent.await?;
            let answer = answer.await??;
            if let Some(sent) = renews.filter(|_| answer.status().is_success()) {
                *me.lease.lock() = Some(sent + LeaseTimes::default().renew_deadline);
            }
            Ok::<_, crate::network::BoxError>(answer)
        }
    });
    Client::new(send, "default")
}

/// Writes to the wire, request by request, as hyper does: one whose caller has gone is left out, and so is one whose body fails.
async fn connection(me: Me, mut queue: mpsc::Receiver<Call>, network: Network) {
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
        } else if head.method != Method::GET && !path.ends_with("selfsubjectaccessreviews") {
            me.judge.meets(Met::Write);
            me.acts(&format!("{} {path} was sent", head.method));
        }
        let (answers, answer) = oneshot::channel();
        network.takes(Request::from_parts(head, body), answers);
        // Nobody may wait any more.
        let _gone = reply.send((renews, answer));
    }
}
