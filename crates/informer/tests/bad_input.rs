//! Tests an informer with a broken or hostile server. Each malformed response is reported as an
//! error with the URL, and is counted. The error reveals no content, the cache does not change, and
//! the informer recovers.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube_client::{Api, Client};
use kube_informer::{Event, Informer, ListWatch, Phase, ReflectorOptions};
use kube_testserver::{CutAfter, Fault, RequestMatch, Server, Verb};
use parking_lot::Mutex;
use serde_json::json;

use logged::Logged;

#[path = "support/logged.rs"]
mod logged;

/// The contents of Secrets. Errors, status and log lines must not contain them.
const CONTENTS: &str = "hunter2";
const LIMIT: usize = 4096;
const SECRETS: &str = "/api/v1/secrets";

fn secret(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": "aHVudGVyMg=="}});
    server.create(&object).unwrap();
}

/// An informer of Secrets, the errors of its `on_error`, and the events of a handler.
struct Stack {
    server: Server,
    informer: Informer<Secret>,
    errors: Arc<Mutex<Vec<String>>>,
    debugged: Arc<Mutex<Vec<String>>>,
    events: Arc<Mutex<Vec<String>>>,
    logged: Logged,
}

impl Stack {
    /// Creates an informer that is not started. The server contains the Secret `s`.
    fn new() -> Self {
        let logged = Logged::begin();
        let server = Server::new();
        secret(&server, "s");
        let (errors, debugged) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let api = Api::all(Client::new(server.service(), "default"));
        let (failed, debug) = (Arc::clone(&errors), Arc::clone(&debugged));
        let events = Arc::<Mutex<Vec<String>>>::default();
        let informer = Informer::from_source(ListWatch::<Secret>::new(api).max_object_bytes(LIMIT))
            .reflector_options(ReflectorOptions { streaming_lists: false, ..ReflectorOptions::default() })
            .on_error(move |error| {
                failed.lock().push(error.with_causes().to_string());
                debug.lock().push(format!("{error:?}"));
            })
            .build();
        let lines = Arc::clone(&events);
        informer.on_event(move |event| lines.lock().push(short(event))).detach();
        Self { server, informer, errors, debugged, events, logged }
    }

    /// Creates an informer, starts it, and waits until its watch is open.
    async fn watching() -> Self {
        let stack = Self::new();
        stack.informer.start();
        stack.until(|stack| stack.server.open_watches() == 1 && stack.events.lock().len() == 1).await;
        stack
    }

    /// Waits for a condition. The clock is paused, so a wait of hours is immediate.
    async fn until(&self, reached: impl Fn(&Self) -> bool) {
        let reaching = async {
            while !reached(self) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(24 * 3600), reaching).await.is_err() {
            panic!(
                "{:?}\n{:?}\n{:?}",
                self.informer.status(),
                self.events.lock(),
                self.server.journal().requests()
            );
        }
    }

    /// Asserts that the cache receives new changes, and that no content of a Secret was revealed.
    async fn recovers(self, case: &str) {
        secret(&self.server, "later");
        self.until(|stack| stack.events.lock().iter().any(|line| line == "+later")).await;
        self.until(|stack| stack.informer.status().reflector.phase == Phase::Watching).await;
        let status = self.informer.status();
        assert_eq!((status.objects, status.stale), (2, 0), "{case}");
        let events = self.events.lock().clone();
        assert!(!events.iter().any(|line| line.starts_with('-')), "{case} deleted something: {events:?}");
        let text =
            format!("{status:?} {:?} {:?} {}", self.errors.lock(), self.debugged.lock(), self.logged.text());
        for contents in [CONTENTS, "aHVudGVyMg"] {
            assert!(!text.contains(contents), "{case}: {text}");
        }
        self.informer.stop().await;
        assert_eq!(self.server.open_watches(), 0, "{case}");
    }

    /// Returns the only error. Panics if the error does not contain the request.
    fn only_error(&self, case: &str, verb: &str) -> String {
        let errors = self.errors.lock();
        let error = errors.first().unwrap_or_else(|| panic!("{case} reported no error")).clone();
        assert!(error.starts_with(&format!("{verb} {SECRETS}")), "{case}: {error}");
        let status = self.informer.status().reflector;
        assert_eq!(status.errors, errors.len() as u64, "{case}");
        assert!(status.last_error.is_some(), "{case}");
        error
    }
}

