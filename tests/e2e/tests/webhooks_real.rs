//! Webhooks of a manager on a real API server: conversion of stored objects under load, renewed certificates,
//! a killed manager, and both failure policies.

use std::{
    future::pending,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    api::{
        admissionregistration::v1::ValidatingWebhookConfiguration,
        core::v1::{ConfigMap, Secret},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{CustomResource, CustomResourceExt};
use kube_client::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use kube_informer_e2e::real::{Options, RealServer};
use kube_operator::{
    Manager, ManagerOptions, wait_for_crd,
    webhook::{
        AdmissionRequest, CaBundleTarget, Conversion, Denied, SecretCertificate, WebhookCertificate,
        WebhookOptions, Webhooks,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

const CRD: &str = "websites.example.com";
const SECRET: &str = "web-certificate";
const WEBSITES: usize = 50;

#[derive(Clone, Debug, Deserialize, Serialize, CustomResource, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
struct WebsiteSpec {
    hosts: Vec<String>,
}

mod v1beta1 {
    use super::*;

    #[derive(Clone, Debug, Deserialize, Serialize, CustomResource, JsonSchema)]
    #[kube(group = "example.com", version = "v1beta1", kind = "Website", namespaced)]
    pub(crate) struct WebsiteSpec {
        pub(crate) host: String,
    }
}

impl From<v1beta1::Website> for Website {
    fn from(old: v1beta1::Website) -> Self {
        Self { metadata: old.metadata, spec: WebsiteSpec { hosts: vec![old.spec.host] } }
    }
}

impl TryFrom<Website> for v1beta1::Website {
    type Error = &'static str;

    fn try_from(new: Website) -> Result<Self, Self::Error> {
        let host = new.spec.hosts.into_iter().next().ok_or("spec.hosts is empty")?;
        Ok(Self { metadata: new.metadata, spec: v1beta1::WebsiteSpec { host } })
    }
}

fn webhooks() -> Webhooks {
    Webhooks::new()
        .validate("/validate", |request: AdmissionRequest<ConfigMap>| async move {
            if request.name == "denied" { Err(Denied::new("this name is reserved")) } else { Ok(()) }
        })
        .convert("/convert", Conversion::<Website>::new().version::<v1beta1::Website>())
}

/// A running manager that serves the webhooks. Dropping it kills the manager.
struct Replica {
    address: SocketAddr,
    _running: AbortOnDropHandle<()>,
}

impl Replica {
    fn start(client: Client) -> Result<Self> {
        let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
        let mut manager = Manager::new(client, options)?;
        let targets = [CaBundleTarget::Validating("names".into()), CaBundleTarget::Crd(CRD.into())];
        let certificate = SecretCertificate {
            names: vec!["127.0.0.1".into()],
            publish_delay: Duration::from_secs(2),
            ..SecretCertificate::new("default", SECRET, "web", targets)
        };
        let options = WebhookOptions {
            bind_address: ([127, 0, 0, 1], 0).into(),
            ..WebhookOptions::new(WebhookCertificate::Secret(certificate))
        };
        manager.serve_webhooks(webhooks(), options)?;
        let address = manager.local_webhook_address().context("an address")?;
        let running = tokio::spawn(async move {
            manager.run(pending()).await.expect("the manager runs until it is dropped");
        });
        Ok(Self { address, _running: AbortOnDropHandle::new(running) })
    }
}

/// Forwards connections to the current replica, like a Service.
struct Service {
    address: SocketAddr,
    current: watch::Sender<SocketAddr>,
    _task: AbortOnDropHandle<()>,
}

impl Service {
    async fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (current, receiver) = watch::channel(target);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let target = *receiver.borrow();
                connections.spawn(async move {
                    // A killed replica does not accept the connection, which the caller observes as closed.
                    if let Ok(mut far) = TcpStream::connect(target).await {
                        let _ = copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        });
        Ok(Self { address, current, _task: AbortOnDropHandle::new(task) })
    }

    fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address)})
    }
}

