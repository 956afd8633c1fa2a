//! The log of webhooks: missing permissions, and requests to unknown paths. Each test starts with
//! [`Logged::begin`].

use std::{future::pending, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, CustomResourceExt, core::crd::merge_crds};
use kube_client::Client;
use kube_operator::{
    Manager, ManagerOptions,
    axum::{body::Body, http::Request},
    webhook::{
        AdmissionRequest, CaBundleTarget, Denied, SecretCertificate, WebhookCertificate, WebhookOptions,
        Webhooks,
    },
};
use kube_testserver::Server;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{advance, sleep};
use tower::ServiceExt as _;

use logged::Logged;

#[path = "../../informer/tests/support/logged.rs"]
mod logged;

#[derive(Clone, Debug, Deserialize, Serialize, CustomResource, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
struct WebsiteSpec {
    host: String,
}

mod v1beta1 {
    use super::*;

    #[derive(Clone, Debug, Deserialize, Serialize, CustomResource, JsonSchema)]
    #[kube(group = "example.com", version = "v1beta1", kind = "Website", namespaced)]
    pub(crate) struct WebsiteSpec {
        pub(crate) host: String,
    }
}

/// Creates a manager for the account `web`, and grants it its permissions, except for one verb.
/// Adds an informer of the old version if `needs_conversion`.
fn manager(server: &Server, verb: &str, resource: &str, needs_conversion: bool) -> Manager {
    let crds = vec![v1beta1::Website::crd(), Website::crd()];
    let mut crd = serde_json::to_value(merge_crds(crds, "v1").unwrap()).unwrap();
    let service = json!({"namespace": "default", "name": "web", "path": "/convert"});
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"service": service}
    }});
    server.create(&crd).unwrap();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "names"},
        "webhooks": [{
            "name": "names.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"service": {"namespace": "default", "name": "web", "path": "/validate"}},
        }]
    });
    server.create(&configuration).unwrap();
    let token = server.access().service_account("default", "web");
    let client = Client::new(server.service().with_token(&token), "default");
    let options = ManagerOptions {
        bind_address: None,
        cache_sync_timeout: Duration::from_secs(30),
        ..ManagerOptions::default()
    };
    let mut manager = Manager::new(client, options).unwrap();
    let targets =
        [CaBundleTarget::Validating("names".into()), CaBundleTarget::Crd("websites.example.com".into())];
    let certificate = SecretCertificate::new("default", "web-certificate", "web", targets);
    let bind_address = ([127, 0, 0, 1], 0).into();
    let options =
        WebhookOptions { bind_address, ..WebhookOptions::new(WebhookCertificate::Secret(certificate)) };
    manager.serve_webhooks(webhooks(), options).unwrap();
    if needs_conversion {
        // The manager keeps the informer.
        let _websites = manager.factory().informer::<v1beta1::Website>().unwrap();
    }
    for mut object in manager.rbac_roles("web").bind_to_service_account("default", "web").objects() {
        for rule in object["rules"].as_array_mut().into_iter().flatten() {
            if rule["resources"] == json!([resource]) {
                // A rule without a verb is invalid.
                let granted = rule["verbs"].as_array_mut().unwrap().iter_mut();
                granted.filter(|granted| **granted == verb).for_each(|granted| *granted = json!("none"));
            }
        }
        server.create(&object).unwrap();
    }
    manager
}

fn webhooks() -> Webhooks {
    Webhooks::new().validate("/validate", |_: AdmissionRequest<ConfigMap>| async { Ok::<_, Denied>(()) })
}

#[tokio::test(start_paused = true)]
async fn missing_permission_is_named_with_the_failed_request() {
    let group = "admissionregistration.k8s.io";
    for (verb, resource, operation, rule) in [
        (
            "get",
            "secrets",
            "cannot get the Secret default/web-certificate: ",
            "get secrets of API group \"\" named web-certificate in namespace default; add this rule to a Role",
        ),
        (
            "create",
            "secrets",
            "cannot create the Secret default/web-certificate: ",
            "create secrets of API group \"\" in namespace default; add this rule to a Role",
        ),
        (
            "patch",
            "validatingwebhookconfigurations",
            "cannot write the CA bundle into validatingwebhookconfigurations names: ",
            &*format!(
                "patch validatingwebhookconfigurations of API group {group:?} named names in all namespaces; \
                 add this rule to a ClusterRole"
            ),
        ),
    ] {
        let logged = Logged::begin();
        let server = Server::builder().rbac(true).build();
        let running = tokio::spawn(manager(&server, verb, resource, false).run(pending()));
        sleep(Duration::from_secs(20)).await;
        let text = logged.text_of(|name| name == "kube_operator").replace("\\\"", "\"");
        let failures: Vec<_> = text.lines().filter(|line| line.contains(operation)).collect();
        assert_eq!(failures.len(), 1, "{operation} is logged once:\n{text}");
        let expected = format!("; this account is not allowed to {rule}");
        assert!(failures[0].contains(&expected), "{}", failures[0]);
        running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn cache_without_its_conversion_webhook_fails_with_the_missing_rule() {
    let _logged = Logged::begin();
    let server = Server::builder().rbac(true).build();
    let website = json!({
        "apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "a", "namespace": "default"},
        "spec": {"host": "a.example.com"}
    });
    let manager = manager(&server, "patch", "customresourcedefinitions", true);
    server.create(&website).unwrap();
    let error = manager.run(pending()).await.unwrap_err().to_string();
    let rule = "; this account is not allowed to patch customresourcedefinitions of API group \
                \"apiextensions.k8s.io\" named websites.example.com in all namespaces; \
                add this rule to a ClusterRole";
    assert!(error.ends_with(rule), "{error}");
}

#[tokio::test(start_paused = true)]
async fn unknown_path_is_logged_once_per_interval() {
    let logged = Logged::begin();
    let router = webhooks().router();
    let send = async || {
        let request = Request::post("/absent").body(Body::empty()).unwrap();
        assert_eq!(router.clone().oneshot(request).await.unwrap().status(), 404);
    };
    for _ in 0..5 {
        send().await;
    }
    advance(Duration::from_secs(10)).await;
    send().await;
    let text = logged.text_of(|name| name == "kube_operator");
    let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!((lines("the path /absent, only /validate; "), lines("suppressed=4")), (2, 1), "{text}");
}
