//! RBAC objects, impersonation, and the comparison of roles with requests.

use crate::client::{post, send};
use http::Request;
use kube_testserver::{ApiService, Attributes, Rule, Server};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const OPERATOR: &str = "system:serviceaccount:default:operator";

fn cluster_role(server: &Server, name: &str, rules: &Value) {
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    server.create(&role).unwrap();
    let subject = json!({"kind": "ServiceAccount", "name": "operator", "namespace": "default"});
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    let binding = json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": reference, "subjects": [subject]});
    server.create(&binding).unwrap();
}

async fn code(service: &ApiService, method: &str, path: &str) -> u16 {
    let body = http_body_util::Full::new(bytes::Bytes::from_static(b"{\"metadata\": {\"name\": \"a\"}}"));
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = service.clone().respond(request.body(body).unwrap()).await.unwrap();
    response.status().as_u16()
}

#[tokio::test]
async fn usage_is_exact_after_each_right_was_used() {
    let server = Server::builder().rbac(true).build();
    let operator = server.service().with_token(&server.access().service_account("default", "operator"));
    assert!(!server.access().usage(OPERATOR).is_exact());
    cluster_role(
        &server,
        "operator",
        &json!([
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]},
            {"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}
        ]),
    );
    assert_eq!(code(&operator, "GET", MAPS).await, 200);
    assert_eq!(code(&operator, "GET", "/logs/a").await, 404);
    assert_eq!(
        server.access().usage(OPERATOR).to_string(),
        "roles of system:serviceaccount:default:operator: 2 rights used\nrights without a request:\n  \
         ClusterRole \"operator\", rules[0]: get configmaps"
    );
    assert_eq!(code(&operator, "GET", &format!("{MAPS}/a")).await, 404);
    let usage = server.access().usage(OPERATOR);
    assert!(usage.is_exact(), "{usage}");
    assert_eq!(code(&operator, "POST", MAPS).await, 403);
    assert_eq!(code(&operator, "POST", MAPS).await, 403);
    let usage = server.access().usage(OPERATOR);
    assert!(!usage.is_exact());
    assert_eq!(
        usage.to_string(),
        "roles of system:serviceaccount:default:operator: 3 rights used\nrequests without a right:\n  \
         create configmaps in namespace \"default\" (2 times)"
    );
    let [(Attributes::Resource(denied), 2)] = usage.denied.as_slice() else { panic!("{usage}") };
    assert_eq!((&*denied.verb, &*denied.resource, &*denied.namespace), ("create", "configmaps", "default"));
}

#[tokio::test]
async fn recorded_run_permits_requests_and_lists_their_missing_rights() {
    let server = Server::builder().rbac(true).build();
    let operator = server.service().with_token(&server.access().service_account("default", "operator"));
    assert_eq!(code(&operator, "POST", MAPS).await, 403);
    server.access().enforce(false);
    assert_eq!(code(&operator, "POST", MAPS).await, 201);
    let apply = |name: &str| {
        let request = Request::patch(format!("{MAPS}/{name}?fieldManager=me"));
        let request = request.header("content-type", "application/apply-patch+yaml");
        let body =
            format!(r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}"}}}}"#);
        request.body(http_body_util::Full::new(bytes::Bytes::from(body))).unwrap()
    };
    // An apply that creates the object also needs the right to create it, as on kube-apiserver.
    for (name, code) in [("b", 201), ("b", 200)] {
        assert_eq!(operator.clone().respond(apply(name)).await.unwrap().status().as_u16(), code);
    }
    let denied = server.access().usage(OPERATOR).denied;
    let denied: Vec<_> = denied.iter().map(|(right, count)| format!("{count} {right}")).collect();
    let text = |verb: &str, name: &str| format!("{verb} configmaps{name} in namespace \"default\"");
    let expected = [
        format!("2 {}", text("create", "")),
        format!("1 {}", text("create", " \"b\"")),
        format!("2 {}", text("patch", " \"b\"")),
    ];
    assert_eq!(denied, expected);
    server.access().add_rule(Rule::deny());
    assert_eq!(code(&operator, "POST", MAPS).await, 403, "a rule denies the request");
    server.access().clear_rules();
    server.access().enforce(true);
    assert_eq!(operator.respond(apply("c")).await.unwrap().status().as_u16(), 403);
}

