//! A webhook over HTTPS for one check, and its configuration on the server under test.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, crypto, pki_types::PrivateKeyDer};

use super::custom::LOOK_AGAIN;
use super::place::Place;
use super::raw::Reply;

/// The label of the objects that find out whether the server under test uses a configuration.
const PROBE: &str = "webhook-probe";

/// Returns the response to a request. The path selects the webhook.
type Respond = dyn Fn(&str, &Value) -> Value + Send + Sync;

pub(super) struct WebhookServer<'a> {
    pub(super) place: &'a Place,
    url: String,
    bundle: String,
    received: Arc<Mutex<Vec<Value>>>,
    /// Stops the webhook when it is dropped.
    _task: JoinSet<()>,
}

impl<'a> WebhookServer<'a> {
    /// Starts a webhook. Returns `None` under a paused clock, because timeouts then expire while a request
    /// waits for a socket.
    pub(super) async fn start(
        place: &'a Place,
        respond: impl Fn(&str, &Value) -> Value + Send + Sync + 'static,
    ) -> Result<Option<Self>> {
        let before = Instant::now();
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        if before.elapsed().is_zero() {
            return Ok(None);
        }
        let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("https://{}", listener.local_addr()?);
        let received = Arc::new(Mutex::default());
        let mut task = JoinSet::new();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        task.spawn(accept(listener, acceptor, Arc::new(respond), Arc::clone(&received)));
        let bundle = BASE64_STANDARD.encode(certified.cert.pem());
        Ok(Some(Self { place, url, bundle, received, _task: task }))
    }

    /// Returns the `clientConfig` of this webhook.
    pub(super) fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("{}/{path}", self.url), "caBundle": self.bundle})
    }

    /// Returns a webhook for the ConfigMaps of the check. `changes` replaces fields.
    pub(super) fn webhook(&self, name: &str, mut changes: Value) -> Value {
        let mut webhook = json!({
            "name": format!("{name}.test.io"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": self.client_config(name),
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.place.namespace}},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"],
            }],
        });
        for (key, value) in changes.as_object_mut().into_iter().flatten() {
            webhook[key] = value.take();
        }
        webhook
    }

    /// Stores a configuration, and waits until the server uses it. `kind` is `Validating` or `Mutating`.
    pub(super) async fn install(&self, kind: &str, webhooks: Vec<Value>) -> Result<()> {
        let selector = json!({"matchLabels": {PROBE: kind}});
        let probe = self.webhook("probe", json!({"objectSelector": selector}));
        let webhooks: Vec<Value> = [probe].into_iter().chain(webhooks).collect();
        let plural = format!("{}webhookconfigurations", kind.to_lowercase());
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        let configuration = json!({
            "metadata": {"name": self.place.namespace}, "webhooks": webhooks,
            "kind": format!("{kind}WebhookConfiguration"), "apiVersion": "admissionregistration.k8s.io/v1",
        });
        self.place.admin().post(&path, &configuration).await?.expect(201)?;
        let object = json!({"metadata": {"generateName": "probe-", "labels": {PROBE: kind}}});
        let probe = format!("{}?dryRun=All", self.place.all());
        while self.place.admin().post(&probe, &object).await?.status != 418 {
            sleep(LOOK_AGAIN).await;
        }
        self.received();
        Ok(())
    }

    /// Returns the requests since the last call.
    pub(super) fn received(&self) -> Vec<Value> {
        std::mem::take(&mut *self.received.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the last request since the last call. A server may repeat a review, if its cache had an older
    /// state of the object.
    pub(super) fn request(&self) -> Result<Value> {
        self.received().pop().ok_or_else(|| anyhow!("the webhook received no request"))
    }

    /// Creates a ConfigMap.
    pub(super) async fn post(&self, name: &str) -> Result<Reply> {
        let object = json!({"metadata": {"name": name}, "data": {"a": "1"}});
        self.place.admin().post(&self.place.all(), &object).await
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    responder: Arc<Respond>,
    received: Arc<Mutex<Vec<Value>>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, acceptor.clone(), Arc::clone(&responder), Arc::clone(&received)));
    }
}

async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    responder: Arc<Respond>,
    received: Arc<Mutex<Vec<Value>>>,
) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(|request| respond(request, Arc::clone(&responder), Arc::clone(&received)));
    // The server under test may close the connection at any time.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

async fn respond(
    request: Request<Incoming>,
    responder: Arc<Respond>,
    received: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut request = review["request"].clone();
    let mut response = if path == "probe" {
        json!({"allowed": false, "status": {"code": 418}})
    } else {
        responder(&path, &request)
    };
    if response["hang"] == true {
        std::future::pending::<()>().await;
    }
    request["path"] = json!(path);
    received.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    if response.get("uid").is_none() {
        response["uid"] = review["request"]["uid"].clone();
    }
    let review = json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
    Ok(Response::builder()
        .header("content-type", "application/json")
        .body(review.to_string().into())
        .unwrap_or_default())
}
