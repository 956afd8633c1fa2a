//! Authorization: users, access rules that change at run time, and access reviews.

use crate::client::{Lines, Response, post, send, server};
use kube_testserver::{Rights, Rule, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCESS: &str = "/apis/authorization.k8s.io/v1";

fn with_users() -> Server {
    let users = Server::builder().user("a", "admin", Rights::All).user("n", "guest", Rights::None);
    users.build()
}

async fn get_as(server: &Server, token: &str, path: &str) -> Response {
    let credentials = format!("Bearer {token}");
    send(server, "GET", path, &[("authorization", &credentials)], "").await
}

async fn post_as(server: &Server, token: &str, path: &str, body: Value) -> Response {
    let credentials = format!("Bearer {token}");
    send(server, "POST", path, &[("authorization", &credentials)], &body.to_string()).await
}

#[tokio::test]
async fn new_rules_apply_to_new_requests_but_not_to_open_watches() {
    let server = with_users();
    assert_eq!(get_as(&server, "n", PODS).await.code, 403);
    let read = Rule::allow().users(&["guest"]).verbs(&["get", "list", "watch"]).resources(&["pods"]);
    let rule = server.access().add_rule(read.namespaces(&["default"]));
    assert_eq!(get_as(&server, "n", PODS).await.code, 200);
    assert_eq!(get_as(&server, "n", "/api/v1/pods").await.code, 403);
    assert_eq!(get_as(&server, "n", &format!("{PODS}/a")).await.code, 404);
    assert_eq!(get_as(&server, "n", &format!("{PODS}/a/status")).await.code, 403);
    let watch = format!("{PODS}?watch=true&resourceVersion=1");
    let mut open = Lines::open_as(&server, &watch, &[("authorization", "Bearer n")]).await;
    assert!(server.access().remove_rule(rule));
    assert_eq!(get_as(&server, "n", &watch).await.code, 403);
    server.create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})).unwrap();
    assert_eq!(open.event().await.1, "late");
}

#[tokio::test]
async fn list_of_one_name_requires_only_the_right_to_that_name() {
    let server = with_users();
    server.access().add_rule(Rule::allow().verbs(&["list", "watch"]).resources(&["pods"]).names(&["mine"]));
    let list = |name: &str| format!("{PODS}?fieldSelector=metadata.name%3D{name}");
    assert_eq!(get_as(&server, "n", &list("mine")).await.code, 200);
    assert_eq!(get_as(&server, "n", PODS).await.code, 403);
    let rejected = get_as(&server, "n", &list("other")).await;
    assert_eq!(
        rejected.message(),
        "pods \"other\" is forbidden: User \"guest\" cannot list resource \"pods\" in API group \"\" in the namespace \
         \"default\""
    );
    assert_eq!(rejected.json()["details"], json!({"kind": "pods", "name": "other"}));
}

#[tokio::test]
async fn anonymous_user_may_read_health_and_version() {
    let server = with_users();
    for path in ["/version", "/healthz", "/readyz", "/livez"] {
        assert_eq!(send(&server, "GET", path, &[], "").await.code, 200, "{path}");
    }
    let rejected = send(&server, "GET", "/apis", &[], "").await;
    assert_eq!(rejected.message(), "forbidden: User \"system:anonymous\" cannot get path \"/apis\"");
    server.access().allow_anonymous(false);
    assert_eq!(send(&server, "GET", "/version", &[], "").await.code, 401);
    assert_eq!(get_as(&server, "x", "/version").await.code, 401);
    assert_eq!(get_as(&server, "n", "/healthz/ping").await.code, 403);
}

#[tokio::test]
async fn deny_rules_apply_on_a_server_without_users() {
    let server = server();
    let denied = server.access().add_rule(Rule::deny().verbs(&["list"]).resources(&["pods"]));
    let rejected = send(&server, "GET", PODS, &[], "").await;
    assert_eq!((rejected.code, rejected.json()["reason"].as_str()), (403, Some("Forbidden")));
    let spec = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}});
    let review = post(&server, &format!("{ACCESS}/selfsubjectaccessreviews"), spec).await;
    assert_eq!(review.json()["status"], json!({"allowed": false, "denied": true}));
    server.access().remove_rule(denied);
    assert_eq!(send(&server, "GET", PODS, &[], "").await.code, 200);
}

#[tokio::test]
async fn self_reviews_return_user_name_and_rules() {
    let server = with_users();
    server.access().add_user("d", "dev", &["devs"]);
    server
        .access()
        .add_rule(Rule::allow().groups(&["devs"]).verbs(&["get"]).resources(&["pods"]).namespaces(&["a"]));
    let review =
        post_as(&server, "d", "/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.json();
    let expected = json!({"username": "dev", "groups": ["devs", "system:authenticated"]});
    assert_eq!(review["status"]["userInfo"], expected);
    let path = format!("{ACCESS}/selfsubjectrulesreviews");
    let rules = async |namespace: &str| {
        let spec = json!({"spec": {"namespace": namespace}});
        post_as(&server, "d", &path, spec).await.json()["status"].clone()
    };
    let pods = json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["pods"]});
    assert_eq!(rules("a").await["resourceRules"].as_array().and_then(|all| all.last()), Some(&pods));
    assert_eq!(rules("b").await["resourceRules"].as_array().map(Vec::len), Some(2));
    assert_eq!(rules("a").await["incomplete"], false);
    server.access().add_rule(Rule::deny().users(&["dev"]).verbs(&["list"]));
    assert_eq!(rules("a").await["incomplete"], true);
    let nowhere = post_as(&server, "d", &path, json!({"spec": {}})).await;
    assert_eq!((nowhere.code, nowhere.message().as_str()), (400, "no namespace on request"));
}

#[tokio::test]
async fn web_page_cannot_write_over_tcp() {
    let server = Server::builder().host_name("server.test").require_token(false).build();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let body = "{\"metadata\": {\"name\": \"a\"}}";
    for (headers, code) in [
        ("host: localhost\r\norigin: http://example.com", 403),
        ("host: localhost\r\norigin: null", 403),
        ("host: example.com", 403),
        ("host: server.test", 201),
    ] {
        let path = "/api/v1/namespaces/default/configmaps";
        let length = body.len();
        let mut socket = tokio::net::TcpStream::connect(listening.local_addr()).await.unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\n{headers}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        socket.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with(&format!("HTTP/1.1 {code}")), "{headers}: {response}");
    }
    assert_eq!(server.count_untyped("v1", "ConfigMap", None).unwrap(), 1);
    listening.shutdown().await;
}
