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
async fn without_watch_list_it_keeps_the_protocol_of_the_real_one_without() -> Result<()> {
    let server = set_up(Server::builder().streaming_lists(false));
    keeps_the_protocol(server, Variant::WithoutWatchList).await
}

#[tokio::test(start_paused = true)]
async fn without_watch_cache_it_keeps_the_protocol_of_the_real_one_without() -> Result<()> {
    let server = set_up(Server::builder().watch_cache(false));
    keeps_the_protocol(server, Variant::WithoutWatchCache).await
}

#[tokio::test(start_paused = true)]
async fn with_shards_it_keeps_the_protocol_of_the_real_one_with() -> Result<()> {
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
async fn the_checks_find_what_a_server_does_not_keep() -> Result<()> {
    // Neither streaming lists nor users, and nothing is ever forgotten.
    let server = Server::builder().streaming_lists(false).build();
    let past = Past::write(&in_process(&server, ADMIN)).await?;
    let client = || in_process(&server, ADMIN);
    let clients = Clients { admin: client(), nobody: client(), stranger: client() };
    let failing = conformance::failing(Target::new("a worse server", clients, past)).await;
    for check in [
        "a_streaming_list_is_the_state_and_its_end",
        "a_bookmark_ends_the_state_of_a_watch_at_zero",
        "an_expired_token_gives_another",
        "an_exact_list_of_a_forgotten_version_expires",
        "a_watch_from_a_forgotten_version_tells_an_error",
        "an_unknown_token_is_refused",
        "a_watch_needs_the_right_to_watch",
    ] {
        assert!(failing.contains(&check), "{check} holds on a server that doesn't keep it");
    }
    for check in
        ["pages_show_the_moment_of_the_first", "edges_are_replayed", "a_removed_kind_ends_its_watches"]
    {
        assert!(!failing.contains(&check), "{check} fails");
    }
    Ok(())
}

fn server() -> Server {
    set_up(Server::builder())
}

fn set_up(builder: ServerBuilder) -> Server {
    builder.user(ADMIN, "admin", Rights::All).user(NOBODY, "nobody", Rights::None).build()
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
