//! Random request sequences. The server must not panic or hang, errors must be well formed, and the
//! storage must stay consistent. `PROPTEST_CASES` sets the number of sequences.

mod bodies;
mod requests;
mod responses;
mod storage;
mod wire;

use kube_testserver::{Clock, Server};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::requests::FuzzRequest;

/// The default number of sequences.
const DEFAULT_CASES: u32 = 40;

fn config() -> Config {
    let cases =
        std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_CASES);
    Config { cases, failure_persistence: None, max_shrink_iters: 400, ..Config::default() }
}

/// Runs a future on a new runtime with paused time. Time advances when all tasks are idle.
pub(crate) fn with_paused_time<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().expect("a runtime").block_on(work)
}

/// Creates a server with some objects, including a CRD with a schema and one custom resource.
fn server() -> Server {
    let clock = Clock::Fixed("2026-11-21T02:25:40Z".parse().expect("a timestamp"));
    let server = Server::builder().clock(clock).build();
    let meta = |name: &str| json!({"name": name, "namespace": "default", "labels": {"app": name}});
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "r"}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
               "metadata": {"name": "widgets.example.com"}, "spec": bodies::crd_spec()}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("a"), "data": {"k": "v"}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta("a"),
               "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("a"), "spec": bodies::deployment()}),
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta("a"), "spec": {"size": 1}}),
    ];
    for object in objects {
        server.create(&object).expect("an object of a served kind");
    }
    server
}

async fn run(sequence: &[FuzzRequest]) {
    let server = server();
    let before = storage::StorageSnapshot::take(&server).await;
    for request in sequence {
        let response = responses::send(&server, request).await;
        responses::check(&response, request);
    }
    before.check_replay(&server).await;
    storage::check_writes(&server).await;
}

#[test]
fn any_request_sequence_keeps_the_storage_consistent() {
    let sequences = vec(requests::request(), 1..24);
    TestRunner::new(config())
        .run(&sequences, |sequence| {
            with_paused_time(run(&sequence));
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// Bodies that are difficult for parsers and for recursion.
#[test]
fn deep_and_expanding_bodies_do_not_crash_the_server() {
    with_paused_time(async {
        let server = server();
        let before = storage::StorageSnapshot::take(&server).await;
        for (media_type, body) in bodies::difficult() {
            for (method, path) in [
                ("POST", "/api/v1/namespaces/default/configmaps"),
                ("POST", "/apis/example.com/v1/namespaces/default/widgets"),
                ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
                ("PUT", "/api/v1/namespaces/default/configmaps/a"),
                ("PATCH", "/api/v1/namespaces/default/configmaps/a"),
                ("PATCH", "/apis/apps/v1/namespaces/default/deployments/a?fieldManager=m"),
                ("PATCH", "/apis/example.com/v1/namespaces/default/widgets/a?fieldManager=m&force=true"),
                ("PATCH", "/apis/example.com/v1/namespaces/default/widgets/a/status?fieldManager=m"),
                ("DELETE", "/api/v1/namespaces/default/configmaps/nosuch"),
            ] {
                let is_patch = media_type.contains("patch");
                if is_patch == (method == "PATCH") {
                    let request = FuzzRequest::new(method, path, media_type, body.clone());
                    responses::check(&responses::send(&server, &request).await, &request);
                }
            }
        }
        before.check_replay(&server).await;
        storage::check_writes(&server).await;
    });
}

/// Objects that are too deep to be read are rejected.
#[test]
fn patches_that_nest_too_deeply_leave_the_object_unchanged() {
    with_paused_time(async {
        let server = server();
        let path = "/apis/apps/v1/namespaces/default/deployments/a";
        let copy = |n: usize| {
            let operations: Vec<Value> = (0..n)
                .map(|_| json!({"op": "copy", "from": "/metadata/annotations", "path": "/spec/x"}))
                .collect();
            Value::Array(operations).to_string()
        };
        for body in [copy(1), copy(20_000), doubling(40), moving(20), moving(2_000)] {
            let request = FuzzRequest::new("PATCH", path, "application/json-patch+json", body.into());
            responses::check(&responses::send(&server, &request).await, &request);
        }
        let object =
            server.get_untyped("apps/v1", "Deployment", Some("default"), "a").expect("the existing object");
        assert_eq!(object["metadata"]["name"], "a");
        assert!(object.to_string().len() < 4 << 20);
        storage::check_writes(&server).await;
    });
}

/// Creates operations that copy the entire spec into itself. Each operation doubles its size.
fn doubling(times: usize) -> String {
    let operations: Vec<Value> =
        (0..times).map(|at| json!({"op": "copy", "from": "/spec", "path": format!("/spec/x{at}")})).collect();
    Value::Array(operations).to_string()
}

/// Creates operations that move each value into the innermost level of the other one. Each round would add
/// 100 levels.
fn moving(rounds: usize) -> String {
    let nested = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
    let inner = format!("/spec/x{}", "/a".repeat(100));
    let operations: Vec<Value> = (0..rounds)
        .flat_map(|_| {
            [
                json!({"op": "add", "path": "/spec/x", "value": nested}),
                json!({"op": "move", "from": "/spec/y", "path": inner}),
                json!({"op": "move", "from": "/spec/x", "path": "/spec/y"}),
            ]
        })
        .collect();
    let start = json!({"op": "add", "path": "/spec/y", "value": 1});
    Value::Array([vec![start], operations].concat()).to_string()
}

proptest! {
    #![proptest_config(Config { cases: config().cases.div_ceil(4), ..config() })]

    #[test]
    fn invalid_http_closes_only_its_connection(connections in vec(wire::invalid_http(), 1..8)) {
        wire::check(&connections);
    }
}
