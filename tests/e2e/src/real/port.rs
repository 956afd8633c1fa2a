//! Ports that stay reserved across restarts of a server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

/// The maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 128;

/// A loopback port that is bound with `SO_REUSEPORT` and never listened on. While no server runs, no
/// other process can get the port, and connections fail. A server that listens with `SO_REUSEPORT` gets
/// all connections.
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _socket: TcpSocket,
}

impl ReservedPort {
    /// Reserves a free port.
    ///
    /// # Errors
    ///
    /// Fails if the system has no free port.
    pub fn new() -> io::Result<Self> {
        let socket = shared((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self { address: socket.local_addr()?, _socket: socket })
    }

    /// Returns the address of the port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens on the port until the returned listener is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the system does not permit to listen.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn listen(&self) -> io::Result<TcpListener> {
        shared(self.address)?.listen(BACKLOG)
    }
}

fn shared(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn connection_fails_until_server_listens_on_reserved_port() -> io::Result<()> {
        let port = ReservedPort::new()?;
        let refused = TcpStream::connect(port.address()).await;
        assert_eq!(refused.map_err(|error| error.kind()).err(), Some(io::ErrorKind::ConnectionRefused));

        for _restart in 0..2 {
            let server = port.listen()?;
            let (accepted, connected) = tokio::join!(server.accept(), TcpStream::connect(port.address()));
            accepted?;
            connected?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn reserved_port_cannot_be_bound_without_sharing() -> io::Result<()> {
        let port = ReservedPort::new()?;
        let socket = TcpSocket::new_v4()?;
        assert!(socket.bind(port.address()).is_err());
        Ok(())
    }
}
