//! Tests of the webhooks of `Database`, in the process of the test.

use kube_client::{
    Api, Client, Error,
    api::{Patch, PatchParams, PostParams},
};
use kube_informer_examples::database::{CRD, Database, DatabaseSpec, configurations, crd, v1beta1, webhooks};
use kube_testserver::Server;
use serde_json::{Value, json};

/// A server that calls the webhooks, and the typed clients of both versions.
fn serve() -> (Api<v1beta1::Database>, Api<Database>) {
    let server = Server::new();
    let url = "https://127.0.0.1:1";
    server.create(&crd(url).unwrap()).unwrap();
    for configuration in configurations(url) {
        server.create(&configuration).unwrap();
    }
    for (name, path) in [
        (format!("default.{CRD}"), "/default"),
        (format!("validate.{CRD}"), "/validate"),
        (CRD.to_owned(), "/convert"),
    ] {
        let webhooks = webhooks();
        server.webhook_handler(&name, move |review: Value| {
            let webhooks = webhooks.clone();
            async move { webhooks.respond(path, review).await.expect("a review") }
        });
    }
    let client = Client::new(server.service(), "default");
    (Api::default_namespaced(client.clone()), Api::default_namespaced(client))
}

fn old_database(size: &str) -> v1beta1::Database {
    v1beta1::Database::new("orders", v1beta1::DatabaseSpec { size: size.to_owned(), replicas: None })
}

fn message(result: Result<impl Sized, Error>) -> String {
    result.map(drop).unwrap_err().to_string()
}

#[tokio::test]
async fn missing_replicas_are_set_in_both_versions() {
    let (old, new) = serve();
    let created = old.create(&PostParams::default(), &old_database("10Gi")).await.unwrap();
    assert_eq!(created.spec.replicas, Some(1));
    let spec = DatabaseSpec { storage_gib: 1, replicas: Some(3) };
    let created = new.create(&PostParams::default(), &Database::new("users", spec)).await.unwrap();
    assert_eq!(created.spec.replicas, Some(3));
}

#[tokio::test]
async fn volume_cannot_shrink_in_either_version() {
    let (old, new) = serve();
    old.create(&PostParams::default(), &old_database("10Gi")).await.unwrap();
    let params = PatchParams::default();
    let denied = new.patch("orders", &params, &Patch::Merge(json!({"spec": {"storageGib": 9}}))).await;
    assert!(message(denied).contains("spec.storageGib: cannot shrink from 10 to 9"));
    let denied = old.patch("orders", &params, &Patch::Merge(json!({"spec": {"size": "9Gi"}}))).await;
    assert!(message(denied).contains("spec.storageGib: cannot shrink from 10 to 9"));
    new.patch("orders", &params, &Patch::Merge(json!({"spec": {"storageGib": 11}}))).await.unwrap();
    assert_eq!(old.get("orders").await.unwrap().spec.size, "11Gi");
}

#[tokio::test]
async fn size_that_is_not_a_number_fails_with_the_reason() {
    let (old, _) = serve();
    let failed = old.create(&PostParams::default(), &old_database("much")).await;
    let text = message(failed);
    assert!(text.contains("spec.size \"much\" is not like 10Gi: invalid digit"), "{text}");
}
