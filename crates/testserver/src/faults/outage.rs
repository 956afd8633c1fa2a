//! A server that is not there for a while, or that is there and does nothing.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep, sleep_until};

use crate::read::open_watches::Command;
use crate::read::watch::closed;
use crate::server::Server;
use crate::state::Shared;

/// How a server is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// No process: all connections break, new ones are refused. Without sockets, requests that come or are not answered yet
    /// fail, and watches break.
    Refused,
    /// A process that is stopped, or a host that hangs: sockets are accepted and nothing is said, not on open
    /// connections either. When it is over, what was asked meanwhile is answered.
    Frozen,
}

/// Where an address is taken, it is tried again so much later.
const RETRY: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug)]
struct Current {
    number: u64,
    outage: Outage,
    until: Option<Instant>,
}

/// Whether the server is there. One outage replaces another.
#[derive(Debug)]
pub(crate) struct Gate(watch::Sender<Outages>);

#[derive(Debug, Default)]
struct Outages {
    last: u64,
    /// How often connections were broken.
    refusals: u64,
    current: Option<Current>,
}

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(Outages::default()))
    }
}

impl Gate {
    fn close(&self, outage: Outage, until: Option<Instant>) -> u64 {
        let mut number = 0;
        self.0.send_modify(|outages| {
            outages.last += 1;
            number = outages.last;
            outages.refusals += u64::from(outage == Outage::Refused);
            outages.current = Some(Current { number, outage, until });
        });
        number
    }

    fn open(&self, number: u64) {
        self.0.send_if_modified(|outages| {
            let is = outages.current.is_some_and(|current| current.number == number);
            if is {
                outages.current = None;
            }
            is
        });
    }

    fn current(&self) -> Option<Current> {
        self.0.borrow().current.filter(|current| current.until.is_none_or(|until| Instant::now() < until))
    }

    pub(crate) fn now(&self) -> Option<Outage> {
        self.current().map(|current| current.outage)
    }

    /// Waits until there is this outage (`Some`), or none of this kind (`None` for any) is left.
    async fn until(&self, reached: impl Fn(Option<Outage>) -> bool) {
        let mut changes = self.0.subscribe();
        loop {
            changes.mark_unchanged();
            let current = self.current();
            if reached(current.map(|current| current.outage)) {
                return;
            }
            let until = current.and_then(|current| current.until);
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
            }
        }
    }

    /// Waits until connections are refused.
    ///
    /// # Cancel safety
    /// This and the other waits change nothing, so they may be dropped at any time.
    pub(crate) async fn refused(&self) {
        self.until(|outage| outage == Some(Outage::Refused)).await;
    }

    /// How often connections were broken so far.
    pub(crate) fn refusals(&self) -> u64 {
        self.0.borrow().refusals
    }

    /// Waits until connections were broken once more.
    pub(crate) async fn refused_since(&self, refusals: u64) {
        let broken = |outages: &Outages| outages.refusals != refusals;
        // The sender is this gate, so this does not fail.
        let _ = self.0.subscribe().wait_for(broken).await;
    }

    /// Waits until connections are not refused.
    pub(crate) async fn admitted(&self) {
        self.until(|outage| outage != Some(Outage::Refused)).await;
    }

    /// Waits until the server is not frozen.
    pub(crate) async fn thawed(&self) {
        if self.now() == Some(Outage::Frozen) {
            self.until(|outage| outage != Some(Outage::Frozen)).await;
        }
    }

    async fn frozen(&self) {
        self.until(|outage| outage == Some(Outage::Frozen)).await;
    }

    /// Waits until connections are not refused, and listens on the same address again; `None` when the listener shuts
    /// down meanwhile, or had no address.
    pub(crate) async fn listen_again(
        &self,
        addr: io::Result<SocketAddr>,
        closing: &mut watch::Receiver<bool>,
    ) -> Option<TcpListener> {
        let addr = addr.ok()?;
        let listening = async {
            loop {
                self.admitted().await;
                match TcpListener::bind(addr).await {
                    Ok(listener) => return listener,
                    Err(error) => tracing::warn!(%error, "the address is not free"),
                }
                sleep(RETRY).await;
            }
        };
        tokio::select! {
            () = closed(closing) => None,
            listener = listening => Some(listener),
        }
    }

    /// Runs a future, but not while the server is frozen.
    ///
    /// # Cancel safety
    /// That of the future.
    pub(crate) async fn hold<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        loop {
            self.thawed().await;
            tokio::select! {
                biased;
                () = self.frozen() => {}
                output = poll_fn(|cx| future.as_mut().poll(cx)) => return output,
            }
        }
    }
}

impl Server {
    /// From now on the server is not there, until the guard is dropped. A new outage replaces the one before.
    pub fn outage(&self, outage: Outage) -> OutageGuard {
        OutageGuard { number: self.close(outage, None), shared: self.shared.clone() }
    }

    /// The same for so much of tokio's time.
    pub fn outage_for(&self, time: Duration, outage: Outage) {
        self.close(outage, Instant::now().checked_add(time));
    }

    fn close(&self, outage: Outage, until: Option<Instant>) -> u64 {
        let number = self.shared.gate.close(outage, until);
        if outage == Outage::Refused {
            self.shared.open.send_command(&Command::Abort, |_| true);
        }
        number
    }
}

/// Keeps the server away; dropping it brings it back.
#[derive(Debug)]
#[must_use = "the server is back when the guard is dropped"]
pub struct OutageGuard {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for OutageGuard {
    fn drop(&mut self) {
        self.shared.gate.open(self.number);
    }
}
