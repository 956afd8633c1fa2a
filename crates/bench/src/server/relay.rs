//! A relay of TCP connections that counts the bytes of the server, and can limit their rate.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube_client::config::Kubeconfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// The maximum number of bytes that a relay forwards at once.
const BUFFER_BYTES: usize = 64 << 10;
/// The unused time of a link that later bytes may use. This time compensates the resolution of timers.
const MAX_CREDIT: Duration = Duration::from_millis(10);

/// A running relay. It stops when this value is dropped.
pub(crate) struct Relay {
    address: SocketAddr,
    received: Arc<AtomicU64>,
    _serving: JoinSet<()>,
}

/// A link that all connections of a relay share.
struct Link {
    received: Arc<AtomicU64>,
    /// The number of bytes per second, or `None` without a limit.
    rate: Option<u64>,
    /// The time at which the link has sent all earlier bytes.
    free: Mutex<Instant>,
}

impl Relay {
    /// Starts a relay to the server of a kubeconfig. `rate` is in bytes per second.
    pub(crate) async fn start(kubeconfig: &Path, rate: Option<u64>) -> Result<Self> {
        let server: SocketAddr = server(kubeconfig)?.parse().context("the server has no address")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, received) = (listener.local_addr()?, Arc::new(AtomicU64::new(0)));
        let link = Arc::new(Link { received: Arc::clone(&received), rate, free: Mutex::new(Instant::now()) });
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                // A failed connection affects only its client.
                connections.spawn(forward(client, server, Arc::clone(&link)));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, received, _serving: serving })
    }

    /// Writes a kubeconfig whose server is this relay.
    pub(crate) fn write_kubeconfig(&self, original: &Path, file: &Path) -> Result<()> {
        let mut kubeconfig = Kubeconfig::read_from(original)?;
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            cluster.server = Some(format!("https://{}", self.address));
        }
        Ok(std::fs::write(file, serde_json::to_string(&kubeconfig)?)?)
    }

    /// Returns the number of bytes that the server has sent, including TLS.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }
}

/// Returns the host and port of the first cluster.
fn server(kubeconfig: &Path) -> Result<String> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let cluster = kubeconfig.clusters.into_iter().next().and_then(|named| named.cluster);
    let url = cluster.and_then(|cluster| cluster.server).context("the kubeconfig has no server")?;
    Ok(url.trim_start_matches("https://").to_owned())
}

async fn forward(client: TcpStream, server: SocketAddr, link: Arc<Link>) -> std::io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async {
        copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let responses = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let length = from_server.read(&mut buffer).await?;
            if length == 0 {
                return to_client.shutdown().await;
            }
            link.pass(length as u64).await;
            to_client.write_all(&buffer[..length]).await?;
        }
    };
    tokio::try_join!(requests, responses).map(drop)
}

impl Link {
    /// Waits until the link has sent these bytes.
    async fn pass(&self, bytes: u64) {
        self.received.fetch_add(bytes, Relaxed);
        let Some(rate) = self.rate else { return };
        let sent = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let earliest = Instant::now().checked_sub(MAX_CREDIT).unwrap_or(*free);
            *free = (*free).max(earliest) + Duration::from_secs_f64(bytes as f64 / rate as f64);
            *free
        };
        sleep_until(sent).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn link_sends_at_its_rate() {
        let link = Link { received: Arc::default(), rate: Some(1_000_000), free: Mutex::new(Instant::now()) };
        let begun = Instant::now();
        for _ in 0..100 {
            link.pass(10_000).await;
        }
        let took = begun.elapsed().as_secs_f64();
        assert!((0.98..1.01).contains(&took), "{took}");
        assert_eq!(link.received.load(Relaxed), 1_000_000);
    }
}
