//! Each text of a hostile server is escaped in errors, statuses, log lines and pages. Otherwise, a server
//! could forge log lines and send commands to a terminal. Each test starts with [`Logged::begin`].

use std::{convert::Infallible, error::Error, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{
    Api, Client,
    api::PostParams,
    client::Body,
    core::{ApiResource, DynamicObject, GroupVersionKind, Status},
};
use kube_informer::{
    CachedReadError, Informer, ListWatch, ListWatchError, ReflectorOptions, ResourceVersion, Scope, Uid,
    listwatch::{Target, Verb},
};
use kube_operator::{Action, Controller, Failure, Manager, ManagerOptions, OwnerError};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use logged::Logged;

#[path = "../../informer/tests/support/logged.rs"]
mod logged;

const SECOND: Duration = Duration::from_secs(1);

/// A text that clears the screen, forges a line, and reverses the rest of the line.
const HOSTILE: &str = "x\u{1b}[2J\nforged\u{202e}\u{2028}";
const ESCAPED: &str = r"x\u{1b}[2J\nforged\u{202e}\u{2028}";

/// Panics if a person or a terminal could misread the text.
fn assert_harmless(case: &str, text: &str) {
    let is_invisible = |c| matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let found = text.chars().find(|&c| is_invisible(c) || (c.is_control() && c != '\n' && c != '\r'));
    assert_eq!(found, None, "{case}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{case}: {text:?}");
}

/// Asserts that an error, its debug output and its causes are harmless.
fn assert_harmless_error(error: &(dyn Error + 'static)) {
    assert!(error.to_string().contains(ESCAPED), "not in the message: {error:?}");
    assert_harmless("debug output", &format!("{error:?}"));
    for error in std::iter::successors(Some(error), |error| (**error).source()) {
        assert_harmless("message", &error.to_string());
    }
}

fn hostile_status() -> Value {
    let cause = json!({"reason": HOSTILE, "message": HOSTILE, "field": HOSTILE});
    let details = json!({"name": HOSTILE, "kind": HOSTILE, "uid": HOSTILE, "causes": [cause]});
    json!({"kind": "Status", "code": 500, "reason": HOSTILE, "message": format!("{HOSTILE}!"), "details": details})
}

fn item(kind: &str, name: &str, data: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": "shop", "uid": HOSTILE, "resourceVersion": HOSTILE});
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data})
}

fn list(kind: &str, version: &str, next: &str, items: &[Value]) -> Value {
    json!({"kind": kind, "metadata": {"resourceVersion": version, "continue": next}, "items": items})
}

/// The responses of a hostile server.
struct Case {
    name: &'static str,
    /// The text that appears. `{}` represents the text of the server.
    shown: &'static str,
    list_code: u16,
    list: Value,
    /// The only event of each watch. The watch then remains open.
    event: Option<Value>,
}

impl Case {
    fn list(name: &'static str, shown: &'static str, list: Value) -> Self {
        Self { name, shown, list_code: 200, list, event: None }
    }

    fn event(name: &'static str, shown: &'static str, event_type: &str, object: &Value) -> Self {
        let event = Some(json!({"type": event_type, "object": object}));
        Self { event, ..Self::list(name, shown, list("", "5", "", &[])) }
    }

    fn client(self) -> Client {
        let case = Arc::new(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let response = case.respond(&request);
            async move { Ok::<_, Infallible>(response) }
        });
        Client::new(service, "default")
    }

    /// Rejects each write.
    fn respond(&self, request: &Request<Body>) -> Response<StreamBody<impl Stream<Item = Chunk> + use<>>> {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let is_page = request.uri().query().is_some_and(|query| query.contains("continue="));
        let (code, body) = match (request.method() == Method::GET, is_watch) {
            (true, true) => (200, self.event.as_ref().map(|event| format!("{event}\n")).unwrap_or_default()),
            (true, false) if !is_page => (self.list_code, self.list.to_string()),
            _ => (500, hostile_status().to_string()),
        };
        let rest = if is_watch { stream::pending().left_stream() } else { stream::empty().right_stream() };
        let body = stream::iter([Ok(Frame::data(Bytes::from(body)))]).chain(rest);
        Response::builder().status(code).body(StreamBody::new(body)).unwrap()
    }
}

