//! A manager with pages, and requests of its pages.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::*;

/// A response with its head.
pub(super) struct Response {
    pub(super) code: u16,
    /// The lines of the head, in lower case.
    pub(super) head: String,
    pub(super) body: String,
}

/// Sends a request with these further lines of the head.
pub(super) async fn request(address: SocketAddr, method: &str, path: &str, lines: &str) -> Response {
    let request = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("{method} {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = timeout(30 * SECOND, request).await.unwrap().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { code, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// Sends a GET request. Returns the status code and the body.
pub(super) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let response = request(address, "GET", path, "Host: localhost\r\n").await;
    (response.code, response.body)
}

/// Repeats a GET request until `is_expected` holds, for at most 30 seconds. Returns the body.
pub(super) async fn get_until(
    address: SocketAddr,
    path: &str,
    is_expected: impl Fn(u16, &str) -> bool,
) -> String {
    let request = async {
        loop {
            let (code, text) = get(address, path).await;
            if is_expected(code, &text) {
                return text;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(30 * SECOND, request).await.unwrap_or_else(|_| panic!("{path} never had the expected body"))
}

/// Creates a manager with pages and one controller. The reconcile of `bad` fails, the one of `web` succeeds.
pub(super) async fn manager_with_pages(explain_changes: bool) -> (World, SocketAddr) {
    let mut world = World::new(ManagerOptions {
        bind_address: Some(([127, 0, 0, 1], 0).into()),
        election: Some(election("first")),
        explain_changes,
        ..ManagerOptions::default()
    });
    world.create("web").await;
    world.create("bad").await;
    let controller = world.controller();
    world.manager.add_controller(controller, |request: Request<ConfigMap>| async move {
        match request.key.name() {
            "bad" => Err(Failure::terminal("the moon is in the way")),
            _ => Ok(Action::Done),
        }
    });
    let address = world.manager.local_address().unwrap();
    (world, address)
}
