//! `Leadership`: whether this process may act, by its own clock; and a client that writes nothing when it may not.

use http::{Method, Request};
use kube_client::{Client, client::Body};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tower::BoxError;

use super::no_retry::NoRetry;

/// What is known of one's own lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There is no election: this one always leads.
    Alone,
    /// It counts on the lease until then, unless that is renewed before.
    Leads(Instant),
    /// Somebody else has it, if that is known.
    Follows(Option<String>),
    /// It takes part no more.
    Over,
}

/// Whether this process may act. Clones ask about the same lease.
///
/// Every answer is of one's own clock at that moment and needs no task to have run: a process that was paused and goes on
/// after its lease has expired leads no more from its first instruction on. That clock is the system's monotonic one
/// (`CLOCK_MONOTONIC` on Linux), which may stand still while a machine is suspended as a whole, as a virtual one that is saved
/// or migrated: its process still counts on what was left of the lease when it goes on, whoever leads by then.
#[derive(Clone, Debug)]
pub struct Leadership {
    standing: watch::Receiver<Standing>,
}

/// A write was not sent, since this process does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sent: this process does not hold the lease")]
pub struct NotLeading;

/// The lease has expired while a write was on its way. It was given up where it was: it may have been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("given up on its way, and perhaps made: the lease of this process has expired meanwhile")]
pub struct LeaseExpired;

impl Leadership {
    pub(crate) fn new(standing: watch::Receiver<Standing>) -> Self {
        Self { standing }
    }

    /// That of a process without an election.
    pub fn always() -> Self {
        Self { standing: watch::channel(Standing::Alone).1 }
    }

    /// Whether this process leads now.
    pub fn is_leader(&self) -> bool {
        match *self.standing.borrow() {
            Standing::Alone => true,
            Standing::Leads(until) => Instant::now() < until,
            Standing::Follows(_) | Standing::Over => false,
        }
    }

    /// This process takes part in the election no more.
    pub(crate) fn is_over(&self) -> bool {
        *self.standing.borrow() == Standing::Over
    }

    /// Who leads, if that is somebody else and known.
    pub fn other_leader(&self) -> Option<String> {
        match &*self.standing.borrow() {
            Standing::Follows(holder) => holder.clone(),
            Standing::Alone | Standing::Leads(_) | Standing::Over => None,
        }
    }

    /// Returns when this process leads; `false` if it never will, as the election has ended.
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn acquired(&self) -> bool {
        let leads = |standing: &Standing| match *standing {
            Standing::Alone | Standing::Over => true,
            Standing::Leads(until) => Instant::now() < until,
            Standing::Follows(_) => false,
        };
        let mut changes = self.standing.clone();
        changes.wait_for(leads).await.is_ok_and(|standing| *standing != Standing::Over)
    }

    /// Returns when this process leads no more, at once if it does not. Never where there is no election.
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn lost(&self) {
        let mut changes = self.standing.clone();
        loop {
            let until = match *changes.borrow_and_update() {
                Standing::Alone => break,
                Standing::Leads(until) if Instant::now() < until => until,
                Standing::Leads(_) | Standing::Follows(_) | Standing::Over => return,
            };
            tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() {
                    sleep_until(until).await; // nobody is left who could renew it
                },
                () = sleep_until(until) => {}
            }
        }
        std::future::pending::<()>().await;
    }

    /// The same client, but for writes: they are sent only while this process leads, and fail with [`NotLeading`]
    /// otherwise. One that is on its way when the lease expires is given up with [`LeaseExpired`]: what has not left by then, as it
    /// waits for a connection or for credentials, never will. A connection asks once more when it takes the body, so that nothing
    /// leaves a process that was paused on the way there; a write without a body, of which kube-client has none, is not asked
    /// for there.
    ///
    /// Each is sent once, also by a client that has retries, as kube-client's own has them unless it is told otherwise: a retry
    /// would be sent without asking, at a time that the server says. So what is answered with 429, 503 or 504 fails with that;
    /// who wants another try asks again, which a reconciler does by failing, and it is looked again who leads. Reads
    /// have the retries of the client.
    ///
    /// Whatever is no GET, HEAD or OPTIONS counts as a write. `exec`, `attach` and `port-forward` are GETs, and pass.
    ///
    /// # Panics
    /// Outside of a runtime, as `Client::new`.
    pub fn guard(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let (leadership, no_retry) = (self.clone(), NoRetry::of_leader(self.clone()));
        let send = tower::service_fn(move |request: Request<Body>| {
            let (client, leadership, no_retry) = (client.clone(), leadership.clone(), no_retry.clone());
            async move {
                if !is_write(request.method()) {
                    return Ok::<_, BoxError>(client.send(request).await?);
                }
                let request = no_retry.of(request).await?;
                // After the last wait of ours.
                if !leadership.is_leader() {
                    return Err(NotLeading.into());
                }
                tokio::select! {
                    biased;
                    () = leadership.lost() => Err(LeaseExpired.into()),
                    answer = client.send(request) => Ok(answer?),
                }
            }
        });
        Client::new(send, namespace)
    }
}

fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
