//! Webhooks that a manager serves over HTTPS, with a certificate in a Secret.

use std::{future::pending, time::Duration};

use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    core::v1::{ConfigMap, Secret},
};
use kube::CustomResourceExt;
use kube_client::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use kube_operator::{
    Action, Controller, Failure, Manager, ManagerOptions, Request,
    webhook::{
        AdmissionRequest, CaBundleTarget, Conversion, Denied, SecretCertificate, WebhookCertificate,
        WebhookOptions, Webhooks,
    },
};
use kube_testserver::Server;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::conversion::{Website, v1beta1};

const CRD: &str = "websites.example.com";

fn webhooks() -> Webhooks {
    Webhooks::new()
        .validate("/validate", |request: AdmissionRequest<ConfigMap>| async move {
            if request.name == "denied" { Err(Denied::new("this name is reserved")) } else { Ok(()) }
        })
        .convert("/convert", Conversion::<Website>::new().version::<v1beta1::Website>())
}

fn client_config(path: &str) -> Value {
    json!({"service": {"namespace": "default", "name": "web", "path": path, "port": 443}})
}

/// Creates the CRD, and a configuration whose webhook denies some ConfigMaps. Both have no CA bundle yet.
fn install(server: &Server) {
    let crds = vec![v1beta1::Website::crd(), Website::crd()];
    let mut crd = serde_json::to_value(kube::core::crd::merge_crds(crds, "v1").unwrap()).unwrap();
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": client_config("/convert")
    }});
    server.create(&crd).unwrap();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "names"},
        "webhooks": [{
            "name": "names.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": client_config("/validate"),
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": ["CREATE", "DELETE"]
            }]
        }]
    });
    server.create(&configuration).unwrap();
}

fn certificate() -> SecretCertificate {
    let targets = [CaBundleTarget::Validating("names".into()), CaBundleTarget::Crd(CRD.into())];
    SecretCertificate::new("default", "web-certificate", "web", targets)
}

/// Creates a manager that serves the webhooks of the Service `web`.
fn manager(server: &Server, certificate: SecretCertificate) -> Manager {
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let mut manager = Manager::new(Client::new(server.service(), "default"), options).unwrap();
    let bind_address = ([127, 0, 0, 1], 0).into();
    let options =
        WebhookOptions { bind_address, ..WebhookOptions::new(WebhookCertificate::Secret(certificate)) };
    manager.serve_webhooks(webhooks(), options).unwrap();
    server.service_address("default", "web", manager.local_webhook_address().unwrap());
    manager
}

fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object
}

