//! A proxy between clients and a server that simulates faults of the network. It forwards bytes
//! without parsing them, so TLS also works.

use std::io;
use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::real::ReservedPort;

/// The handling of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// They are carried to the server.
    Pass,
    /// Connections are accepted and forward no data, without an error. Affected connections stay in
    /// this state, as when a router has lost them.
    BlackHole,
    /// The proxy does not accept connections.
    Refuse,
}

#[derive(Clone, Copy, Debug)]
struct Orders {
    mode: Mode,
    /// Counted up whenever all open connections are to be reset.
    cuts: u64,
}

/// A TCP proxy on a reserved loopback port. When it is dropped, it resets each connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    orders: watch::Sender<Orders>,
    serving: JoinHandle<io::Result<()>>,
}

impl Proxy {
    /// Forwards connections to this server.
    ///
    /// # Errors
    ///
    /// Fails if the system has no free port.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn start(server: SocketAddr) -> io::Result<Self> {
        let port = ReservedPort::new()?;
        let address = port.address();
        let (orders, given) = watch::channel(Orders { mode: Mode::Pass, cuts: 0 });
        let listener = port.listen()?;
        let serving = tokio::spawn(serve(port, listener, server, given));
        Ok(Self { address, orders, serving })
    }

    /// Returns the address of the proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards new connections. Stalled connections stay stalled until [`cut`](Self::cut).
    pub fn pass(&self) {
        self.orders.send_modify(|orders| orders.mode = Mode::Pass);
    }

    /// Resets all open connections.
    pub fn cut(&self) {
        self.orders.send_modify(|orders| orders.cuts += 1);
    }

    /// Permanently stalls all open and new connections.
    pub fn black_hole(&self) {
        self.orders.send_modify(|orders| orders.mode = Mode::BlackHole);
    }

    /// Resets all open connections. Does not accept new connections.
    pub fn refuse(&self) {
        self.orders.send_modify(|orders| *orders = Orders { mode: Mode::Refuse, cuts: orders.cuts + 1 });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    port: ReservedPort,
    listener: TcpListener,
    server: SocketAddr,
    mut orders: watch::Receiver<Orders>,
) -> io::Result<()> {
    let mut connections = JoinSet::new();
    let mut listener = Some(listener);
    loop {
        match orders.borrow_and_update().mode {
            Mode::Refuse => listener = None,
            Mode::Pass | Mode::BlackHole if listener.is_none() => listener = Some(port.listen()?),
            Mode::Pass | Mode::BlackHole => {}
        }
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = orders.changed() => if changed.is_err() { return Ok(()) },
            accepted = accepted => {
                let (client, _) = accepted?;
                connections.spawn(carry(client, server, orders.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Forwards the bytes of one connection until the connection is closed or reset.
async fn carry(mut client: TcpStream, server: SocketAddr, mut orders: watch::Receiver<Orders>) {
    let cuts = orders.borrow_and_update().cuts;
    let mut upstream = None;
    let disturbed = |orders: &Orders| orders.cuts != cuts || orders.mode == Mode::BlackHole;
    let silent = tokio::select! {
        ordered = orders.wait_for(disturbed) => ordered.is_ok_and(|orders| orders.cuts == cuts),
        passed = pass(&mut client, &mut upstream, server) => match passed {
            Ok(()) => return,
            Err(_) => false,
        },
    };
    if silent {
        // An error means that the proxy was dropped.
        let _ = orders.wait_for(|orders| orders.cuts != cuts).await;
    }
    [Some(client), upstream].iter().flatten().for_each(reset);
}

async fn pass(
    client: &mut TcpStream,
    upstream: &mut Option<TcpStream>,
    server: SocketAddr,
) -> io::Result<()> {
    let upstream = upstream.insert(TcpStream::connect(server).await?);
    copy_bidirectional(client, upstream).await?;
    Ok(())
}

/// Resets a connection. A closed connection is not affected.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::timeout;

    use super::*;

    /// A time without expected data.
    const SILENCE: Duration = Duration::from_millis(200);

    /// A server that returns its input.
    async fn echo() -> io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        Ok(address)
    }

    async fn answers(stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(b"?").await?;
        stream.read_u8().await.map(drop)
    }

    #[tokio::test]
    async fn connections_are_forwarded_reset_stalled_and_rejected() -> io::Result<()> {
        let proxy = Proxy::start(echo().await?)?;
        let connect = || TcpStream::connect(proxy.address());
        let mut first = connect().await?;
        answers(&mut first).await?;
        proxy.cut();
        assert_eq!(first.read_u8().await.map_err(|error| error.kind()), Err(io::ErrorKind::ConnectionReset));

        let mut open = connect().await?;
        answers(&mut open).await?;
        proxy.black_hole();
        let mut new = connect().await?;
        assert!(timeout(SILENCE, answers(&mut open)).await.is_err());
        assert!(timeout(SILENCE, answers(&mut new)).await.is_err());
        proxy.pass();
        assert!(timeout(SILENCE, answers(&mut open)).await.is_err(), "a stalled connection returned data");
        answers(&mut connect().await?).await?;

        proxy.refuse();
        assert_eq!(open.read_u8().await.map_err(|error| error.kind()), Err(io::ErrorKind::ConnectionReset));
        while connect().await.is_ok() {
            tokio::task::yield_now().await;
        }
        proxy.pass();
        let mut again = connect().await;
        while again.is_err() {
            again = connect().await;
        }
        answers(&mut again?).await
    }
}
