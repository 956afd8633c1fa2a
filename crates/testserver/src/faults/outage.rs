//! Outages. The server rejects connections, or accepts them and does not send data.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep, sleep_until};

use crate::shutdown::closed;

/// Selects the kind of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Simulates a stopped server. All connections break, and new connections fail with "connection
    /// refused".
    ///
    /// For clients of a [`Server::service`](crate::Server::service), which have no socket, new and pending
    /// requests fail, and watches break.
    Refused,
    /// Simulates a suspended process or a hanging host. The server accepts connections, but does not
    /// send any data, also on open connections. After the outage, the server processes the requests that
    /// arrived.
    Frozen,
}

/// The delay before the server tries again to listen on an address that is in use.
const LISTEN_RETRY_DELAY: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug)]
struct CurrentOutage {
    number: u64,
    outage: Outage,
    until: Option<Instant>,
}

/// Holds the current outage. A new outage replaces the previous one.
#[derive(Debug, Default)]
pub(crate) struct Gate(watch::Sender<Outages>);

#[derive(Debug, Default)]
struct Outages {
    last: u64,
    /// The number of outages that broke all connections.
    refusals: u64,
    current: Option<CurrentOutage>,
}

impl Gate {
    pub(crate) fn close(&self, outage: Outage, until: Option<Instant>) -> u64 {
        let mut number = 0;
        self.0.send_modify(|outages| {
            outages.last += 1;
            number = outages.last;
            outages.refusals += u64::from(outage == Outage::Refused);
            outages.current = Some(CurrentOutage { number, outage, until });
        });
        number
    }

    pub(crate) fn open(&self, number: u64) {
        self.0.send_if_modified(|outages| {
            let is_current = outages.current.is_some_and(|current| current.number == number);
            if is_current {
                outages.current = None;
            }
            is_current
        });
    }

    fn current(&self) -> Option<CurrentOutage> {
        self.0.borrow().current.filter(|current| current.until.is_none_or(|until| Instant::now() < until))
    }

    pub(crate) fn now(&self) -> Option<Outage> {
        self.current().map(|current| current.outage)
    }

    /// Waits until `reached` accepts the current outage. `None` means no outage.
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

    /// Waits until the server rejects connections.
    ///
    /// # Cancel safety
    /// Cancel safe, like the other waits of the gate.
    pub(crate) async fn refused(&self) {
        self.until(|outage| outage == Some(Outage::Refused)).await;
    }

    /// Returns the number of outages that broke all connections so far.
    pub(crate) fn refusals(&self) -> u64 {
        self.0.borrow().refusals
    }

    /// Waits until another outage breaks all connections.
    pub(crate) async fn refused_since(&self, refusals: u64) {
        let refused_again = |outages: &Outages| outages.refusals != refusals;
        // The gate holds the sender, so this cannot fail.
        let _ = self.0.subscribe().wait_for(refused_again).await;
    }

    /// Waits until the server accepts connections.
    pub(crate) async fn admitted(&self) {
        self.until(|outage| outage != Some(Outage::Refused)).await;
    }

    /// Waits until the server is not frozen.
    pub(crate) async fn thawed(&self) {
        self.until(|outage| outage != Some(Outage::Frozen)).await;
    }

    /// Waits until connections are accepted again, and listens on the same address. Returns `None` if the
    /// listener shuts down first, or had no address.
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
                    Err(error) => tracing::warn!(%error, "cannot listen on the address again; retrying"),
                }
                sleep(LISTEN_RETRY_DELAY).await;
            }
        };
        tokio::select! {
            () = closed(closing) => None,
            listener = listening => Some(listener),
        }
    }

    /// Runs a future, and pauses it while the server is frozen.
    ///
    /// # Cancel safety
    /// As cancel safe as the future.
    pub(crate) async fn hold<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        loop {
            self.thawed().await;
            tokio::select! {
                biased;
                () = self.until(|outage| outage == Some(Outage::Frozen)) => {}
                output = poll_fn(|cx| future.as_mut().poll(cx)) => return output,
            }
        }
    }
}
