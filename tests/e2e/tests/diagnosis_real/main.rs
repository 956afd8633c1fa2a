//! The texts of failures, with the messages of a real API server: each text contains the cause.

mod authorization;
#[path = "../../../../crates/operator/tests/support/tls.rs"]
#[expect(dead_code, reason = "other tests use all functions")]
mod tls;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    core::v1::{ConfigMap, Namespace, ResourceQuota, Secret, Service},
};
use kube_client::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use kube_informer_e2e::{
    real::{Options, RealServer},
    webhook::Webhook,
};
use kube_operator::{
    Applier, Failure, Manager, ManagerOptions,
    informer::{ApiObject, CachedApi, InformerFactory, Scope},
};
use serde_json::{Value, json};
use tokio::time::sleep;

/// The value of the objects. It is visible for a ConfigMap, and never for a Secret.
const VALUE: &str = "hunter2";

#[tokio::test]
async fn failures_name_their_cause() -> Result<()> {
    let Some(server) = RealServer::start_or_skip("diagnosis_real", 1, Options::default()).await? else {
        return Ok(());
    };
    let (client, nobody) = (server.client().await?, server.client_as_nobody().await?);
    let factory = InformerFactory::new(client.clone());
    factory.start();
    missing_right(&factory, &client, &nobody).await?;
    invalid_field(&factory, &client).await?;
    quota(&factory, &client).await?;
    terminating_namespace(&factory, &client).await?;
    rejecting_webhook(&factory, &client).await?;
    absent_webhook(&factory, &client).await?;
    other_field_manager(&factory, &client).await?;
    missing_crd(&client).await?;
    authorization::pages_require_a_token_with_the_permission(&client).await?;
    factory.shutdown().await;
    server.stop().await
}

/// Applies an object, and returns the text of the failure.
async fn failure<K: ApiObject>(cached: &CachedApi<K>, object: &Value) -> Result<String> {
    let result = Applier::new("diagnosis").without_annotation().apply(cached, object).await;
    Ok(result.err().context("the apply did not fail")?.to_string())
}

async fn cached<K>(factory: &InformerFactory, client: &Client, namespace: &str) -> Result<CachedApi<K>>
where
    K: ApiObject + kube_client::Resource<DynamicType = (), Scope = kube_client::core::NamespaceResourceScope>,
{
    let informer = factory.informer::<K>()?;
    informer.wait_for_sync(Duration::from_secs(60)).await?;
    Ok(CachedApi::new(Api::namespaced(client.clone(), namespace), &informer))
}

fn config_map(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"test": name}},
        "data": {"password": VALUE},
    })
}

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"test": name}},
        "stringData": {"password": VALUE},
    })
}

fn check(text: &str, expected: &str) -> Result<()> {
    ensure!(text == expected, "the text is\n{text}\nand not\n{expected}");
    Ok(())
}

fn check_start(text: &str, expected: &str) -> Result<()> {
    ensure!(text.starts_with(expected), "the text is\n{text}\nand does not start with\n{expected}");
    Ok(())
}

async fn missing_right(factory: &InformerFactory, client: &Client, nobody: &Client) -> Result<()> {
    let maps = cached::<ConfigMap>(factory, client, "default").await?;
    let secrets = cached::<Secret>(factory, client, "default").await?;
    let maps = maps.with_api(Api::default_namespaced(nobody.clone()));
    let secrets = secrets.with_api(Api::default_namespaced(nobody.clone()));
    let right = |resource: &str| {
        format!(
            "User \"nobody\" cannot patch resource \"{resource}\" in API group \"\" in the namespace \"default\""
        )
    };
    let text = failure(&maps, &config_map("a")).await?;
    let expected = format!(
        "failed to apply configmaps default/a: the server responded with 403 Forbidden: configmaps \"a\" is forbidden: {}",
        right("configmaps")
    );
    check(&text, &expected)?;
    let text = failure(&secrets, &secret("a")).await?;
    ensure!(text.contains(&right("secrets")), "{text}");
    Ok(())
}

async fn invalid_field(factory: &InformerFactory, client: &Client) -> Result<()> {
    let services = cached::<Service>(factory, client, "default").await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 70_000, "targetPort": 80}]},
    });
    check(
        &failure(&services, &service).await?,
        "failed to apply services default/web: the server responded with 422 Invalid: Service \"web\" is invalid: \
         spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
    )?;
    let secrets = cached::<Secret>(factory, client, "default").await?;
    let mut invalid = secret("a");
    invalid["stringData"] = json!({"not a key": VALUE});
    let text = failure(&secrets, &invalid).await?;
    check(
        &text,
        "failed to apply secrets default/a: the server responded with 422 Invalid: secrets a (data[not a key])",
    )
}

async fn quota(factory: &InformerFactory, client: &Client) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace("full")?).await?;
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), "full");
    let hard = json!({"count/configmaps": "0", "count/secrets": "0"});
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": hard}});
    quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    // A controller sets the status, and the server starts without controllers.
    let status = json!({"status": {"hard": hard, "used": {"count/configmaps": "0", "count/secrets": "0"}}});
    quotas.patch_status("none", &PatchParams::default(), &Patch::Merge(status)).await?;

    let maps = cached::<ConfigMap>(factory, client, "full").await?;
    let exceeded = |resource: &str| {
        format!(
            "exceeded quota: none, requested: count/{resource}=1, used: count/{resource}=0, limited: count/{resource}=0"
        )
    };
    let text =
        eventually(async |attempt| failure(&maps, &config_map(&format!("map-{attempt}"))).await).await?;
    ensure!(text.contains(&exceeded("configmaps")), "{text}");
    let secrets = cached::<Secret>(factory, client, "full").await?;
    let text = failure(&secrets, &secret("a")).await?;
    ensure!(text.contains(&exceeded("secrets")) && !text.contains(VALUE), "{text}");
    Ok(())
}