/// Waits until the condition is true. Fails with the awaited condition after a minute.
async fn until(awaited: &str, mut condition: impl AsyncFnMut() -> bool) {
    let attempts = async {
        while !condition().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let within_a_minute = timeout(Duration::from_secs(60), attempts).await;
    assert!(within_a_minute.is_ok(), "after a minute, the test still waits for this: {awaited}");
}

/// Waits until the server accepts a ConfigMap, so it calls the webhook and trusts its certificate.
async fn until_served(api: &Api<ConfigMap>) {
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let accepts = async || api.create(&dry_run, &config_map("permitted")).await.is_ok();
    until("the webhook is served, and its configuration contains the CA bundle", accepts).await;
}

#[tokio::test]
async fn cache_that_needs_the_conversion_webhook_is_synced() {
    let server = Server::new();
    install(&server);
    let old = json!({
        "apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "a"},
        "spec": {"hosts": ["a.example.com"]}
    });
    server.create(&old).unwrap();
    let mut manager = manager(&server, certificate());
    let websites = manager.factory().informer::<v1beta1::Website>().unwrap();
    let (sender, mut hosts) = tokio::sync::mpsc::channel(8);
    manager.add_controller(Controller::new(&websites), move |request: Request<v1beta1::Website>| {
        let sender = sender.clone();
        async move {
            let website = request.object.present().expect("an object");
            sender.send(website.spec.host.clone()).await.map_err(Failure::from)?;
            Ok::<_, Failure>(Action::AwaitChange)
        }
    });
    let running = tokio::spawn(manager.run(pending()));
    let host = timeout(Duration::from_secs(60), hosts.recv()).await.expect("a reconcile within a minute");
    assert_eq!(host.unwrap(), "a.example.com");

    let api = Api::<ConfigMap>::default_namespaced(Client::new(server.service(), "default"));
    let error = api.create(&PostParams::default(), &config_map("denied")).await.unwrap_err().to_string();
    assert!(error.contains("denied the request: this name is reserved"), "{error}");
    api.create(&PostParams::default(), &config_map("permitted")).await.unwrap();
    running.abort();
}

/// Changes the Secret so that its certificate is due for a renewal, and remains valid for hours.
async fn age(secrets: &Api<Secret>) {
    const ROTATION: &str = "kube-informer.dev/certificate-rotation";
    let created = (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(300 * 24)).to_string();
    until("the previous renewal is complete", async || {
        let mut secret = secrets.get("web-certificate").await.unwrap();
        let annotation = secret.metadata.annotations.get_or_insert_default().get_mut(ROTATION).unwrap();
        let mut rotation: Value = serde_json::from_str(annotation).unwrap();
        if rotation["stage"] != "stable" {
            return false;
        }
        rotation["created"] = json!(created);
        *annotation = rotation.to_string();
        secrets.replace("web-certificate", &PostParams::default(), &secret).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_during_renewals() {
    let server = Server::new();
    install(&server);
    let certificate = SecretCertificate { publish_delay: Duration::from_millis(400), ..certificate() };
    let mut registry = kube_operator::prometheus_client::registry::Registry::default();
    let manager = manager(&server, certificate);
    manager.register_metrics(&mut registry);
    let running = tokio::spawn(manager.run(pending()));
    let client = Client::new(server.service(), "default");
    let secrets = Api::<Secret>::default_namespaced(client.clone());
    let served = async || {
        let secret = secrets.get_opt("web-certificate").await.unwrap();
        secret.and_then(|secret| secret.data?.get("tls.crt").cloned())
    };
    let api = Api::<ConfigMap>::default_namespaced(client);
    until_served(&api).await;
    let create = PostParams { dry_run: true, ..PostParams::default() };
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let (api, create) = (api.clone(), create.clone());
        writers.spawn(async move {
            for number in 0.. {
                api.create(&create, &config_map(&format!("{writer}-{number}"))).await.unwrap();
            }
        });
    }
    for _ in 0..3 {
        let old = served().await;
        age(&secrets).await;
        until("the certificate is renewed", async || served().await != old).await;
    }
    // The last renewal completes.
    age(&secrets).await;
    assert!(writers.try_join_next().is_none(), "a request failed");
    writers.shutdown().await;
    let mut text = String::new();
    kube_operator::prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        "controller_runtime_webhook_requests_total{code=\"200\",webhook=\"/validate\"} ",
        "controller_runtime_webhook_requests_in_flight{webhook=\"/validate\"} ",
        "controller_runtime_webhook_latency_seconds_count{webhook=\"/validate\"} ",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    running.abort();
}

#[tokio::test]
async fn deleted_secret_and_removed_bundle_are_restored() {
    let server = Server::new();
    install(&server);
    // With a short delay, the manager checks the objects often.
    let certificate = SecretCertificate { publish_delay: Duration::from_millis(400), ..certificate() };
    let running = tokio::spawn(manager(&server, certificate).run(pending()));
    let client = Client::new(server.service(), "default");
    let secrets = Api::<Secret>::default_namespaced(client.clone());
    let api = Api::<ConfigMap>::default_namespaced(client);
    until_served(&api).await;
    secrets.delete("web-certificate", &DeleteParams::default()).await.unwrap();
    let patch = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let patch: json_patch_of_kube::Patch = serde_json::from_value(patch).unwrap();
    let configurations = Api::<ValidatingWebhookConfiguration>::all(Client::new(server.service(), "default"));
    configurations
        .patch("names", &Default::default(), &kube_client::api::Patch::<()>::Json(patch))
        .await
        .unwrap();
    let has_secret = async || secrets.get_opt("web-certificate").await.unwrap().is_some();
    until("the Secret is created again", has_secret).await;
    until_served(&api).await;
    running.abort();
}

#[tokio::test]
async fn certificate_without_a_configured_name_is_replaced() {
    let server = Server::new();
    install(&server);
    let secrets = Api::<Secret>::default_namespaced(Client::new(server.service(), "default"));
    let api = Api::<ConfigMap>::default_namespaced(Client::new(server.service(), "default"));
    for name in ["old.default.svc", "web.default.svc", "old.default.svc"] {
        let certificate = SecretCertificate { names: vec![name.into()], ..certificate() };
        let running = tokio::spawn(manager(&server, certificate).run(pending()));
        // The server verifies the name `web.default.svc`.
        if name.starts_with("web") {
            until_served(&api).await;
        }
        let has_secret = async || secrets.get_opt("web-certificate").await.unwrap().is_some();
        until("the Secret is created", has_secret).await;
        running.abort();
    }
    let secret = secrets.get("web-certificate").await.unwrap();
    let names = &secret.metadata.annotations.unwrap()["kube-informer.dev/certificate-names"];
    assert_eq!(names, "old.default.svc,web.default.svc");
}

#[tokio::test]
async fn empty_secret_of_a_chart_is_filled_and_keeps_its_type() {
    for (kind, data) in
        [("kubernetes.io/tls", json!({"tls.crt": "", "tls.key": ""})), ("Opaque", json!(null))]
    {
        let server = Server::new();
        install(&server);
        let metadata = json!({"name": "web-certificate", "namespace": "default", "labels": {"chart": "web"}});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data
        });
        server.create(&secret).unwrap();
        let running = tokio::spawn(manager(&server, certificate()).run(pending()));
        let client = Client::new(server.service(), "default");
        until_served(&Api::default_namespaced(client.clone())).await;
        let secret = Api::<Secret>::default_namespaced(client).get("web-certificate").await.unwrap();
        assert_eq!(secret.type_.as_deref(), Some(kind));
        assert_eq!(secret.metadata.labels.unwrap()["chart"], "web");
        running.abort();
    }
}

#[tokio::test]
async fn invalid_options_are_an_early_error() {
    let client = Client::new(Server::new().service(), "default");
    let error_of = |change: fn(&mut SecretCertificate, &mut usize)| {
        let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
        let mut manager = Manager::new(client.clone(), options).unwrap();
        let (mut certificate, mut bytes) = (certificate(), 256 << 20);
        change(&mut certificate, &mut bytes);
        let options = WebhookOptions {
            max_bytes_in_progress: bytes,
            ..WebhookOptions::new(WebhookCertificate::Secret(certificate))
        };
        manager.serve_webhooks(webhooks(), options).unwrap_err().to_string()
    };
    assert_eq!(
        error_of(|certificate, _| certificate.validity = Duration::ZERO),
        "the webhook option `SecretCertificate::validity` is invalid: the certificate would never be valid; \
         use for example 365 days"
    );
    assert_eq!(
        error_of(|_, bytes| *bytes = 1),
        "the webhook option `WebhookOptions::max_bytes_in_progress` is invalid: 1 bytes are less than the \
         maximum size of an AdmissionReview; use at least 7340032 bytes"
    );
}
