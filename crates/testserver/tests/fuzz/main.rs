//! Whatever is sent, in whatever order: nothing panics, nothing hangs, refusals are well formed, and afterwards the
//! store still adds up. `PROPTEST_CASES` says how many sequences are tried.

mod answers;
mod bodies;
mod requests;
mod store;
mod wire;

use kube_testserver::{Clock, Server};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::requests::Asked;

/// Sequences that are tried where nothing else is said.
const CASES: u32 = 40;

fn config() -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES);
    Config { cases, failure_persistence: None, max_shrink_iters: 400, ..Config::default() }
}

/// Runs on a runtime of its own whose time is paused: where nothing happens, it passes at once.
pub(crate) fn paused<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().expect("a runtime").block_on(work)
}

/// A server with some objects, among them a CRD with a schema and one of its objects.
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
        server.create(object).expect("an object of a known kind");
    }
    server
}

async fn run(sequence: &[Asked]) {
    let server = server();
    let before = store::Picture::take(&server).await;
    for asked in sequence {
        let answer = answers::ask(&server, asked).await;
        answers::check(&answer, asked);
    }
    before.replayed_is_now(&server).await;
    store::still_works(&server).await;
}

#[test]
fn any_sequence_of_requests_leaves_a_server_that_adds_up() {
    let sequences = vec(requests::request(), 1..24);
    TestRunner::new(config())
        .run(&sequences, |sequence| {
            paused(run(&sequence));
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// Bodies that are known to be hard on parsers and on recursion.
#[test]
fn deep_and_exploding_bodies_are_taken_or_refused() {
    paused(async {
        let server = server();
        let before = store::Picture::take(&server).await;
        for (media_type, body) in bodies::hard() {
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
                    let asked = Asked::new(method, path, media_type, body.clone());
                    answers::check(&answers::ask(&server, &asked).await, &asked);
                }
            }
        }
        before.replayed_is_now(&server).await;
        store::still_works(&server).await;
    });
}

/// What is stored is what can be read: a depth that no reader takes is refused, not stored as something else.
#[test]
fn an_object_that_grows_too_deep_by_patches_stays_as_it_was() {
    paused(async {
        let server = server();
        let path = "/apis/apps/v1/namespaces/default/deployments/a";
        let copy = |n: usize| {
            let operations: Vec<Value> = (0..n)
                .map(|_| json!({"op": "copy", "from": "/metadata/annotations", "path": "/spec/x"}))
                .collect();
            Value::Array(operations).to_string()
        };
        for body in [copy(1), copy(20_000), doubling(40)] {
            let asked = Asked::new("PATCH", path, "application/json-patch+json", body.into());
            answers::check(&answers::ask(&server, &asked).await, &asked);
        }
        let object = server.get("apps/v1", "Deployment", Some("default"), "a").expect("still there");
        assert_eq!(object["metadata"]["name"], "a");
        assert!(object.to_string().len() < 4 << 20);
        store::still_works(&server).await;
    });
}

/// Each operation copies the whole spec into itself, so it doubles.
fn doubling(times: usize) -> String {
    let operations: Vec<Value> =
        (0..times).map(|at| json!({"op": "copy", "from": "/spec", "path": format!("/spec/x{at}")})).collect();
    Value::Array(operations).to_string()
}

proptest! {
    #![proptest_config(Config { cases: config().cases.div_ceil(4), ..config() })]

    #[test]
    fn junk_on_a_socket_ends_its_connection_only(junk in vec(wire::junk(), 1..8)) {
        wire::check(&junk);
    }
}