type Chunk = Result<Frame<Bytes>, Infallible>;

fn cases() -> Vec<Case> {
    let named = |data| item("ConfigMap", HOSTILE, data);
    let (valid, invalid) = (json!({}), json!(7));
    let no_name = json!({"kind": HOSTILE, "metadata": {}});
    let bookmark = json!({"metadata": {"resourceVersion": HOSTILE}});
    let (key, got) = ("shop/{} at resourceVersion {}", "expected kind ConfigMap, got {}");
    let (status, version) = (": server responded with 500 {}: {}!", "up to resourceVersion {}");
    vec![
        Case { list_code: 500, ..Case::list("HTTP error", status, hostile_status()) },
        Case::list("kind of a list", "expected a list, got {}", list(HOSTILE, "5", "", &[])),
        Case::list("version of a list", version, list("", HOSTILE, "", &[])),
        // The token is percent-encoded.
        Case::list("continue token", "continue=x%1B", list("", "5", HOSTILE, &[])),
        Case::list("kind of an item", got, list("", "5", "", &[item(HOSTILE, "a", &valid)])),
        Case::list("kind without name", got, list("", "5", "", std::slice::from_ref(&no_name))),
        Case::list("key in a queue", "\"key\": \"shop/{}", list("", "5", "", &[named(&valid)])),
        Case::list("rejected write", "the server responded with 500 {}", list("", "5", "", &[named(&valid)])),
        Case::list("invalid item", key, list("", "5", "", &[named(&invalid)])),
        Case::event("ERROR event", status, "ERROR", &hostile_status()),
        Case::event("type of an event", "unknown watch event type \"{}\"", HOSTILE, &valid),
        // The reflector ignores such a bookmark after a version that is a number.
        Case { list: list("", HOSTILE, "", &[]), ..Case::event("bookmark", version, "BOOKMARK", &bookmark) },
        Case::event("object of an event", got, "ADDED", &no_name),
        Case::event("invalid object of an event", key, "MODIFIED", &named(&invalid)),
        Case::event("deleted object", key, "DELETED", &named(&invalid)),
    ]
}

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

/// Returns the pages, the status and the errors of an informer.
async fn texts(address: std::net::SocketAddr, informer: &Informer<ConfigMap>) -> Vec<String> {
    let mut texts = vec![informer.status().to_string()];
    let pages = ["/readyz", "/healthz", "/debug/informers", "/debug/queues", "/metrics"];
    for path in pages.into_iter().chain(["/", "/ui/caches", "/ui/queues", "/ui/reconciles"]) {
        texts.push(page(address, path).await);
    }
    texts.extend(informer.wait_for_sync(Duration::ZERO).await.err().map(|error| error.to_string()));
    let reached = informer.lister().wait_until(&9.into(), Duration::ZERO).await;
    texts.extend(reached.err().map(|error| error.to_string()));
    texts
}

/// A reconciler that fails with the response of the server.
async fn create(client: Client) -> Result<Action, Failure> {
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "copy"}}))?;
    Api::default_namespaced(client).create(&PostParams::default(), &map).await?;
    Ok(Action::Done)
}

