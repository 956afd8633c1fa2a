//! The bodies in the journal, and the search for requests.

use http::Request;
use http_body_util::Full;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_testserver::{Fault, RequestMatch, Rights, Server, Verb};
use serde_json::json;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

async fn send(server: &Server, method: &str, path: &str, token: &str, body: &str) -> u16 {
    let request = Request::builder().method(method).uri(path).header("User-Agent", "shop-operator/1.0");
    let request = request.header("Content-Type", "application/json");
    let request =
        request.header("Authorization", format!("Bearer {token}")).body(Full::from(body.to_owned()));
    server.service().respond(request.unwrap()).await.unwrap().status().as_u16()
}

fn map(name: &str) -> String {
    json!({"metadata": {"name": name}, "data": {"password": "hunter2"}}).to_string()
}

#[tokio::test]
async fn bodies_are_recorded_also_of_rejected_requests() {
    let server = Server::builder().record_bodies(1000).build();
    let creates = RequestMatch::verb(Verb::Create).kind::<ConfigMap>().name("a");
    server.faults().times(1, &creates, &Fault::status(503, "ServiceUnavailable", None));
    assert_eq!(send(&server, "POST", PATH, "", &map("a")).await, 503);
    assert_eq!(send(&server, "POST", PATH, "", &map("a")).await, 201);
    assert_eq!(send(&server, "POST", PATH, "", &map("b")).await, 201);
    assert_eq!(send(&server, "GET", &format!("{PATH}/a"), "", "").await, 200);
    let sent = server.journal().find(&creates);
    assert_eq!(sent.iter().map(|request| request.number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(sent[0].json().unwrap()["data"], json!({"password": "hunter2"}));
    assert_eq!(sent[0].body(), Some(map("a").as_bytes()));
    let named = server.journal().find(&RequestMatch::any().name("a"));
    assert_eq!(named.iter().map(|request| request.number).collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(named[2].body(), None);
    assert_eq!(
        server.journal().find(&RequestMatch::any().kind::<k8s_openapi::api::core::v1::Pod>()).len(),
        0
    );
}

#[tokio::test]
async fn body_is_printed_only_in_the_alternate_form() {
    let server = Server::builder().record_bodies(1000).build();
    send(&server, "POST", &format!("{PATH}?dryRun=All"), "", &map("a")).await;
    send(&server, "POST", PATH, "", "not\njson").await;
    let requests = server.journal().requests();
    let line = format!("#1 create {PATH}?dryRun=All 201 by admin (shop-operator/1.0)");
    assert_eq!(requests[0].to_string(), line);
    let body = "{\n  \"data\": {\n    \"password\": \"hunter2\"\n  },\n  \"metadata\": {\n    \"name\": \"a\"\n  }\n}";
    assert_eq!(format!("{:#}", requests[0]), format!("{line}\n{body}"));
    assert!(format!("{:#}", requests[1]).ends_with("\nnot\\njson"));
    assert!(!format!("{server:?}{requests:?}").contains("hunter2"));
}

#[tokio::test]
async fn recorded_bodies_are_bounded_and_optional() {
    let length = map("a").len();
    let server = Server::builder().record_bodies(2 * length).build();
    for name in ["a", "b", "c", "long-name-for-a-body"] {
        send(&server, "POST", PATH, "", &map(name)).await;
    }
    send(&server, "POST", PATH, "", &"x".repeat(2 * length + 1)).await;
    let recorded = |server: &Server| -> Vec<bool> {
        server.journal().requests().iter().map(|request| request.body().is_some()).collect()
    };
    assert_eq!(recorded(&server), [false, false, false, true, false]);
    server.journal().clear();
    for name in ["d", "e"] {
        send(&server, "POST", PATH, "", &map(name)).await;
    }
    assert_eq!(recorded(&server), [true, true]);
    let server = Server::new();
    send(&server, "POST", PATH, "", &map("a")).await;
    assert_eq!(recorded(&server), [false]);
    assert_eq!(server.journal().find(&RequestMatch::any().name("a")).len(), 0);
}

#[tokio::test]
async fn requests_are_found_by_user_and_user_agent() {
    let server = Server::builder().user("one", "anna", Rights::All).user("two", "ben", Rights::All).build();
    send(&server, "GET", PATH, "one", "").await;
    send(&server, "GET", PATH, "two", "").await;
    send(&server, "GET", PATH, "unknown", "").await;
    let count = |matches: RequestMatch| server.journal().find(&matches).len();
    assert_eq!(count(RequestMatch::any().user("anna")), 1);
    assert_eq!(count(RequestMatch::any().user("carl")), 0);
    assert_eq!(count(RequestMatch::any().user_agent("shop-operator")), 3);
    assert_eq!(count(RequestMatch::any().user_agent("kubectl")), 0);
}