#[tokio::test]
async fn usage_separates_names_and_ignores_reviews_and_deny_rules() {
    let server = Server::builder().rbac(true).build();
    let operator = server.service().with_token(&server.access().service_account("default", "operator"));
    cluster_role(
        &server,
        "operator",
        &json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps", "pods"], "resourceNames": ["a", "b"]}]),
    );
    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(code(&operator, "POST", review).await, 422);
    assert_eq!(code(&operator, "GET", &format!("{MAPS}/a")).await, 404);
    let rule = server.access().add_rule(Rule::deny().verbs(&["delete"]));
    assert_eq!(code(&operator, "DELETE", &format!("{MAPS}/b")).await, 403);
    server.access().remove_rule(rule);
    let usage = server.access().usage(OPERATOR);
    assert!(usage.denied.is_empty(), "{usage}");
    let unused: Vec<String> = usage.unused.iter().map(|unused| unused.right.to_string()).collect();
    assert_eq!(unused, ["* configmaps \"b\"", "* pods \"a\"", "* pods \"b\""]);
}

#[tokio::test]
async fn impersonated_user_needs_rights_only_with_rbac() {
    let as_ann = [("impersonate-user", "ann"), ("impersonate-group", "devs")];
    for (rbac, expected) in [(false, 200), (true, 403)] {
        let server = Server::builder().rbac(rbac).build();
        let response = send(&server, "GET", MAPS, &as_ann, "").await;
        assert_eq!(response.code, expected);
        let last = server.journal().requests().pop().unwrap();
        assert_eq!(last.user.as_deref(), Some("ann"));
        assert_eq!(send(&server, "GET", MAPS, &[], "").await.code, 200);
        assert_eq!(server.access().usage("ann").denied.len(), usize::from(rbac));
    }
}

#[tokio::test]
async fn rejected_impersonation_is_recorded_for_the_requestor() {
    let server = Server::builder().rbac(true).build();
    let token = server.access().service_account("default", "operator");
    let credentials = format!("Bearer {token}");
    let headers = [("authorization", credentials.as_str()), ("impersonate-user", "ann")];
    assert_eq!(send(&server, "GET", MAPS, &headers, "").await.code, 403);
    assert_eq!(server.journal().requests().pop().unwrap().user.as_deref(), Some(OPERATOR));
    let usage = server.access().usage(OPERATOR);
    assert_eq!(usage.denied[0].0.to_string(), "impersonate users \"ann\"");
    cluster_role(
        &server,
        "operator",
        &json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["ann"]}]),
    );
    assert_eq!(send(&server, "GET", "/version", &headers, "").await.code, 200);
    let usage = server.access().usage(OPERATOR);
    assert!(usage.unused.is_empty() && usage.used.len() == 1, "{usage}");
}

#[tokio::test]
async fn bootstrap_roles_exist_and_can_be_changed() {
    let server = Server::builder().rbac(true).build();
    let roles = server.list_untyped("rbac.authorization.k8s.io/v1", "ClusterRole", None).unwrap();
    assert!(roles.iter().any(|role| role["metadata"]["name"] == "view"));
    assert_eq!(Server::new().count_untyped("rbac.authorization.k8s.io/v1", "ClusterRole", None).unwrap(), 0);
    let operator = server.service().with_token(&server.access().service_account("default", "operator"));
    assert_eq!(code(&operator, "GET", "/apis").await, 200);
    server
        .delete_untyped("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", None, "system:discovery")
        .unwrap();
    assert_eq!(code(&operator, "GET", "/apis").await, 403);
    let spec = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}});
    let review = post(&server, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", spec).await;
    assert_eq!(review.code, 403, "a request without a token is anonymous");
}

#[tokio::test]
async fn rejection_of_a_grant_contains_the_missing_rights() {
    let server = Server::builder().rbac(true).build();
    let operator = server.access().service_account("default", "operator");
    let rbac =
        json!({"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]});
    cluster_role(&server, "operator", &json!([rbac]));
    let role = json!({"metadata": {"name": "r"}, "rules": [
        {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments/scale"]}
    ]});
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let credentials = format!("Bearer {operator}");
    let rejected = send(&server, "POST", path, &[("authorization", &credentials)], &role.to_string()).await;
    assert_eq!(rejected.code, 403);
    assert!(rejected.message().ends_with("held:\nget deployments.apps/scale in namespace \"default\""));
    let denied = server.access().usage(OPERATOR).denied;
    assert_eq!(denied[0].0.to_string(), "escalate roles.rbac.authorization.k8s.io in namespace \"default\"");
}
