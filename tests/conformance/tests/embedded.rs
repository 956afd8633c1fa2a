//! The conformance checks against the embedded server: in process under a paused clock, and over TCP.

use std::net::Ipv4Addr;

use anyhow::Result;
use http::{HeaderValue, Request, header};
use kube_client::{Client, Config, client::Body};
use kube_informer_conformance::{self as conformance, Clients, Past, Target, Variant};
use kube_testserver::{Rights, Server, ServerBuilder};
use tower::ServiceExt as _;

const ADMIN: &str = "token-of-admin";
const NOBODY: &str = "token-of-nobody";
const STRANGER: &str = "token-of-no-user";

#[tokio::test(start_paused = true)]
async fn the_embedded_server_keeps_the_protocol_in_process() -> Result<()> {
    keeps_the_protocol(server(), Variant::Standard).await
}

#[tokio::test(start_paused = true)]
async fn without_watch_list_it_behaves_like_real_server_without_watch_list() -> Result<()> {
    let server = set_up(Server::builder().streaming_lists(false));
    keeps_the_protocol(server, Variant::WithoutWatchList).await
}

#[tokio::test(start_paused = true)]
async fn without_watch_cache_it_behaves_like_real_server_without_watch_cache() -> Result<()> {
    let server = set_up(Server::builder().watch_cache(false));
    keeps_the_protocol(server, Variant::WithoutWatchCache).await
}

#[tokio::test(start_paused = true)]
async fn with_shards_it_behaves_like_real_server_with_shards() -> Result<()> {
    let server = set_up(Server::builder().sharded_lists(true));
    keeps_the_protocol(server, Variant::WithShards).await
}

async fn keeps_the_protocol(server: Server, variant: Variant) -> Result<()> {
    let past = Past::write(&in_process(&server, ADMIN)).await?;
    server.compact();
    let [admin, nobody, stranger] = [ADMIN, NOBODY, STRANGER].map(|token| in_process(&server, token));
    let clients = Clients { admin, nobody, stranger };
    conformance::run(Target::new("kube-testserver in process", clients, past).set_up_as(variant)).await
}

#[tokio::test]
async fn the_embedded_server_keeps_the_protocol_over_tcp() -> Result<()> {
    let server = server();
    let listening = server.listen((Ipv4Addr::LOCALHOST, 0).into()).await?;
    let client = |token| over_tcp(&listening.url(), token);
    let past = Past::write(&client(ADMIN)?).await?;
    server.compact();
    let clients = Clients { admin: client(ADMIN)?, nobody: client(NOBODY)?, stranger: client(STRANGER)? };
    conformance::run(Target::new("kube-testserver over TCP", clients, past)).await?;
    listening.shutdown().await;
    Ok(())
}

/// Servers that break a promise, to see that the checks notice.
#[tokio::test(start_paused = true)]
async fn checks_detect_missing_behaviour() -> Result<()> {
    // Without streaming lists, users, and compaction.
    let server = Server::builder().streaming_lists(false).build();
    let past = Past::write(&in_process(&server, ADMIN)).await?;
    let client = || in_process(&server, ADMIN);
    let clients = Clients { admin: client(), nobody: client(), stranger: client() };
    let failing = conformance::failing(Target::new("a worse server", clients, past)).await;
    for check in [
        "streaming_list_is_state_and_bookmark",
        "bookmark_completes_state_of_watch_at_zero",
        "expired_token_returns_second_token",
        "exact_list_of_compacted_version_expires",
        "watch_from_compacted_version_gets_error_event",
        "unknown_token_is_rejected",
        "watch_requires_permission",
    ] {
        assert!(failing.contains(&check), "{check} holds on a server that doesn't keep it");
    }
    for check in
        ["pages_contain_state_of_first_page", "edges_are_replayed", "removal_of_kind_closes_its_watches"]
    {
        assert!(!failing.contains(&check), "{check} fails");
    }
    Ok(())
}

fn server() -> Server {
    set_up(Server::builder())
}

fn set_up(builder: ServerBuilder) -> Server {
    builder.rbac(true).user(ADMIN, "admin", Rights::All).user(NOBODY, "nobody", Rights::None).build()
}

fn in_process(server: &Server, token: &'static str) -> Client {
    let service = server.service().map_request(move |mut request: Request<Body>| {
        let credentials = HeaderValue::from_str(&format!("Bearer {token}"));
        request.headers_mut().insert(header::AUTHORIZATION, credentials.expect("tokens are ASCII"));
        request
    });
    Client::new(service, "default")
}

fn over_tcp(url: &str, token: &str) -> Result<Client> {
    let mut config = Config::new(url.parse()?);
    config.default_retry = false;
    config.auth_info.token = Some(token.to_owned().into());
    Ok(Client::try_from(config)?)
}
