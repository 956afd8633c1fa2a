//! Errors, logs and pages do not contain parts of objects of sensitive kinds, if the server rejects a
//! request or returns invalid JSON. Each test starts with [`Logged::begin`].

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, api::PostParams};
use kube_informer::{CachedApi, InformerFactory, mark_sensitive};
use kube_operator::{
    Action, Applier, Cleanup, Controller, ElectionOptions, EventRecorder, EventType, Failure, Finalizer,
    Manager, ManagerOptions, Request, create_or_update, patch_status, update_status,
};
use kube_testserver::{Fault, RequestMatch, Rule, Server, Verb};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use logged::Logged;
use support::{Site, site};

#[path = "../../informer/tests/support/logged.rs"]
mod logged;
mod support;
#[cfg(feature = "tls")]
#[path = "support/tls.rs"]
mod tls;

const SECOND: Duration = Duration::from_secs(1);

/// Must not appear in errors, logs and pages.
const CONTENTS: &str = "hunter2";

/// An error response that contains parts of an object in each field where servers include them.
fn leaking_status(code: u16, reason: &str) -> Fault {
    mark_sensitive(["ConfigMap", "configmaps"]);
    let invalid = format!("Invalid value: \"{CONTENTS}\": must be longer");
    let cause = json!({"reason": "FieldValueInvalid", "message": invalid, "field": "data.password"});
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("ConfigMap \"a\" is invalid: data.password: {invalid}"),
        "details": {"name": "a", "kind": "configmaps", "causes": [cause]},
    });
    response(code, &status.to_string())
}

fn response(code: u16, body: &str) -> Fault {
    Fault::Raw { status: code, content_type: "application/json".to_owned(), body: body.to_owned().into() }
}

