//! What the code of docs/faults.md runs on; the page itself is compiled and run as tests of this module.

use std::future::Future;

pub use std::time::Duration;

pub use jiff::SignedDuration;
pub use kube_client::Client;
pub use kube_testserver::{
    Clock, Cut, Disruption, Fault, Lag, Match, Outage, Outcome, Plan, Replicas, Server, Status,
    StreamingLists, Turn, Verb,
};

use http_body_util::{BodyExt as _, Full};
use serde_json::json;

/// The page, as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/faults.md")]
pub struct Page;

/// Runs a piece of the page on a server with the ConfigMaps `a`, `b` and `c`, with paused time.
///
/// # Panics
/// If the piece fails.
pub fn run<F>(piece: impl FnOnce(Server) -> F)
where
    F: Future<Output = anyhow::Result<()>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime can be built").block_on(async {
        let server = Server::new();
        server
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "r"}}))
            .expect("created");
        for name in ["a", "b", "c"] {
            let metadata = json!({"name": name, "namespace": "r"});
            server
                .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
                .expect("created");
        }
        if let Err(error) = piece(server).await {
            panic!("{error}");
        }
    });
}

/// Lists the ConfigMaps and gives the HTTP status.
///
/// # Panics
/// If the connection breaks.
pub async fn list(server: &Server) -> u16 {
    let request = http::Request::get("/api/v1/namespaces/r/configmaps").body(Full::<bytes::Bytes>::default());
    let answer = server.service().answer(request.expect("a request")).await.expect("an answer");
    let code = answer.status().as_u16();
    answer.into_body().collect().await.expect("a whole body");
    code
}

/// Lists so often.
///
/// # Panics
/// If the connection breaks.
pub async fn codes(server: &Server, count: usize) -> Vec<u16> {
    let mut codes = Vec::new();
    for _ in 0..count {
        codes.push(list(server).await);
    }
    codes
}
