//! Ports that stay ours across restarts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A loopback port, bound with `SO_REUSEPORT` and never listened on. While no server runs, nobody else can get the
/// port, and connections to it are refused; a server that listens with `SO_REUSEPORT` gets all of them.
#[derive(Debug)]
pub(super) struct ReservedPort {
    address: SocketAddr,
    _socket: TcpSocket,
}

impl ReservedPort {
    pub(super) fn new() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseport(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self { address: socket.local_addr()?, _socket: socket })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    fn listen_like_a_server(address: SocketAddr) -> io::Result<tokio::net::TcpListener> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseport(true)?;
        socket.bind(address)?;
        socket.listen(1)
    }

    #[tokio::test]
    async fn a_reserved_port_refuses_until_a_server_shares_it() -> io::Result<()> {
        let port = ReservedPort::new()?;
        let refused = TcpStream::connect(port.address()).await;
        assert_eq!(refused.map_err(|error| error.kind()).err(), Some(io::ErrorKind::ConnectionRefused));

        for _restart in 0..2 {
            let server = listen_like_a_server(port.address())?;
            let (accepted, connected) = tokio::join!(server.accept(), TcpStream::connect(port.address()));
            accepted?;
            connected?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn who_does_not_share_cannot_take_a_reserved_port() -> io::Result<()> {
        let port = ReservedPort::new()?;
        let socket = TcpSocket::new_v4()?;
        assert!(socket.bind(port.address()).is_err());
        Ok(())
    }
}