fn short(event: &Event<Secret>) -> String {
    let sign = match event {
        Event::Added { .. } => '+',
        Event::Updated { .. } => '~',
        Event::Deleted { .. } => '-',
    };
    format!("{sign}{}", event.key().name())
}

fn lists() -> RequestMatch {
    RequestMatch::verb(Verb::List).resource("secrets")
}

fn watches() -> RequestMatch {
    RequestMatch::verb(Verb::Watch).resource("secrets")
}

/// Responses to a LIST, with the expected errors.
fn bad_lists() -> Vec<(&'static str, Fault, &'static str)> {
    let json = |body: &str| Fault::json(body.to_owned());
    let endless =
        format!(r#"{{"kind":"SecretList","metadata":{{}},"items":[{{"data":"{}"#, CONTENTS.repeat(LIMIT));
    let html = Fault::Raw { status: 200, content_type: "text/html".into(), body: "<html>hunter2".into() };
    let teapot = Fault::Raw { status: 500, content_type: "text/plain".into(), body: "panic: hunter2".into() };
    vec![
        ("no body", json(""), "malformed response: the list is incomplete"),
        ("malformed JSON", json("hunter2"), "malformed response: not a JSON object"),
        ("HTML", html, "malformed response: not a JSON object"),
        (
            "a truncated list",
            json(r#"{"kind":"SecretList","items":[{"data":{"p":"hunter2"#),
            "the list is incomplete",
        ),
        ("an endless body", json(&endless), "object is larger than 4096 bytes"),
        (
            "a Table",
            json(r#"{"kind":"Table","metadata":{"resourceVersion":"9"},"rows":[{"cells":["hunter2"]}]}"#),
            "expected a list, got Table",
        ),
        (
            "a Status",
            json(r#"{"kind":"Status","metadata":{},"status":"Failure","code":500}"#),
            "expected a list, got Status",
        ),
        (
            "one object",
            json(r#"{"kind":"Secret","metadata":{"name":"x"},"data":{"p":"hunter2"}}"#),
            "expected a list, got Secret",
        ),
        (
            "another list",
            json(r#"{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[]}"#),
            "expected a list, got PodList",
        ),
        ("an empty object", json("{}"), "malformed response: the list has no items field"),
        (
            "a login page",
            json(r#"{"error":"hunter2 is wrong"}"#),
            "malformed response: the list has no items field",
        ),
        (
            "no metadata",
            json(r#"{"kind":"SecretList","items":[]}"#),
            "malformed response: the list has no metadata",
        ),
        (
            "items that are not an array",
            json(r#"{"metadata":{},"items":{"a":"hunter2"}}"#),
            "malformed response: the items field is not an array",
        ),
        (
            "odd metadata",
            json(r#"{"metadata":"hunter2","items":[]}"#),
            "malformed response: the metadata of the list is invalid",
        ),
        ("an error without a Status", teapot, "server responded with 500 Internal Server Error"),
        ("no response", Fault::Reset, "no response: "),
        ("401", Fault::status(401, "Unauthorized", Some(u32::MAX)), "server responded with 401 Unauthorized"),
        ("403", Fault::status(403, "Forbidden", None), "server responded with 403 Forbidden"),
        (
            "429",
            Fault::status(429, "TooManyRequests", Some(u32::MAX)),
            "server responded with 429 TooManyRequests",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn malformed_initial_list_is_reported_counted_and_retried() {
    for (case, fault, says) in bad_lists() {
        let stack = Stack::new();
        stack.server.faults().next(lists(), fault);
        stack.informer.start();
        stack
            .informer
            .wait_for_sync(Duration::from_secs(3600))
            .await
            .unwrap_or_else(|late| panic!("{case}: {late}"));
        let error = stack.only_error(case, "LIST");
        assert!(error.contains(says), "{case}: {error}");
        stack.recovers(case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_relist_deletes_no_object() {
    for (case, fault, says) in bad_lists() {
        let stack = Stack::watching().await;
        stack.server.faults().next(lists(), fault);
        stack.informer.relist();
        stack.until(|stack| !stack.errors.lock().is_empty()).await;
        let error = stack.only_error(case, "LIST");
        assert!(error.contains(says), "{case}: {error}");
        stack.recovers(case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn item_without_name_is_counted_and_deletes_no_object() {
    let item = r#"{"metadata":{"labels":{}},"data":{"p":"hunter2"}}"#;
    let status = r#"{"kind":"Status","metadata":{},"message":"hunter2"}"#;
    for item in [item, status, "null", "7", "\"hunter2\"", "[[]]"] {
        let stack = Stack::watching().await;
        let body =
            format!(r#"{{"kind":"SecretList","metadata":{{"resourceVersion":"9"}},"items":[{item}]}}"#);
        stack.server.faults().next(lists(), Fault::json(body));
        stack.informer.relist();
        stack.until(|stack| stack.informer.status().reflector.nameless == 1).await;
        stack.recovers(item).await;
    }
}

#[tokio::test(start_paused = true)]
async fn list_with_opaque_versions_is_cached_and_replaced() {
    for version in ["", "abc", "-1", "0", "007", "99999999999999999999999999"] {
        let stack = Stack::new();
        let item = json!({"metadata": {"name": "s", "namespace": "default", "resourceVersion": version}});
        let body = json!({"kind": "SecretList", "metadata": {"resourceVersion": version}, "items": [item]});
        stack.server.faults().next(lists(), Fault::json(body.to_string()));
        stack.informer.start();
        stack.informer.wait_for_sync(Duration::from_secs(3600)).await.unwrap();
        stack.recovers(version).await;
    }
}

/// Frames of a watch, with the expected errors.
fn bad_frames() -> Vec<(&'static str, String, &'static str)> {
    let added = |object: &str| format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n");
    let line = |text: &str| format!("{text}\n");
    vec![
        ("malformed JSON", line("hunter2"), "malformed response: a line is not a watch event in JSON"),
        (
            "an object without its event",
            line(r#"{"kind":"Secret","metadata":{"name":"x"}}"#),
            "malformed response",
        ),
        ("two frames on a line", line(&added("{}").trim().repeat(2)), "malformed response"),
        ("an endless frame", CONTENTS.repeat(LIMIT), "object is larger than 4096 bytes"),
        (
            "a Table",
            added(r#"{"kind":"Table","metadata":{},"rows":[{"cells":["hunter2"]}]}"#),
            "expected kind Secret, got Table",
        ),
        (
            "a Status",
            added(r#"{"kind":"Status","metadata":{},"message":"hunter2"}"#),
            "expected kind Secret, got Status",
        ),
        (
            "no metadata",
            added(r#"{"kind":"Secret","data":{"p":"hunter2"}}"#),
            "cannot identify the object of a watch event: metadata.name is missing",
        ),
        ("no object", added("null"), "cannot identify the object of a watch event"),
        (
            "an unknown type",
            line(r#"{"type":"SURPRISE","object":{"data":"hunter2"}}"#),
            "unknown watch event type \"SURPRISE\"",
        ),
        (
            "a bookmark without an object",
            line(r#"{"type":"BOOKMARK","object":{"data":"hunter2"}}"#),
            "bookmark without a resourceVersion",
        ),
        (
            "an ERROR without a Status",
            line(r#"{"type":"ERROR","object":["hunter2"]}"#),
            "ERROR event without a Status",
        ),
        (
            "an ERROR",
            line(r#"{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"InternalError"}}"#),
            "server responded with 500 InternalError",
        ),
        (
            "expiry",
            line(r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#),
            "server responded with 410 Expired",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn malformed_watch_frame_is_reported_counted_and_recovered() {
    for (case, frame, says) in bad_frames() {
        let stack = Stack::watching().await;
        assert_eq!(stack.server.inject_frame(&watches(), frame), 1);
        stack.until(|stack| !stack.errors.lock().is_empty()).await;
        let error = stack.only_error(case, "WATCH");
        assert!(error.contains(says), "{case}: {error}");
        stack.recovers(case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn watch_broken_inside_frame_loses_no_event() {
    for (case, cut) in [("a broken connection", true), ("a clean end", false)] {
        let stack = Stack::watching().await;
        stack.server.inject_frame(&watches(), r#"{"type":"ADDED","object":{"data":"hunter2"#);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let _cut = if cut { stack.server.cut_watches(&watches()) } else { stack.server.close_watches() };
        stack.until(|stack| !stack.errors.lock().is_empty()).await;
        let error = stack.only_error(case, "WATCH");
        let says = if cut {
            "connection failed while the response arrived: "
        } else {
            "response is incomplete: the last event is truncated"
        };
        assert!(error.contains(says), "{error}");
        stack.recovers(case).await;
    }
    let stack = Stack::new();
    stack.server.faults().next(watches(), Fault::Cut(CutAfter::Bytes(50)));
    stack.informer.start();
    stack.recovers("a broken connection").await;
}

/// The last decoded state remains cached, and is stale until a decodable state is received.
#[tokio::test(start_paused = true)]
async fn undecodable_event_is_counted_and_keeps_cached_object() {
    let meta = r#""metadata":{"name":"s","namespace":"default","resourceVersion":"odd"}"#;
    for object in [
        format!(r#"{{"kind":"Pod",{meta}}}"#),
        format!(r#"{{"kind":"Secret",{meta},"data":"hunter2"}}"#),
        format!(r#"{{"kind":"Secret",{meta},"data":{{"p":7}}}}"#),
    ] {
        let stack = Stack::watching().await;
        stack.server.inject_frame(&watches(), format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n"));
        stack.until(|stack| stack.informer.status().stale == 1).await;
        let status = stack.informer.status();
        assert_eq!((status.reflector.undecodable, status.objects), (1, 1), "{object}");
        stack
            .server
            .patch_untyped("v1", "Secret", Some("default"), "s", &json!({"metadata": {"labels": {"a": "b"}}}))
            .unwrap();
        stack.until(|stack| stack.events.lock().contains(&"~s".to_owned())).await;
        stack.recovers(&object).await;
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_events_and_unknown_deletions_are_ignored() {
    let stack = Stack::watching().await;
    let s = stack.server.get_untyped("v1", "Secret", Some("default"), "s").unwrap();
    let stranger = json!({"metadata": {"name": "x", "namespace": "default", "resourceVersion": "odd"}});
    let mut impostor = s.clone();
    impostor["metadata"]["uid"] = "another".into();
    impostor["metadata"]["resourceVersion"] = "odd".into();
    for (kind, object) in
        [("ADDED", &s), ("MODIFIED", &s), ("DELETED", &s), ("DELETED", &stranger), ("DELETED", &impostor)]
    {
        stack.server.inject_frame(&watches(), format!("{}\n", json!({"type": kind, "object": object})));
    }
    secret(&stack.server, "after");
    stack.until(|stack| stack.events.lock().len() == 2).await;
    assert_eq!(*stack.events.lock(), ["+s", "+after"]);
    assert_eq!(stack.informer.status().reflector.repeats, 3);
    assert!(stack.errors.lock().is_empty());
    stack.informer.stop().await;
}

/// After a version from the future, the reflector ignores later events as old. It detects that the watch
/// delivers no events.
#[tokio::test(start_paused = true)]
async fn future_version_does_not_block_cache() {
    let stack = Stack::watching().await;
    let mut s = stack.server.get_untyped("v1", "Secret", Some("default"), "s").unwrap();
    s["metadata"]["resourceVersion"] = "99999999999999999999999999".into();
    stack.server.inject_frame(&watches(), format!("{}\n", json!({"type": "MODIFIED", "object": s})));
    stack.until(|stack| stack.events.lock().len() == 2).await;
    stack.recovers("a version from the future").await;
}

#[tokio::test(start_paused = true)]
async fn request_without_response_times_out_and_is_retried() {
    for (matches, verb) in [(lists(), "LIST"), (watches(), "WATCH")] {
        let stack = Stack::new();
        stack.server.faults().next(matches, Fault::Hang);
        stack.informer.start();
        let timed_out = format!("{verb} {SECRETS}: timed out after ");
        stack.until(|stack| stack.errors.lock().iter().any(|error| error.starts_with(&timed_out))).await;
        stack.recovers("silence").await;
    }
}

#[tokio::test(start_paused = true)]
async fn expired_versions_and_closed_watches_stay_within_budget() {
    let expired = Fault::status(410, "Expired", None);
    let empty = Fault::Raw { status: 200, content_type: "application/json".into(), body: "".into() };
    for (case, fault) in [("expired", expired), ("closed", empty)] {
        let stack = Stack::new();
        let guard = stack.server.faults().always(watches(), fault);
        stack.informer.start();
        tokio::time::sleep(Duration::from_secs(600)).await;
        let requests = stack.server.journal().count_where(|request| request.info.resource == "secrets");
        assert!(requests <= 2 * (14 + 9 * 4), "{case}: {requests} requests in ten minutes");
        drop(guard);
        stack.recovers(case).await;
    }
}
