//! Whatever is asked, the answer is well formed.

use kube_testserver::Server;
use serde_json::Value;

use crate::ask::{Answer, ask, configmaps, get, server};

/// A failure is a Status with its own code, or the plain text of a path that nothing is served under.
fn check(answer: &Answer, what: &str) {
    if answer.code < 400 {
        return;
    }
    if answer.text == "404 page not found\n" {
        assert_eq!(answer.code, 404, "{what}");
        return;
    }
    let status: Value =
        serde_json::from_str(&answer.text).unwrap_or_else(|_| panic!("{what}: {}", answer.text));
    assert_eq!(status["kind"], "Status", "{what}");
    assert_eq!(status["status"], "Failure", "{what}");
    assert_eq!(status["code"], answer.code, "{what}");
    assert!(status["message"].as_str().is_some_and(|message| !message.is_empty()), "{what}");
}

const PARTS: [&str; 20] = [
    "api",
    "apis",
    "v1",
    "apps",
    "namespaces",
    "r",
    "pods",
    "configmaps",
    "c1",
    "status",
    "watch",
    "",
    "..",
    "%00",
    "%zz",
    "deployments",
    "finalize",
    "default",
    "é",
    "customresourcedefinitions",
];
const KEYS: [&str; 10] = [
    "watch",
    "resourceVersion",
    "resourceVersionMatch",
    "limit",
    "continue",
    "labelSelector",
    "fieldSelector",
    "timeoutSeconds",
    "sendInitialEvents",
    "allowWatchBookmarks",
];
const VALUES: [&str; 16] = [
    "",
    "0",
    "1",
    "true",
    "-1",
    "99999999999999999999",
    "abc",
    "Exact",
    "NotOlderThan",
    "a=b",
    "a in (b",
    "metadata.name=c1",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjMyLCJzdGFydCI6Ii9jMVx1MDAwMCJ9",
    "!!",
    "%00",
    "1000000",
];
const BODIES: [&str; 8] = [
    "",
    "{}",
    "[]",
    "null",
    "{\"metadata\":{\"name\":\"c1\"}}",
    "{\"metadata\":7}",
    "{\"metadata\":{\"labels\":{\"a\":1}}}",
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"generateName\":\"x\"},\"spec\":[],\"status\":3}",
];
const TYPES: [&str; 4] =
    ["application/json", "application/merge-patch+json", "application/json-patch+json", "text/plain"];

async fn random_request(server: &Server, rng: &mut fastrand::Rng) {
    let length = rng.usize(1..8);
    let path: String = (0..length).map(|_| format!("/{}", PARTS[rng.usize(..PARTS.len())])).collect();
    let query: Vec<String> = (0..rng.usize(..4))
        .map(|_| format!("{}={}", KEYS[rng.usize(..KEYS.len())], VALUES[rng.usize(..VALUES.len())]))
        .collect();
    let method = ["GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"][rng.usize(..8)];
    let body = BODIES[rng.usize(..BODIES.len())];
    let headers = [("content-type", TYPES[rng.usize(..TYPES.len())])];
    // Whatever was asked for, the time of a watch is bounded.
    let target = format!("{path}?timeoutSeconds=1&{}", query.join("&")).replace('é', "%C3%A9");
    let answer = ask(server, method, &target, &headers, body).await;
    check(&answer, &format!("{method} {target} {body}"));
}

#[tokio::test(start_paused = true)]
async fn any_path_and_query_gets_a_well_formed_answer() {
    let server = server();
    configmaps(&server, &["c1"]);
    let mut rng = fastrand::Rng::with_seed(11);
    for _ in 0..6_000 {
        random_request(&server, &mut rng).await;
    }
}

#[tokio::test]
async fn what_is_not_there_is_said_so() {
    let server = server();
    configmaps(&server, &[]);
    let unknown = get(&server, "/api/v1/namespaces/default/nosuch").await;
    assert_eq!(
        unknown.text,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"the server could not find the requested resource\",\"reason\":\"NotFound\",\"details\":{},\"code\":404}\n"
    );
    for path in ["/apis/nosuch.example.com/v1/things", "/nosuch"] {
        let answer = get(&server, path).await;
        assert_eq!(answer.text, "404 page not found\n");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
    // Groups that are always there know that a version is not.
    for path in ["/api/v2/pods", "/api/v2", "/apis/apps/v9", "/apis/apps/v9/x", "/api/v1/pods/a/b/c/d/e"] {
        assert_eq!(get(&server, path).await.text, unknown.text, "{path}");
    }
    let absent = get(&server, "/apis/apps/v1/namespaces/default/deployments/absent").await;
    assert_eq!(absent.message(), "deployments.apps \"absent\" not found");
    let nowhere = get(&server, "/api/v1/namespaces/nope/configmaps").await;
    assert_eq!((nowhere.code, nowhere.names().len()), (200, 0));
    assert_eq!(get(&server, "/readyz").await.text, "ok");
    assert_eq!(get(&server, "/version").await.json()["minor"], "36");
    assert_eq!(get(&server, "/api").await.json()["versions"][0], "v1");
    assert!(get(&server, "/apis").await.json()["groups"].as_array().unwrap().len() > 10);
    let large = "x".repeat(4 << 20);
    let refused = ask(&server, "POST", "/api/v1/namespaces", &[], &large).await;
    assert_eq!(refused.code, 413);
}
