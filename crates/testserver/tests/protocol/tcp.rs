//! A raw HTTP/1.1 client over TCP.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Connection(TcpStream);

impl Connection {
    pub(crate) async fn open(addr: SocketAddr) -> Self {
        Self(TcpStream::connect(addr).await.expect("a connection"))
    }

    pub(crate) async fn send(&mut self, path: &str) {
        self.send_text(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("an open connection");
    }

    /// Returns the next response. It ends with the final newline of its JSON, or with the last chunk.
    pub(crate) async fn response(&mut self) -> String {
        let mut text = String::new();
        let mut buffer = [0; 4096];
        while !text.ends_with("}\n") && !text.ends_with("\r\n0\r\n\r\n") {
            let count = self.0.read(&mut buffer).await.expect("a response");
            assert!(count > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        text
    }

    pub(crate) async fn get(&mut self, path: &str) -> String {
        self.send(path).await;
        self.response().await
    }

    /// Reads all data until the connection is closed or broken.
    pub(crate) async fn rest(&mut self) -> String {
        let mut read = Vec::new();
        // A broken connection also completes the read.
        let _ = self.0.read_to_end(&mut read).await;
        String::from_utf8_lossy(&read).into_owned()
    }
}