/// The clock is not paused, because pages are served over a socket. The logs of kube-client are excluded.
#[tokio::test]
async fn texts_of_hostile_server_are_escaped() {
    for case in cases() {
        let (logged, name) = (Logged::begin(), case.name);
        let shown = case.shown.replace("{}", ESCAPED);
        let options =
            ManagerOptions { bind_address: Some(([127, 0, 0, 1], 0).into()), ..ManagerOptions::default() };
        let mut manager = Manager::new(case.client(), options).unwrap();
        let address = manager.local_address().unwrap();
        let reflector = ReflectorOptions { streaming_lists: false, ..ReflectorOptions::default() };
        let informer =
            manager.factory().clone().reflector_options(reflector).informer::<ConfigMap>().unwrap();
        let client = manager.client();
        manager.add_controller(Controller::new(&informer), move |_| create(client.clone()));
        let stop = CancellationToken::new();
        let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
        let appears = async {
            loop {
                let mut texts = texts(address, &informer).await;
                texts.push(logged.text_of(|name| name.starts_with("kube") && name != "kube_client"));
                texts.iter().for_each(|text| assert_harmless(name, text));
                // A page in JSON escapes the backslashes again.
                let texts = texts.join("\n").replace(r"\\", r"\");
                if texts.contains(&shown) {
                    return;
                }
                sleep(SECOND / 100).await;
            }
        };
        timeout(30 * SECOND, appears).await.unwrap_or_else(|_| panic!("{name}: no text contains {shown:?}"));
        stop.cancel();
        running.await.unwrap().unwrap();
    }
}

#[test]
fn errors_display_hostile_texts_escaped() {
    let target = || Target { verb: Verb::List, url: HOSTILE.to_owned() };
    let status: Box<Status> = serde_json::from_value(hostile_status()).unwrap();
    let list_watch = [
        ListWatchError::Status { target: target(), status: status.clone(), retry_after: None },
        ListWatchError::NotAList { target: target(), found: HOSTILE.to_owned() },
        ListWatchError::UnknownEvent { target: target(), found: HOSTILE.to_owned() },
    ];
    list_watch.iter().for_each(|error| assert_harmless_error(error));
    let function = ListWatchError::list_function(kube_client::Error::Api(status));
    assert_harmless_error(function.source().unwrap());
    assert!(function.with_causes().to_string().contains(ESCAPED));
    let function = ListWatchError::watch_function(std::io::Error::other(HOSTILE));
    assert_harmless("causes", &function.with_causes().to_string());

    let version = ResourceVersion::new(HOSTILE);
    let (informer, timeout) = (HOSTILE.to_owned(), SECOND);
    let stale = CachedReadError::WriteNotVisible {
        informer: informer.clone(),
        written: version.clone(),
        reached: Some(version.clone()),
        timeout,
    };
    let restored = CachedReadError::ServerRestored { informer: informer.clone(), written: version };
    [stale, restored, CachedReadError::Stopped { informer }].iter().for_each(|e| assert_harmless_error(e));
    assert_eq!(Uid::new(HOSTILE).to_string(), ESCAPED);
    assert_harmless_error(&OwnerError::AlreadyOwned {
        child: HOSTILE.parse().unwrap(),
        kind: HOSTILE.to_owned(),
        name: HOSTILE.to_owned(),
        uid: HOSTILE.to_owned(),
    });
}

/// The path of the requests contains the namespace and the plural of the resource unchanged.
#[tokio::test(start_paused = true)]
async fn hostile_resource_and_namespace_are_escaped() {
    let logged = Logged::begin();
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("g", "v1", HOSTILE), HOSTILE);
    let case = || Case { list_code: 500, ..Case::list("", "", hostile_status()) };
    let api = Api::<DynamicObject>::namespaced_with(case().client(), HOSTILE, &resource);
    let path = api.resource_url().to_owned();
    let source = ListWatch::<DynamicObject>::dynamic(api, &resource);
    let informer = Informer::from_source(source).name(path).build();
    informer.start();
    let unsynced = informer.wait_for_sync(SECOND).await.unwrap_err();
    let manager = Manager::new(case().client(), ManagerOptions { bind_address: None, ..Default::default() });
    let of_factory =
        manager.unwrap().factory().select_dynamic::<DynamicObject>(&resource, Scope::Namespaced).informer();
    let status = informer.status().to_string();
    assert!(status.contains(ESCAPED), "{status}");
    for text in [status, unsynced.to_string(), of_factory.unwrap().status().to_string(), logged.text()] {
        assert_harmless("resource", &text);
    }
}