/// The namespace controller does not run, so the namespace stays in the phase Terminating.
async fn terminating_namespace(factory: &InformerFactory, client: &Client) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace("gone")?).await?;
    namespaces.delete("gone", &Default::default()).await?;
    let cause = "because it is being terminated";
    let maps = cached::<ConfigMap>(factory, client, "gone").await?;
    let text =
        eventually(async |attempt| failure(&maps, &config_map(&format!("map-{attempt}"))).await).await?;
    ensure!(text.contains(cause), "{text}");
    let secrets = cached::<Secret>(factory, client, "gone").await?;
    let text = failure(&secrets, &secret("a")).await?;
    ensure!(text.contains(cause) && !text.contains(VALUE), "{text}");
    Ok(())
}

async fn rejecting_webhook(factory: &InformerFactory, client: &Client) -> Result<()> {
    // The message contains a part of the object, so it must not be visible for a Secret.
    let webhook = Webhook::start("the value hunter2 is not allowed").await?;
    register(client, "rejecting", &webhook.client_config()).await?;
    let maps = cached::<ConfigMap>(factory, client, "default").await?;
    let text = eventually(async |_| failure(&maps, &config_map("rejecting")).await).await?;
    check(
        &text,
        "failed to apply configmaps default/rejecting: the server responded with 400 Bad Request: admission webhook \
         \"rejecting.example.com\" denied the request: the value hunter2 is not allowed",
    )?;
    let secrets = cached::<Secret>(factory, client, "default").await?;
    let text = failure(&secrets, &secret("rejecting")).await?;
    check(
        &text,
        "failed to apply secrets default/rejecting: the server responded with 400 Bad Request: admission webhook \
         \"rejecting.example.com\" denied the request",
    )
}

async fn absent_webhook(factory: &InformerFactory, client: &Client) -> Result<()> {
    let mut config = Webhook::start("stopped").await?.client_config();
    config["url"] = json!("https://127.0.0.1:1/");
    register(client, "absent", &config).await?;
    let secrets = cached::<Secret>(factory, client, "default").await?;
    let text = eventually(async |_| failure(&secrets, &secret("absent")).await).await?;
    check_start(
        &text,
        "failed to apply secrets default/absent: the server responded with 500 InternalError: secrets: failed \
         calling webhook \"absent.example.com\"",
    )?;
    ensure!(!text.contains(VALUE), "{text}");
    Ok(())
}

async fn other_field_manager(factory: &InformerFactory, client: &Client) -> Result<()> {
    let maps = cached::<ConfigMap>(factory, client, "default").await?;
    Applier::new("other")
        .apply(&maps, &config_map("shared"))
        .await
        .map_err(Failure::into_error)
        .map_err(anyhow::Error::from_boxed)?;
    let mut changed = config_map("shared");
    changed["data"]["password"] = json!("another");
    check(
        &failure(&maps, &changed).await?,
        "failed to apply configmaps default/shared: another field manager has set a field to another value; do not apply this \
         field, or enable `force`: the server responded with 409 Conflict: \
         Apply failed with 1 conflict: conflict with \"other\": .data.password",
    )
}

async fn missing_crd(client: &Client) -> Result<()> {
    let options = ManagerOptions {
        bind_address: None,
        cache_sync_timeout: Duration::from_secs(5),
        ..ManagerOptions::default()
    };
    let manager = Manager::new(client.clone(), options)?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Absent"));
    let _absent = manager.factory().dynamic_informer::<DynamicObject>(&resource, Scope::Namespaced)?;
    let error = manager.run(std::future::pending()).await.err().context("the manager did not fail")?;
    check_start(
        &error.to_string(),
        "caches not synced within 5s: Absent /apis/example.com/v1/absents: LIST \
         /apis/example.com/v1/absents?limit=500: server responded with 404 Not Found; the server does not have this \
         resource; install its CRD with this version, or check the group and version",
    )
}

fn namespace(name: &str) -> Result<Namespace> {
    Ok(serde_json::from_value(json!({"metadata": {"name": name}}))?)
}

/// Registers a webhook for objects with the label `test: NAME`.
async fn register(client: &Client, name: &str, client_config: &Value) -> Result<()> {
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps", "secrets"], "scope": "*",
    });
    let webhook = json!({
        "name": format!("{name}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "failurePolicy": "Fail", "timeoutSeconds": 5, "rules": [rule],
        "objectSelector": {"matchLabels": {"test": name}},
        "clientConfig": client_config,
    });
    let configuration: ValidatingWebhookConfiguration =
        serde_json::from_value(json!({"metadata": {"name": name}, "webhooks": [webhook]}))?;
    Api::all(client.clone()).create(&PostParams::default(), &configuration).await?;
    Ok(())
}

/// Repeats `attempt` until it fails as expected. The server reads quotas, namespaces and webhooks from its
/// caches, so a first apply can succeed.
async fn eventually(attempt: impl AsyncFn(usize) -> Result<String>) -> Result<String> {
    let mut last = None;
    for number in 0..100 {
        match attempt(number).await {
            Ok(text) => return Ok(text),
            Err(error) => last = Some(error),
        }
        sleep(Duration::from_millis(100)).await;
    }
    Err(last.context("no attempt")?)
}
