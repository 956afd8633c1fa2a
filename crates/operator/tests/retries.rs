//! Tests with a client that retries requests: a guarded client and a recorder must prevent retries of writes.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{
    Api, Client, Config, Error,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    client::retry::RetryPolicy,
};
use kube_operator::{
    Election, ElectionOptions, EventRecorder, EventType, Leadership, LeaseTimes, NotLeading,
};
use kube_testserver::{Fault, RequestMatch, Server, Verb};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, ServiceBuilder, retry::RetryLayer};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a client with the retries of a client from `Config`.
fn retrying_client(server: &Server) -> Client {
    let retries = RetryLayer::new(RetryPolicy::server_retry());
    let service = ServiceBuilder::new().layer(retries).map_err(BoxError::from).service(server.service());
    Client::new(service, "default")
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}})).unwrap()
}

/// Returns the number of requests.
fn count_requests(server: &Server, verb: Verb) -> usize {
    server.journal().count(verb, "configmaps")
}

/// Returns the status code of the response.
fn code<T>(result: Result<T, Error>) -> u16 {
    match result.err().unwrap() {
        Error::Api(status) => status.code,
        error => panic!("{error}"),
    }
}

/// Faults that the client retries.
fn retryable_faults() -> [Fault; 3] {
    [
        Fault::status(429, "TooManyRequests", Some(7)),
        Fault::status(503, "ServiceUnavailable", Some(7)),
        Fault::status(504, "Timeout", None),
    ]
}

#[tokio::test(start_paused = true)]
async fn guarded_write_is_sent_once() {
    for fault in retryable_faults() {
        let server = Server::new();
        let plain = Api::<ConfigMap>::default_namespaced(retrying_client(&server));
        server.faults().times(2, &RequestMatch::verb(Verb::Create), &fault);
        plain.create(&PostParams::default(), &map("a")).await.unwrap();
        assert_eq!(count_requests(&server, Verb::Create), 3, "the client retries");

        let guarded =
            Api::<ConfigMap>::default_namespaced(Leadership::always().guard(retrying_client(&server)));
        let _busy = server.faults().always(RequestMatch::any(), fault);
        let expected = code(guarded.create(&PostParams::default(), &map("b")).await);
        assert!([429, 503, 504].contains(&expected), "{expected}");
        let patch = Patch::Merge(json!({"data": {"a": "b"}}));
        let codes = [
            code(guarded.patch("a", &PatchParams::default(), &patch).await),
            code(guarded.replace("a", &PostParams::default(), &map("a")).await),
            code(guarded.delete("a", &DeleteParams::default()).await),
        ];
        assert_eq!(codes, [expected; 3]);
        sleep(3600 * SECOND).await;
        let verbs = [Verb::Create, Verb::Patch, Verb::Update, Verb::Delete];
        assert_eq!(verbs.map(|verb| count_requests(&server, verb)), [4, 1, 1, 1]);
    }
}

#[tokio::test(start_paused = true)]
async fn guarded_read_is_retried() {
    for fault in retryable_faults() {
        let server = Server::new();
        let guarded =
            Api::<ConfigMap>::default_namespaced(Leadership::always().guard(retrying_client(&server)));
        guarded.create(&PostParams::default(), &map("a")).await.unwrap();
        server.faults().times(2, &RequestMatch::verb(Verb::Get), &fault);
        guarded.get("a").await.unwrap();
        assert_eq!(count_requests(&server, Verb::Get), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn pending_retry_is_not_sent_after_leadership_is_lost() {
    let server = Server::new();
    let options = ElectionOptions {
        namespace: "default".to_owned(),
        name: "operator".to_owned(),
        identity: "me".to_owned(),
        times: LeaseTimes::default(),
    };
    let election = Election::new(Client::new(server.service(), "default"), options).unwrap();
    let (leadership, stop) = (election.leadership(), CancellationToken::new());
    let election = tokio::spawn(election.run(stop.clone()));
    leadership.acquired().await;
    let maps = Api::<ConfigMap>::default_namespaced(leadership.guard(retrying_client(&server)));

    let disconnected = server.faults().always(RequestMatch::any().resource("leases"), Fault::Hang);
    server
        .faults()
        .next(RequestMatch::verb(Verb::Create), Fault::status(503, "ServiceUnavailable", Some(60)));
    let writing = maps.clone();
    let writing = tokio::spawn(async move { code(writing.create(&PostParams::default(), &map("a")).await) });
    leadership.lost().await;
    sleep(3600 * SECOND).await;
    assert_eq!((count_requests(&server, Verb::Create), writing.await.unwrap()), (1, 503));

    let Error::Service(error) = maps.create(&PostParams::default(), &map("a")).await.unwrap_err() else {
        panic!("the write was sent");
    };
    assert!(error.downcast_ref::<NotLeading>().is_some(), "{error}");
    assert_eq!(count_requests(&server, Verb::Create), 1);
    drop(disconnected);
    stop.cancel();
    election.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn recorder_tries_twelve_times_despite_client_retries() {
    for fault in retryable_faults() {
        for guarded in [false, true] {
            let server = Server::new();
            let client = retrying_client(&server);
            let client = if guarded { Leadership::always().guard(client) } else { client };
            let stop = CancellationToken::new();
            let (recorder, writer) =
                EventRecorder::new(client, "example.com/shop", "shop-0", stop.clone()).unwrap();
            let writing = tokio::spawn(writer);
            let _busy =
                server.faults().always(RequestMatch::verb(Verb::Create).resource("events"), fault.clone());
            recorder.event(&map("a"), EventType::Normal, "Tested", "Test", "");
            while recorder.status().waiting > 0 {
                sleep(SECOND).await;
            }
            let tries = server.journal().count(Verb::Create, "events");
            assert_eq!((recorder.status().failed, tries), (1, 12), "{fault:?} guarded: {guarded}");
            stop.cancel();
            writing.await.unwrap();
        }
    }
}

/// Uses a socket and therefore no paused clock. All waits are short.
#[tokio::test]
async fn guard_works_with_default_client_stack() {
    let server = Server::builder().require_token(false).build();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let client = Client::try_from(Config::new(listening.url().parse().unwrap())).unwrap();
    let plain = Api::<ConfigMap>::default_namespaced(client.clone());
    let guarded = Api::<ConfigMap>::default_namespaced(Leadership::always().guard(client));
    let busy = Fault::status(503, "ServiceUnavailable", None);
    server.faults().next(RequestMatch::verb(Verb::Create), busy.clone());
    plain.create(&PostParams::default(), &map("a")).await.unwrap();
    assert_eq!(count_requests(&server, Verb::Create), 2, "the client retries");

    server.faults().next(RequestMatch::verb(Verb::Create), busy.clone());
    assert_eq!(code(guarded.create(&PostParams::default(), &map("b")).await), 503);
    assert_eq!(count_requests(&server, Verb::Create), 3);
    guarded.create(&PostParams::default(), &map("b")).await.unwrap();
    server.faults().next(RequestMatch::verb(Verb::Get), busy);
    guarded.get("b").await.unwrap();
    assert_eq!(count_requests(&server, Verb::Get), 2);
    listening.shutdown().await;
}
