//! Tests of TLS and authorization of the pages.

use std::{net::SocketAddr, sync::Mutex};

use http::Request as HttpRequest;
use http_body_util::BodyExt;
use kube_client::client::Body;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{advance, pause, resume, timeout},
};
use tower::ServiceExt;

use kube_operator::{
    CertificateSource, SecureServing,
    axum::{http::StatusCode, middleware, routing},
};

use super::{
    requests::get,
    tls::{Certificates, get_unverified},
    *,
};

/// The bodies of the reviews that the manager sent: the resource and the `spec`.
type Reviews = Arc<Mutex<Vec<(String, Value)>>>;

fn options(certificates: &Certificates, authorize: bool) -> ManagerOptions {
    let loopback = Some(([127, 0, 0, 1], 0).into());
    ManagerOptions {
        bind_address: loopback,
        probe_address: loopback,
        secure_serving: Some(certificates.options(authorize)),
        ..ManagerOptions::default()
    }
}

/// Creates a manager with secure pages.
fn world(certificates: &Certificates, authorize: bool) -> (World, SocketAddr, Reviews) {
    let (server, reviews) = (Server::new(), Reviews::default());
    let (service, records) = (server.service(), Arc::clone(&reviews));
    let service = tower::service_fn(move |request: HttpRequest<Body>| {
        let (service, records) = (service.clone(), Arc::clone(&records));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let resource = parts.uri.path().rsplit('/').next().unwrap().to_owned();
            if resource.ends_with("reviews") {
                let review: Value = serde_json::from_slice(&body).unwrap();
                records.lock().unwrap().push((resource, review["spec"].clone()));
            }
            service.oneshot(HttpRequest::from_parts(parts, Body::from(body))).await
        }
    });
    let client = Client::new(service, "default");
    let manager = Manager::new(client.clone(), options(certificates, authorize)).unwrap();
    let address = manager.local_address().unwrap();
    (World { server, client, manager, stop: CancellationToken::new() }, address, reviews)
}

/// Returns the certificate that the manager serves, as DER.
async fn served(certificates: &Certificates, address: SocketAddr) -> Vec<u8> {
    let stream = timeout(30 * SECOND, certificates.connect(address)).await.unwrap().unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

/// Moves the clock. The sockets of the tests need a running clock before and after.
async fn pass(time: Duration) {
    pause();
    advance(time).await;
    resume();
}

fn create(resource: &str) -> RequestMatch {
    RequestMatch::verb(Verb::Create).resource(resource)
}

fn token_review(status: &Value) -> Fault {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {},
        "spec": {"token": "secret"}, "status": status});
    Fault::json(review.to_string())
}

fn access_review(allowed: bool) -> Fault {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "metadata": {}, "spec": {}, "status": {"allowed": allowed}});
    Fault::json(review.to_string())
}

fn prometheus() -> Value {
    let user =
        json!({"username": "prometheus", "uid": "7", "groups": ["monitoring"], "extra": {"pod": ["a"]}});
    json!({"authenticated": true, "user": user})
}

