//! The name service: a service outside of the cluster with one line per request and response.

use std::{
    convert::Infallible,
    io::{BufRead as _, BufReader as StdBufReader, Write as _},
    net::{SocketAddr, TcpStream as StdTcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

use super::HOME;

/// The time until a response.
const DELAY: Duration = Duration::from_millis(20);

/// A client of the name service. The requests of the client have no time limit.
pub(super) struct Names {
    pub(super) address: SocketAddr,
    /// If true, a call blocks its thread, like the call of a client without async functions.
    pub(super) blocks: bool,
}

impl Names {
    /// Registers the name of a Website, and returns its URL.
    pub(super) async fn register(&self, website: &str) -> Result<String> {
        self.send(&format!("register {website}\n")).await
    }

    /// Removes the name of a Website.
    pub(super) async fn remove(&self, website: &str) -> Result<()> {
        self.send(&format!("remove {website}\n")).await.map(drop)
    }

    async fn send(&self, request: &str) -> Result<String> {
        let mut response = String::new();
        if self.blocks {
            let mut stream = StdTcpStream::connect(self.address)?;
            stream.write_all(request.as_bytes())?;
            StdBufReader::new(stream).read_line(&mut response)?;
        } else {
            let mut stream = TcpStream::connect(self.address).await.context("cannot connect")?;
            stream.write_all(request.as_bytes()).await?;
            BufReader::new(stream).read_line(&mut response).await?;
        }
        ensure!(!response.is_empty(), "the name service closed the connection");
        Ok(response.trim_end().to_owned())
    }
}

/// The name service.
pub(super) struct NameService {
    listener: TcpListener,
    pub(super) address: SocketAddr,
    /// If true, the service never responds to requests for the Website home.
    hangs: bool,
}

impl NameService {
    pub(super) async fn bind(hangs: bool) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Ok(Self { address: listener.local_addr()?, listener, hangs })
    }

    /// Responds to requests. Dropping the future closes all connections.
    pub(super) async fn serve(&self) -> Result<Infallible> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    connections.spawn(respond(accepted?.0, self.hangs));
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn respond(stream: TcpStream, hangs: bool) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    stream.read_line(&mut request).await?;
    if hangs && request.trim_end().ends_with(HOME) {
        // Returns when the client closes the connection.
        stream.read_line(&mut request).await?;
        return Ok(());
    }
    sleep(DELAY).await;
    let website = request.split_whitespace().nth(1).unwrap_or_default();
    stream.write_all(format!("https://web.example/{website}\n").as_bytes()).await?;
    Ok(())
}
