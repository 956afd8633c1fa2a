//! Tests of `ensure_crd` and `wait_for_crd` with a test server, under a paused clock.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube_client::{Api, Client};
use kube_operator::{CrdError, ensure_crd, wait_for_crd};
use kube_testserver::{Fault, RequestMatch, Server, Verb};
use serde_json::json;
use tokio::time::sleep;

use support::Site;

#[allow(dead_code, reason = "other tests use more of it")]
mod support;

const SECOND: Duration = Duration::from_secs(1);

fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

#[tokio::test(start_paused = true)]
async fn crd_is_installed_and_updated() {
    let server = Server::new();
    let client = client(&server);
    let mut crd = Site::crd();
    ensure_crd(&client, &crd, "site-operator", 30 * SECOND).await.unwrap();
    Api::<Site>::all(client.clone()).list(&Default::default()).await.unwrap();

    crd.spec.names.short_names = Some(vec!["st".to_owned()]);
    for _ in 0..2 {
        ensure_crd(&client, &crd, "site-operator", 30 * SECOND).await.unwrap();
    }
    let installed = Api::<CustomResourceDefinition>::all(client);
    let installed = installed.get(crd.metadata.name.as_deref().unwrap()).await.unwrap();
    assert_eq!(installed.spec.names.short_names, crd.spec.names.short_names);
}

#[tokio::test(start_paused = true)]
async fn wait_ends_when_the_crd_is_created() {
    let server = Server::new();
    let crd = Site::crd();
    let name = crd.metadata.name.clone().unwrap();
    let (waiting, name) = (client(&server), name);
    let waiting = tokio::spawn(async move { wait_for_crd(&waiting, &name, 60 * SECOND).await });
    sleep(10 * SECOND).await;
    assert!(!waiting.is_finished());
    server.create(&serde_json::to_value(&crd).unwrap()).unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn errors_contain_the_crd_and_the_cause() {
    let server = Server::new();
    let client = client(&server);
    let absent = wait_for_crd(&client, "absent.example.com", SECOND).await.unwrap_err();
    assert_eq!(
        absent.to_string(),
        "the CRD absent.example.com was not established within 1s; it does not exist"
    );

    let nameless = CustomResourceDefinition::default();
    let error = ensure_crd(&client, &nameless, "site-operator", SECOND).await.unwrap_err();
    assert!(matches!(error, CrdError::MissingName), "{error}");

    let mut crd = Site::crd();
    let name = crd.metadata.name.clone().unwrap();
    let denied = Fault::status(403, "Forbidden", None);
    server.faults().next(RequestMatch::verb(Verb::Patch), denied);
    let error = ensure_crd(&client, &crd, "site-operator", SECOND).await.unwrap_err().to_string();
    let expected = format!("failed to apply the CRD {name}: ");
    assert!(error.starts_with(&expected) && error.contains("403 Forbidden"), "{error}");

    let accepted = json!([{"type": "NamesAccepted", "status": "False", "reason": "KindConflict", "message": "\"Site\" is already in use"}]);
    let status = json!({"conditions": accepted, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]});
    crd.status = Some(serde_json::from_value(status).unwrap());
    let body = serde_json::to_string(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinitionList",
        "metadata": {"resourceVersion": "5"}, "items": [crd],
    }));
    server.faults().next(RequestMatch::verb(Verb::List), Fault::json(body.unwrap()));
    let error = wait_for_crd(&client, &name, SECOND).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the server does not accept the names of the CRD {name}: \"Site\" is already in use; delete the other CRD or choose other names"
        )
    );
}