#[tokio::test]
async fn pages_are_served_only_over_tls() {
    let certificates = Certificates::new();
    let (world, address, _) = world(&certificates, false);
    let probes = world.manager.local_probe_address().unwrap();
    let (_, stop, running) = world.run();
    let metrics = certificates.get(address, "/metrics", None).await.unwrap();
    assert!(metrics.code == 200 && metrics.text.contains("# EOF"), "{metrics:?}");
    assert_eq!(get(probes, "/healthz").await.0, 200, "the probe address uses plain HTTP");

    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _closed_or_reset = timeout(30 * SECOND, plain.read_to_end(&mut answer)).await.unwrap();
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");

    let error = Certificates::new().get(address, "/metrics", None).await.unwrap_err();
    assert!(error.to_string().contains("invalid peer certificate"), "another authority: {error}");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn replaced_certificate_is_served_and_invalid_one_is_not() {
    let mut certificates = Certificates::new();
    let (world, address, _) = world(&certificates, false);
    let (_, stop, running) = world.run();
    let first = served(&certificates, address).await;

    certificates.issue();
    let unchecked = served(&certificates, address).await;
    assert_eq!(unchecked, first, "the files are checked at most once in 10 s");
    pass(11 * SECOND).await;
    let second = served(&certificates, address).await;
    assert_ne!(first, second, "the new certificate is served");

    let key = std::fs::read_to_string(certificates.path("tls.key")).unwrap();
    let certificate = std::fs::read_to_string(certificates.path("tls.crt")).unwrap();
    certificates.issue();
    let other_key = std::fs::read_to_string(certificates.path("tls.key")).unwrap();
    for (certificate, key) in [("", ""), ("no PEM", &key), (&*certificate, &*other_key), (&*certificate, "")]
    {
        certificates.write(certificate, key);
        pass(11 * SECOND).await;
        assert_eq!(served(&certificates, address).await, second, "the old certificate is served");
    }
    std::fs::remove_file(certificates.path("tls.key")).unwrap();
    pass(11 * SECOND).await;
    assert_eq!(served(&certificates, address).await, second);

    certificates.issue();
    pass(11 * SECOND).await;
    let last = served(&certificates, address).await;
    assert!(last != first && last != second, "a valid certificate replaces invalid files");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn self_signed_certificate_is_served_and_not_trusted() {
    let certificates = Certificates::new();
    let mut options = options(&certificates, false);
    options.secure_serving =
        Some(SecureServing { certificate: CertificateSource::SelfSigned, authorize: false });
    let world = World::new(options);
    let address = world.manager.local_address().unwrap();
    let (_, stop, running) = world.run();
    let metrics = get_unverified(address, "/metrics").await.unwrap();
    assert!(metrics.code == 200 && metrics.text.contains("# EOF"), "{metrics:?}");
    let error = certificates.get(address, "/metrics", None).await.unwrap_err();
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn added_pages_are_authorized_before_the_middleware_of_the_program() {
    let certificates = Certificates::new();
    let (mut world, address, _) = world(&certificates, true);
    let _token = world.server.faults().always(create("tokenreviews"), token_review(&prometheus()));
    let _access = world.server.faults().always(create("subjectaccessreviews"), access_review(true));
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    world.manager.map_pages(|pages| pages.route("/version", routing::get(async || "1.2.3")));
    world.manager.map_pages(move |pages| {
        pages.layer(middleware::from_fn(
            move |request: kube_operator::axum::extract::Request, next: middleware::Next| {
                counted.fetch_add(1, SeqCst);
                async move {
                    if request.uri().path() == "/debug/tokio" {
                        return Err(StatusCode::GONE);
                    }
                    Ok(next.run(request).await)
                }
            },
        ))
    });
    let (_, stop, running) = world.run();
    assert_eq!(certificates.get(address, "/version", None).await.unwrap().code, 401);
    assert_eq!(calls.load(SeqCst), 0);
    let version = certificates.get(address, "/version", Some("secret")).await.unwrap();
    assert!(version.code == 200 && version.text.ends_with("1.2.3"), "{version:?}");
    assert_eq!(certificates.get(address, "/metrics", Some("secret")).await.unwrap().code, 200);
    assert_eq!(certificates.get(address, "/debug/tokio", Some("secret")).await.unwrap().code, 410);
    assert_eq!(calls.load(SeqCst), 3);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn silent_client_is_closed_and_does_not_block_others() {
    let certificates = Certificates::new();
    let (world, address, _) = world(&certificates, false);
    let (_, stop, running) = world.run();
    let mut silent = TcpStream::connect(address).await.unwrap();
    // The manager accepts connections in order, so the handshake of the first one has started.
    assert_eq!(certificates.get(address, "/healthz", None).await.unwrap().code, 200);
    pass(11 * SECOND).await;
    let closed = timeout(30 * SECOND, silent.read_to_end(&mut Vec::new())).await;
    assert!(closed.is_ok(), "the handshake times out");

    let _silent = TcpStream::connect(address).await.unwrap();
    assert_eq!(certificates.get(address, "/healthz", None).await.unwrap().code, 200);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn missing_or_invalid_file_is_an_early_error() {
    let mut certificates = Certificates::new();
    let new_error = |options: ManagerOptions| {
        let client = Client::new(Server::new().service(), "default");
        let error = Manager::new(client, options).err().unwrap();
        assert!(matches!(&error, ManagerError::Certificate { .. }), "{error}");
        error.to_string()
    };
    let (certificate, key) = (certificates.path("tls.crt"), certificates.path("tls.key"));
    let expected = |file: &std::path::Path, reason: &str| {
        let remedy = "correct the file or its path in `secure_serving`, or set `secure_serving` to `None`";
        format!("cannot use {} for TLS: {reason}; {remedy}", file.display())
    };
    std::fs::remove_file(&key).unwrap();
    let error = new_error(options(&certificates, false));
    assert_eq!(error, expected(&key, "No such file or directory (os error 2)"));

    certificates.issue();
    let first = std::fs::read_to_string(&certificate).unwrap();
    certificates.issue();
    let second_key = std::fs::read_to_string(&key).unwrap();
    certificates.write(&first, &second_key);
    let reason = format!("the key does not belong to the certificate in {}", certificate.display());
    assert_eq!(new_error(options(&certificates, false)), expected(&key, &reason));

    certificates.write(&first, "hunter2");
    let error = new_error(options(&certificates, false));
    assert_eq!(error, expected(&key, "the file contains no private key in PEM format"));

    certificates.write("", "");
    let error = new_error(options(&certificates, false));
    assert_eq!(error, expected(&certificate, "the file contains no certificate in PEM format"));

    let unused = ManagerOptions { bind_address: None, ..options(&certificates, false) };
    assert!(Manager::new(Client::new(Server::new().service(), "default"), unused).is_ok());
}

#[tokio::test]
async fn request_needs_a_valid_token_and_the_permission() {
    let certificates = Certificates::new();
    let (world, address, reviews) = world(&certificates, true);
    let probes = world.manager.local_probe_address().unwrap();
    let (server, stop, running) = world.run();
    let code = async |path: &str, token| certificates.get(address, path, token).await.unwrap().code;
    assert_eq!(get(probes, "/healthz").await.0, 200, "the probe address is open");

    let response = certificates.get(address, "/metrics", None).await.unwrap();
    assert_eq!(response.code, 401);
    assert!(response.text.to_lowercase().contains("www-authenticate: bearer\r\n"), "{response:?}");
    assert_eq!(server.journal().count(Verb::Create, "tokenreviews"), 0);

    let invalid = server.faults().always(create("tokenreviews"), token_review(&json!({"error": "invalid"})));
    assert_eq!(code("/metrics", Some("invalid")).await, 401);
    assert_eq!(code("/unknown", Some("invalid")).await, 401, "the response does not reveal the pages");
    drop(invalid);

    let _user = server.faults().always(create("tokenreviews"), token_review(&prometheus()));
    let denied = server.faults().always(create("subjectaccessreviews"), access_review(false));
    assert_eq!(code("/metrics", Some("without permission")).await, 403);
    drop(denied);
    let _allowed = server.faults().always(create("subjectaccessreviews"), access_review(true));
    reviews.lock().unwrap().retain(|_| false);
    assert_eq!(code("/metrics?a=b", Some("secret")).await, 200);
    assert_eq!(code("/unknown", Some("secret")).await, 404);
    let sent = std::mem::take(&mut *reviews.lock().unwrap());
    let access = |path: &str| {
        let attributes = json!({"path": path, "verb": "get"});
        json!({"user": "prometheus", "uid": "7", "groups": ["monitoring"], "extra": {"pod": ["a"]},
            "nonResourceAttributes": attributes})
    };
    let expected = [
        ("tokenreviews".to_owned(), json!({"token": "secret"})),
        ("subjectaccessreviews".to_owned(), access("/metrics")),
        ("tokenreviews".to_owned(), json!({"token": "secret"})),
        ("subjectaccessreviews".to_owned(), access("/unknown")),
    ];
    assert_eq!(sent, expected);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn decision_is_cached_for_ten_seconds() {
    let certificates = Certificates::new();
    let (world, address, _) = world(&certificates, true);
    let (server, stop, running) = world.run();
    let code = async |path: &str, token| certificates.get(address, path, Some(token)).await.unwrap().code;
    let counts = || {
        let journal = server.journal();
        (journal.count(Verb::Create, "tokenreviews"), journal.count(Verb::Create, "subjectaccessreviews"))
    };
    let user = server.faults().always(create("tokenreviews"), token_review(&prometheus()));
    let _allowed = server.faults().always(create("subjectaccessreviews"), access_review(true));
    for _ in 0..3 {
        assert_eq!(code("/metrics", "secret").await, 200);
    }
    assert_eq!(counts(), (1, 1));
    assert_eq!(code("/healthz", "secret").await, 200);
    assert_eq!(code("/metrics", "other").await, 200);
    assert_eq!(counts(), (3, 3), "another path or token needs a new decision");

    drop(user);
    let _revoked = server.faults().always(create("tokenreviews"), token_review(&json!({})));
    pass(11 * SECOND).await;
    for _ in 0..2 {
        assert_eq!(code("/metrics", "secret").await, 401, "a revoked token is rejected");
    }
    assert_eq!(counts(), (4, 3), "a rejection is also cached");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn failed_review_returns_503_and_is_not_cached() {
    let certificates = Certificates::new();
    let (world, address, _) = world(&certificates, true);
    let (server, stop, running) = world.run();
    let code = async || certificates.get(address, "/metrics", Some("secret")).await.unwrap().code;
    let unavailable = server.faults().always(create("tokenreviews"), Fault::unavailable());
    assert_eq!(code().await, 503);
    drop(unavailable);
    let no_status = server.faults().always(create("tokenreviews"), Fault::json("{}"));
    assert_eq!(code().await, 503);
    drop(no_status);
    let _user = server.faults().always(create("tokenreviews"), token_review(&prometheus()));
    let denied =
        server.faults().always(create("subjectaccessreviews"), Fault::status(403, "Forbidden", None));
    assert_eq!(code().await, 503);
    drop(denied);

    let hangs = server.faults().always(create("subjectaccessreviews"), Fault::Hang);
    let mark = server.journal().mark();
    let client = async {
        tokio::join!(code(), async {
            server.journal().wait_for(mark, |request| request.info.resource == "subjectaccessreviews").await;
            pass(9 * SECOND).await;
        })
        .0
    };
    assert_eq!(client.await, 503, "the reviews time out");
    drop(hangs);
    let _allowed = server.faults().always(create("subjectaccessreviews"), access_review(true));
    assert_eq!(code().await, 200);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[cfg(feature = "page")]
#[tokio::test]
async fn pages_for_browsers_need_a_token() {
    let certificates = Certificates::new();
    let (world, address, _) = world(&certificates, true);
    let (server, stop, running) = world.run();
    let _user = server.faults().always(create("tokenreviews"), token_review(&prometheus()));
    let _allowed = server.faults().always(create("subjectaccessreviews"), access_review(true));
    for path in ["/", "/ui/caches", "/ui/key/a/b", "/ui/assets/page.js", "/ui/unknown"] {
        let response = certificates.get(address, path, None).await.unwrap();
        assert_eq!(response.code, 401, "{path}");
    }
    assert_eq!(certificates.get(address, "/ui/caches", Some("secret")).await.unwrap().code, 200);

    let mut stream = certificates.connect(address).await.unwrap();
    let head = "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nAccept: text/event-stream\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    let mut bytes = [0; 1024];
    while !text.contains("event: section") {
        let length = timeout(30 * SECOND, stream.read(&mut bytes)).await.unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    pass(11 * SECOND).await;
    // The last chunk of a response is empty.
    while !text.ends_with("\r\n0\r\n\r\n") {
        let length = timeout(30 * SECOND, stream.read(&mut bytes)).await.unwrap().unwrap();
        assert!(length > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn permission_check_covers_the_reviews() {
    let certificates = Certificates::new();
    let (world, _, reviews) = world(&certificates, true);
    let (server, stop, running) = world.run();
    let mark = server.journal().mark();
    for resource in ["tokenreviews", "subjectaccessreviews"] {
        let is_checked = |(kind, spec): &(String, Value)| {
            kind == "selfsubjectaccessreviews" && spec["resourceAttributes"]["resource"] == resource
        };
        let checked = || reviews.lock().unwrap().iter().find(|review| is_checked(review)).cloned();
        let wait = server.journal().wait_for(mark, |_| checked().is_some());
        timeout(30 * SECOND, wait).await.expect("the permission is checked");
        let (_, spec) = checked().unwrap();
        let group = if resource == "tokenreviews" { "authentication" } else { "authorization" };
        let attributes = &spec["resourceAttributes"];
        assert_eq!(
            (&attributes["verb"], &attributes["group"]),
            (&json!("create"), &json!(format!("{group}.k8s.io")))
        );
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}