async fn install(client: &Client, service: &Service) -> Result<()> {
    let crds = vec![v1beta1::Website::crd(), Website::crd()];
    let mut crd = serde_json::to_value(kube::core::crd::merge_crds(crds, "v1")?)?;
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": service.client_config("/convert")
    }});
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    crds.create(&PostParams::default(), &serde_json::from_value(crd)?).await?;
    wait_for_crd(client, CRD, Duration::from_secs(30)).await?;
    let configuration = json!({
        "metadata": {"name": "names"},
        "webhooks": [{
            "name": "names.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "timeoutSeconds": 5, "clientConfig": service.client_config("/validate"),
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]
            }]
        }]
    });
    let configurations = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    configurations.create(&PostParams::default(), &serde_json::from_value(configuration)?).await?;
    Ok(())
}

/// Waits until the operation succeeds.
async fn eventually<T, E: std::fmt::Debug>(mut operation: impl AsyncFnMut() -> Result<T, E>) -> Result<T> {
    let mut last = None;
    let attempts = async {
        loop {
            match operation().await {
                Ok(value) => return value,
                Err(error) => last = Some(error),
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let succeeded = timeout(Duration::from_secs(60), attempts).await;
    succeeded.with_context(|| format!("the operation does not succeed within a minute: {last:?}"))
}

fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object
}

/// Writes and reads in both versions until it is stopped. Counts the operations and the rejected operations.
#[derive(Default)]
struct Load {
    stops: AtomicBool,
    done: AtomicUsize,
    refused: AtomicUsize,
}

impl Load {
    async fn run(self: Arc<Self>, client: Client, writer: usize) -> Result<()> {
        let old = Api::<v1beta1::Website>::default_namespaced(client.clone());
        let new = Api::<Website>::default_namespaced(client.clone());
        let configs = Api::<ConfigMap>::default_namespaced(client);
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let mut number = 0;
        while !self.stops.load(Ordering::Relaxed) {
            number += 1;
            // Each writer has its own objects, so there are no conflicts.
            let name = format!("site-{}", (writer * WEBSITES + number % WEBSITES) % (4 * WEBSITES));
            let host = format!("host-{number}.example.com");
            let patch = json!({"spec": {"host": host}});
            let written = old.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
            let listed = old.list(&ListParams::default().limit(20)).await.map(drop);
            let admitted = configs.create(&dry_run, &config_map("permitted")).await.map(drop);
            if written.is_ok() {
                // The storage version needs no webhook.
                let stored = new.get(&name).await?;
                ensure!(stored.spec.hosts == [host], "{name} lost a write: {:?}", stored.spec.hosts);
            }
            for result in [written.map(drop), listed, admitted] {
                self.done.fetch_add(1, Ordering::Relaxed);
                if let Err(error) = result {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    eprintln!("refused: {error}");
                }
            }
        }
        Ok(())
    }

    /// Waits for this number of further operations.
    async fn progress(&self, count: usize) -> Result<()> {
        let target = self.done.load(Ordering::Relaxed) + count;
        let is_done = || self.done.load(Ordering::Relaxed) >= target;
        eventually(async || if is_done() { Ok(()) } else { Err("the load has stopped") }).await
    }
}

/// Makes the certificate due for a renewal, and waits until it is renewed completely.
async fn renew(secrets: &Api<Secret>) -> Result<()> {
    const ROTATION: &str = "kube-informer.dev/certificate-rotation";
    let read = |secret: &Secret| -> Option<Value> {
        serde_json::from_str(secret.metadata.annotations.as_ref()?.get(ROTATION)?).ok()
    };
    let served = |secret: &Secret| secret.data.as_ref().and_then(|data| data.get("tls.crt").cloned());
    let before = served(&secrets.get(SECRET).await?);
    let created = (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(300 * 24)).to_string();
    eventually(async || {
        let mut secret = secrets.get(SECRET).await?;
        let mut rotation = read(&secret).unwrap_or_default();
        rotation["created"] = json!(created);
        secret.metadata.annotations.get_or_insert_default().insert(ROTATION.into(), rotation.to_string());
        secrets.replace(SECRET, &PostParams::default(), &secret).await
    })
    .await?;
    eventually(async || {
        let secret = secrets.get(SECRET).await.map_err(|error| error.to_string())?;
        let is_stable = read(&secret).is_some_and(|rotation| rotation["stage"] == "stable");
        if is_stable && served(&secret) != before { Ok(()) } else { Err("not renewed".to_owned()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_serve_real_server() -> Result<()> {
    let Some(server) = RealServer::start_or_skip("webhooks_real", 1, Options::default()).await? else {
        return Ok(());
    };
    let client = server.client().await?;
    let one = Replica::start(client.clone())?;
    let two = Replica::start(client.clone())?;
    let service = Service::start(one.address).await?;
    install(&client, &service).await?;

    let new = Api::<Website>::default_namespaced(client.clone());
    for number in 0..4 * WEBSITES {
        let spec = WebsiteSpec { hosts: vec!["first.example.com".into()] };
        new.create(&PostParams::default(), &Website::new(&format!("site-{number}"), spec)).await?;
    }
    let old = Api::<v1beta1::Website>::default_namespaced(client.clone());
    let configs = Api::<ConfigMap>::default_namespaced(client.clone());
    let listed = eventually(async || old.list(&ListParams::default()).await).await?;
    ensure!(listed.items.len() == 4 * WEBSITES);
    ensure!(listed.items.iter().all(|website| website.spec.host == "first.example.com"));
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    eventually(async || configs.create(&dry_run, &config_map("permitted")).await).await?;
    let denied = configs.create(&dry_run, &config_map("denied")).await.map(drop).unwrap_err().to_string();
    ensure!(
        denied.contains("admission webhook \"names.example.com\" denied the request: this name is reserved")
    );

    let load = Arc::new(Load::default());
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        writers.spawn(Arc::clone(&load).run(client.clone(), writer));
    }
    let secrets = Api::<Secret>::default_namespaced(client.clone());
    for _ in 0..2 {
        load.progress(100).await?;
        renew(&secrets).await?;
    }
    load.progress(100).await?;
    ensure!(load.refused.load(Ordering::Relaxed) == 0, "requests failed during a renewal");

    // The replica exits while it converts objects. Requests fail until the Service has removed it.
    drop(one);
    sleep(Duration::from_millis(500)).await;
    service.current.send_replace(two.address);
    eventually(async || old.list(&ListParams::default()).await).await?;
    let refused = load.refused.load(Ordering::Relaxed);
    ensure!(refused > 0, "the load did not observe the kill");
    sleep(Duration::from_secs(1)).await;
    let refused = load.refused.load(Ordering::Relaxed);
    load.progress(200).await?;
    ensure!(load.refused.load(Ordering::Relaxed) == refused, "requests fail after the Service was updated");
    load.stops.store(true, Ordering::Relaxed);
    while let Some(writer) = writers.join_next().await {
        writer??;
    }

    // Without a replica, the failure policy decides.
    drop(two);
    let error = configs.create(&dry_run, &config_map("permitted")).await.map(drop).unwrap_err().to_string();
    ensure!(error.contains("failed calling webhook \"names.example.com\""), "{error}");
    let policy = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    let policy: json_patch_of_kube::Patch = serde_json::from_value(policy)?;
    let configurations = Api::<ValidatingWebhookConfiguration>::all(client);
    configurations.patch("names", &PatchParams::default(), &Patch::<()>::Json(policy)).await?;
    eventually(async || configs.create(&dry_run, &config_map("permitted")).await).await?;
    server.stop().await
}