/// Responses, and the expected text of each response.
fn responses() -> [(Fault, &'static str); 4] {
    [
        (
            leaking_status(422, "Invalid"),
            "the server responded with 422 Invalid: configmaps a (data.password)",
        ),
        (
            leaking_status(500, "InternalError"),
            "the server responded with 500 InternalError: configmaps a (data.password)",
        ),
        (response(502, CONTENTS), "the server responded with 502 Bad Gateway"),
        (response(200, &format!("{{\"metadata\": \"{CONTENTS}\"}}")), "unexpected JSON (data, line 1,"),
    ]
}

/// A server with a site, and caches of sites and ConfigMaps.
struct World {
    server: Server,
    client: Client,
    factory: InformerFactory,
    maps: CachedApi<ConfigMap>,
    sites: CachedApi<Site>,
}

impl World {
    async fn new() -> Self {
        let server = support::server(None);
        server.create(&site("a", CONTENTS, &[])).unwrap();
        let client = Client::new(server.service(), "default");
        let factory = InformerFactory::new(client.clone());
        let maps = CachedApi::new(Api::default_namespaced(client.clone()), &factory.informer().unwrap());
        let sites = CachedApi::new(Api::default_namespaced(client.clone()), &factory.informer().unwrap());
        factory.start();
        factory.wait_for_sync(60 * SECOND).await.unwrap();
        Self { server, client, factory, maps, sites }
    }

    /// Creates the map as another client.
    async fn with_map(self) -> Self {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
        self.server.create(&map).unwrap();
        sleep(SECOND).await;
        self
    }

    async fn create_or_update(&self) -> Failure {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".to_owned());
        let written = create_or_update(&self.maps, map, |map| {
            map.data.get_or_insert_default().insert("password".to_owned(), CONTENTS.to_owned());
            Ok(())
        });
        written.await.unwrap_err()
    }

    async fn finalize(&self, finalizer: &Finalizer) -> Failure {
        let site = self.sites.get("a").await.unwrap().unwrap();
        let (apply, clean_up) = (async |_| Ok(Action::Done), async |_| Ok(Cleanup::Done));
        finalizer.reconcile(&self.sites, site, apply, clean_up).await.unwrap_err()
    }
}

/// Calls `fail` with each response. The error must start with `prefix`, contain the expected text,
/// and not contain parts of objects.
async fn fails_without_leak(verb: Verb, prefix: &str, fail: impl AsyncFn(World) -> (World, Failure)) {
    for (fault, expected) in responses() {
        let logged = Logged::begin();
        let world = World::new().await;
        let guard = world.server.faults().always(RequestMatch::verb(verb), fault);
        let (world, failure) = fail(world).await;
        drop(guard);
        let text = failure.to_string();
        assert!(text.starts_with(prefix) && text.contains(expected), "{expected}: {text}");
        let shown = format!("{text} {failure:?} {} {}", failure.error(), logged.text());
        assert!(!shown.contains(CONTENTS), "{expected}: {shown}");
        world.factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_apply_does_not_leak_contents() {
    fails_without_leak(Verb::Patch, "failed to apply configmaps default/a: ", async |world| {
        let asked = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"password": CONTENTS},
        });
        let failure = Applier::new("shop").apply(&world.maps, &asked).await.unwrap_err();
        (world, failure)
    })
    .await;
    fails_without_leak(Verb::Patch, "failed to apply the status of sites default/a: ", async |world| {
        let asked = json!({
            "apiVersion": support::VERSION, "kind": "Site", "metadata": {"name": "a"}, "status": {"said": CONTENTS},
        });
        let failure = Applier::new("shop").apply_status(&world.sites, &asked).await.unwrap_err();
        (world, failure)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn rejected_create_or_update_does_not_leak_contents() {
    fails_without_leak(Verb::Create, "failed to create configmaps default/a: ", async |world| {
        let failure = world.create_or_update().await;
        (world, failure)
    })
    .await;
    fails_without_leak(Verb::Update, "failed to update configmaps default/a: ", async |world| {
        let world = world.with_map().await;
        let failure = world.create_or_update().await;
        (world, failure)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn rejected_status_update_does_not_leak_contents() {
    fails_without_leak(Verb::Update, "failed to update the status of sites default/a: ", async |world| {
        let site = world.sites.get("a").await.unwrap().unwrap();
        let written = update_status(&world.sites, site, |site| {
            site.status.get_or_insert_default().said = CONTENTS.to_owned();
            Ok(())
        });
        let failure = written.await.unwrap_err();
        (world, failure)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn rejected_status_patch_does_not_leak_contents() {
    fails_without_leak(Verb::Patch, "failed to patch the status of sites default/a: ", async |world| {
        let site = world.sites.get("a").await.unwrap().unwrap();
        let written = patch_status(&world.sites, site, |site| {
            site.status.get_or_insert_default().said = CONTENTS.to_owned();
            Ok(())
        });
        let failure = written.await.unwrap_err();
        (world, failure)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn rejected_finalizer_patch_does_not_leak_contents() {
    const OURS: &str = "shop.example.com/site";
    fails_without_leak(
        Verb::Patch,
        "failed to add the finalizer shop.example.com/site to sites default/a: ",
        async |world| {
            let failure = world.finalize(&Finalizer::new(OURS)).await;
            (world, failure)
        },
    )
    .await;
    let being_deleted = async |world: World| {
        let finalizers = json!({"metadata": {"finalizers": [OURS]}});
        world.server.patch_untyped(support::VERSION, "Site", Some("default"), "a", &finalizers).unwrap();
        world.server.delete_untyped(support::VERSION, "Site", Some("default"), "a").unwrap();
        sleep(SECOND).await;
        let failure = world.finalize(&Finalizer::new(OURS)).await;
        (world, failure)
    };
    fails_without_leak(Verb::Get, "failed to read sites default/a from the server", being_deleted).await;
    fails_without_leak(
        Verb::Patch,
        "failed to remove the finalizer shop.example.com/site from sites default/a: ",
        being_deleted,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn lost_event_is_logged_without_contents() {
    let logged = Logged::begin();
    let server = Server::new();
    let client = Client::new(server.service(), "default");
    let stop = CancellationToken::new();
    let (recorder, writer) = EventRecorder::new(client, "example.com/shop", "shop-0", stop.clone()).unwrap();
    let writing = tokio::spawn(writer);
    for fault in [leaking_status(500, "InternalError"), leaking_status(422, "Invalid")] {
        server.faults().next(RequestMatch::verb(Verb::Create).resource("events"), fault);
    }
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "default"}})).unwrap();
    recorder.event(&map, EventType::Normal, "Tested", "Test", CONTENTS);
    while recorder.status().waiting > 0 {
        sleep(SECOND).await;
    }
    assert_eq!(recorder.status().failed, 1);
    stop.cancel();
    writing.await.unwrap();
    let lines = logged.text();
    for expected in [
        "event was not written; giving up",
        "ConfigMap default/a",
        "422 Unprocessable Entity",
        "500 Internal",
    ] {
        assert!(lines.contains(expected), "{expected}: {lines}");
    }
    assert!(!lines.contains(CONTENTS), "{lines}");
}

#[tokio::test(start_paused = true)]
async fn lost_events_are_logged_once_per_ten_seconds() {
    let logged = Logged::begin();
    let server = Server::new();
    let client = Client::new(server.service(), "default");
    let stop = CancellationToken::new();
    let (recorder, writer) = EventRecorder::new(client, "example.com/shop", "shop-0", stop.clone()).unwrap();
    let writing = tokio::spawn(writer);
    let _refused = server
        .faults()
        .always(RequestMatch::verb(Verb::Create).resource("events"), Fault::status(403, "Forbidden", None));
    for round in 0..2 {
        for number in 0..100 {
            let name = format!("a-{round}-{number}");
            let map = json!({"metadata": {"name": name, "namespace": "default"}});
            let map: ConfigMap = serde_json::from_value(map).unwrap();
            recorder.event(&map, EventType::Normal, "Tested", "Test", "");
            recorder.event(&map, EventType::Normal, "", "Test", "");
        }
        sleep(11 * SECOND).await;
    }
    assert_eq!((recorder.status().failed, recorder.status().dropped.invalid), (200, 200));
    stop.cancel();
    writing.await.unwrap();
    let lines = logged.text_of(|name| name == "kube_operator");
    for (message, times) in [
        ("message=event was not written; giving up\n", 2),
        ("message=invalid event dropped", 2),
        ("suppressed=0\n", 2),
        ("suppressed=99\n", 2),
    ] {
        assert_eq!(lines.matches(message).count(), times, "{message}: {lines}");
    }
}

/// The text of a page.
async fn page(address: std::net::SocketAddr, path: &str) -> String {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    timeout(30 * SECOND, asked).await.unwrap().unwrap()
}

/// A reconciler that creates a ConfigMap with a plain client, and returns errors with `?`.
async fn copy(client: Client) -> Result<Action, Failure> {
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "copy"}}))?;
    Api::default_namespaced(client).create(&PostParams::default(), &map).await?;
    Ok(Action::Done)
}

/// The clock is not paused, because pages are served over a socket. The logs of kube-client are
/// excluded: kube-client logs error responses at level debug, and responses that it cannot decode.
#[tokio::test]
async fn failed_request_of_reconciler_does_not_leak_contents() {
    for (fault, expected) in responses() {
        let logged = Logged::begin();
        let world = World::new().await.with_map().await;
        world.factory.shutdown().await;
        let address = Some(([127, 0, 0, 1], 0).into());
        let options = ManagerOptions { bind_address: address, ..ManagerOptions::default() };
        let mut manager = Manager::new(world.client.clone(), options).unwrap();
        let address = manager.local_address().unwrap();
        let controller = Controller::new(&manager.factory().informer::<ConfigMap>().unwrap());
        let client = manager.client();
        manager.add_controller(controller, move |_: Request<ConfigMap>| copy(client.clone()));
        let _guard =
            world.server.faults().always(RequestMatch::verb(Verb::Create).resource("configmaps"), fault);
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let running = tokio::spawn(manager.run(stopped));

        let why = async {
            loop {
                let why = page(address, "/debug/why/configmap/default/a").await;
                if why.contains(expected) {
                    return why;
                }
                sleep(SECOND / 100).await;
            }
        };
        let why = timeout(30 * SECOND, why).await.unwrap_or_else(|_| panic!("not on the page: {expected}"));
        let mut pages = why;
        for path in ["/debug/queues", "/readyz", "/", "/ui/reconciles", "/ui/key/configmap/default/a"] {
            pages.push_str(&page(address, path).await);
        }
        stop.cancel();
        running.await.unwrap().unwrap();
        let lines = logged.text_of(|name| name != "kube_client");
        assert!(lines.contains(&format!("kube_operator: failure={expected}")), "{lines}");
        assert!(!format!("{pages}{lines}").contains(CONTENTS), "{expected}: {pages}{lines}");
    }
}

/// However fast the caches are filled: the reviews are still on their way then.
#[tokio::test(start_paused = true)]
async fn missing_permission_is_logged_at_the_start() {
    let logged = Logged::begin();
    let server = Server::new();
    for (verb, resource) in [("patch", "deployments/status"), ("create", "leases"), ("watch", "secrets")] {
        server.access().add_rule(Rule::deny().verbs(&[verb]).resources(&[resource]));
    }
    let _slow = server
        .faults()
        .always(RequestMatch::any().resource("selfsubjectaccessreviews"), Fault::Delay(5 * SECOND));
    let election = Some(ElectionOptions::new("default", "operator"));
    let options = ManagerOptions { bind_address: None, election, ..ManagerOptions::default() };
    let mut manager = Manager::new(Client::new(server.service(), "default"), options).unwrap();
    manager.require_permissions(&["patch"], "apps", "deployments/status", None);
    let _maps = manager.factory().informer::<ConfigMap>().unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    sleep(30 * SECOND).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let lines = logged.text_of(|name| name == "kube_operator");
    assert_eq!(lines.matches("message=RBAC permission is missing\n").count(), 2, "{lines}");
    for rule in [
        "is not allowed to patch deployments/status of API group \"apps\"",
        "is not allowed to create leases of",
    ] {
        assert!(lines.contains(&format!("rule={rule}")), "{rule}: {lines}");
    }
}

/// A server or a proxy may repeat the token of a TokenReview in its response. The clock is not paused,
/// because pages are served over a socket.
#[cfg(feature = "tls")]
#[tokio::test]
async fn failed_token_review_does_not_leak_the_token() {
    for (fault, expected) in [
        (leaking_status(422, "Invalid"), "the server responded with 422 Invalid"),
        (response(502, CONTENTS), "the server responded with 502"),
        (response(200, &format!("{{\"metadata\": \"{CONTENTS}\"}}")), "unexpected JSON (data, line 1,"),
    ] {
        let logged = Logged::begin();
        let (certificates, server) = (tls::Certificates::new(), Server::new());
        let options = ManagerOptions {
            bind_address: Some(([127, 0, 0, 1], 0).into()),
            secure_serving: Some(certificates.options(true)),
            ..ManagerOptions::default()
        };
        let manager = Manager::new(Client::new(server.service(), "default"), options).unwrap();
        let address = manager.local_address().unwrap();
        let _guard = server.faults().always(RequestMatch::verb(Verb::Create).resource("tokenreviews"), fault);
        let stop = CancellationToken::new();
        let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
        for _ in 0..2 {
            let response = certificates.get(address, "/metrics", Some(CONTENTS)).await.unwrap();
            assert!(response.code == 503 && !response.text.contains(CONTENTS), "{response:?}");
        }
        stop.cancel();
        running.await.unwrap().unwrap();
        let lines = logged.text();
        let warning = format!("kube_operator: error=cannot create a TokenReview: {expected}");
        assert_eq!(lines.matches(&warning).count(), 1, "{expected}: {lines}");
        assert!(!lines.contains(CONTENTS), "{expected}: {lines}");
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn self_signed_certificate_is_reported_once() {
    let logged = Logged::begin();
    let certificate = kube_operator::CertificateSource::SelfSigned;
    let options = ManagerOptions {
        bind_address: Some(([127, 0, 0, 1], 0).into()),
        secure_serving: Some(kube_operator::SecureServing { certificate, authorize: false }),
        ..ManagerOptions::default()
    };
    let manager = Manager::new(Client::new(Server::new().service(), "default"), options).unwrap();
    let address = manager.local_address().unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    for _ in 0..2 {
        assert_eq!(tls::get_unverified(address, "/healthz").await.unwrap().code, 200);
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    let warning = "the pages use a self-signed certificate, which clients cannot verify";
    assert_eq!(logged.text().matches(warning).count(), 1, "{}", logged.text());
}
