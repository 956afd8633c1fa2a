//! Reads arbitrary bytes, split at arbitrary points. The reader never panics and respects its size
//! limit. It finds the valid objects among invalid ones, and no error contains a part of the input.

use std::{convert::Infallible, fmt::Debug, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::Pod;
use kube_client::{Api, Client, client::Body};
use kube_listwatch::{
    Decoded, ListAt, ListPart, ListRequest, ListWatch, ListWatchError, ListerWatcher, WatchEvent, WatchFrom,
    WatchRequest,
};
use kube_object::NoCache;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;

/// A text that no error may contain.
const SECRET: &str = "hunter2";
/// The maximum size of an object.
const LIMIT: usize = 4096;

/// A Pod or invalid bytes.
#[derive(Debug, Clone)]
enum Object {
    /// A Pod with this number in its name.
    Good(u32),
    Bad(Vec<u8>),
}

impl Object {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Good(n) => format!(
                r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"good-{n}","uid":"u{n}","resourceVersion":"{n}"}}}}"#
            )
            .into(),
            Self::Bad(bytes) => bytes.clone(),
        }
    }
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        Just("1e999".to_owned()),
        Just(format!("{SECRET:?}")),
        "[a-z\\\\\"\u{e9}\u{1F600}]{0,5}".prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just(r#""\ud800""#.to_owned()),
        (1usize..3000).prop_map(|depth| "[".repeat(depth) + &"]".repeat(depth)),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        let key = prop::sample::select(vec![
            "metadata", "name", "spec", "a", "a", "type", "object", "items", SECRET,
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((key, inner), 0..4).prop_map(|fields| {
                let fields: Vec<_> = fields.iter().map(|(key, value)| format!("{key:?}:{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

/// A Pod with some fields wrong, missing or repeated.
fn nearly_a_pod() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        Just(r#""kind":"Pod""#.to_owned()),
        Just(r#""apiVersion":"v1""#.to_owned()),
        Just(r#""metadata":{"name":"nearly","resourceVersion":"7"}"#.to_owned()),
        // Errors contain kinds, truncated to a safe length.
        Just(r#""kind":"Table""#.to_owned()),
        Just(r#""kind":7"#.to_owned()),
        (prop::sample::select(vec!["metadata", "spec", "status"]), json())
            .prop_map(|(key, value)| format!("{key:?}:{value}")),
        json().prop_map(|value| format!(r#""metadata":{{"name":"nearly","labels":{value}}}"#)),
        json().prop_map(|value| format!(r#""spec":{{"containers":[{{"env":{value}}}]}}"#)),
    ];
    prop::collection::vec(field, 0..6).prop_map(|fields| format!("{{{}}}", fields.join(",")))
}

/// Arbitrary bytes for one frame or item, so without a newline.
fn bad() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop_oneof![
        3 => nearly_a_pod().prop_map(String::into_bytes),
        2 => json().prop_map(String::into_bytes),
        2 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (LIMIT - 200..LIMIT + 200).prop_map(|length| vec![b'x'; length]),
        1 => nearly_a_pod().prop_map(|text| text.into_bytes().into_iter().rev().collect()),
    ];
    bytes.prop_map(|bytes| bytes.into_iter().filter(|byte| *byte != b'\n').collect())
}

fn objects() -> impl Strategy<Value = Vec<Object>> {
    let object = prop_oneof![2 => (1u32..100).prop_map(Object::Good), 1 => bad().prop_map(Object::Bad)];
    prop::collection::vec(object, 0..6)
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..10)
}

fn split(body: &[u8], cuts: &[prop::sample::Index]) -> Vec<Bytes> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    cuts.extend([0, body.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| Bytes::copy_from_slice(&body[pair[0]..pair[1]])).collect()
}

/// Creates a source that always receives this body, in these chunks.
fn source(chunks: Vec<Bytes>) -> ListWatch<Pod> {
    let service = tower::service_fn(move |_: Request<Body>| {
        let frames =
            stream::iter(chunks.clone()).map(|chunk| Ok::<_, Infallible>(http_body::Frame::data(chunk)));
        let response = Response::builder().header("content-type", "application/json");
        std::future::ready(response.body(StreamBody::new(frames)).map_err(|_| std::fmt::Error))
    });
    ListWatch::new(Api::all(Client::new(service, "default"))).max_object_bytes(LIMIT)
}

/// The result of a list or a watch as text: the objects, and the error at the end.
#[derive(Debug, PartialEq)]
struct Read {
    found: Vec<String>,
    error: Option<String>,
}

/// Returns the text of an error. Fails if the text or `Debug` contains the secret.
fn checked_text(text: String, error: &impl Debug) -> String {
    assert!(!text.contains(SECRET) && !format!("{error:?}").contains(SECRET), "{text} {error:?}");
    text
}

fn decoded(object: &Decoded<Pod>) -> String {
    match object {
        Decoded::Object(entry) => entry.key().to_string(),
        Decoded::Undecodable { error, .. } => format!("? {}", checked_text(error.to_string(), error)),
    }
}

fn read<P>(parts: &[Result<P, ListWatchError>], found: impl Fn(&P) -> Vec<String>) -> Read {
    let failed = parts.iter().filter(|part| part.is_err()).count();
    assert!(
        failed == 0 || failed == 1 && parts.last().is_some_and(Result::is_err),
        "the stream continues after its error"
    );
    let error = parts.last().and_then(|part| part.as_ref().err());
    let error = error.map(|error| checked_text(error.with_causes().to_string(), error));
    Read { found: parts.iter().flatten().flat_map(found).collect(), error }
}

async fn watch(chunks: Vec<Bytes>) -> Read {
    let timeout = Some(Duration::from_secs(300));
    let request = WatchRequest { from: WatchFrom::Version(5.into()), timeout, bookmarks: true };
    let events: Vec<_> = source(chunks).watch(request, Arc::new(NoCache)).collect().await;
    read(&events, |events: &Vec<WatchEvent<Pod>>| {
        let event = |event: &WatchEvent<Pod>| match event {
            WatchEvent::Added(object) => format!("+{}", decoded(object)),
            WatchEvent::Modified(object) => format!("~{}", decoded(object)),
            WatchEvent::Deleted { id, .. } => format!("-{}", id.key),
            WatchEvent::Bookmark { version, .. } => format!("@{version}"),
            WatchEvent::OtherSlot { version, .. } => format!("other {version}"),
            WatchEvent::Opened => "^".to_owned(),
        };
        events.iter().map(event).collect()
    })
}

async fn list(chunks: Vec<Bytes>) -> Read {
    let request = ListRequest { at: ListAt::Any, limit: None };
    let parts: Vec<_> = source(chunks).list(request, Arc::new(NoCache)).collect().await;
    read(&parts, |part: &ListPart<Pod>| match part {
        ListPart::Items { items, nameless } => items
            .iter()
            .map(decoded)
            .chain(nameless.iter().map(|reason| format!("? {}", checked_text(reason.to_string(), reason))))
            .collect(),
        ListPart::OtherSlots { items } => vec![format!("other {items}")],
        ListPart::End(end) => vec![format!("end {}", end.version)],
    })
}

/// Tests a property with a runtime for its clients.
fn check<S: Strategy>(strategy: S, property: impl Fn(&Runtime, S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ran = TestRunner::new(config).run(&strategy, |value| property(&runtime, value));
    ran.unwrap_or_else(|failure| panic!("{failure}"));
}

fn good(objects: &[Object]) -> Vec<String> {
    let name = |object: &Object| match object {
        Object::Good(n) => Some(format!("good-{n}")),
        Object::Bad(_) => None,
    };
    objects.iter().filter_map(name).collect()
}

/// Returns the valid objects that were found, in their order.
fn good_of(read: &Read) -> Vec<String> {
    let name = |line: &String| line.find("good-").map(|at| line[at..].to_owned());
    read.found.iter().filter_map(name).collect()
}

#[test]
fn valid_events_are_found_up_to_first_error() {
    let kinds = prop::sample::select(vec!["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "ODD"]);
    let odd_kinds = prop::collection::vec(prop_oneof![4 => Just("ADDED"), 1 => kinds], 6);
    check((objects(), odd_kinds, cuts()), |runtime, (objects, kinds, cuts)| {
        let mut body = Vec::new();
        for (object, kind) in objects.iter().zip(&kinds) {
            let kind = if matches!(object, Object::Good(_)) { "ADDED" } else { kind };
            body.extend(format!(r#"{{"type":"{kind}","object":"#).into_bytes());
            body.extend(object.bytes());
            body.extend(b"}\n");
        }
        let whole = runtime.block_on(watch(vec![body.clone().into()]));
        prop_assert_eq!(&whole, &runtime.block_on(watch(split(&body, &cuts))));
        let (expected, found) = (good(&objects), good_of(&whole));
        prop_assert!(expected.starts_with(&found), "{:?} of {:?}", found, expected);
        prop_assert!(whole.error.is_some() || found == expected, "{:?} of {:?}", found, expected);
        prop_assert_eq!(whole.found.first().map(String::as_str), Some("^"));
        prop_assert!(whole.found.len() <= objects.len() + 1);
        Ok(())
    });
}

#[test]
fn arbitrary_watch_does_not_depend_on_chunks() {
    let lines = prop::collection::vec(bad(), 0..5);
    check((lines, cuts()), |runtime, (lines, cuts)| {
        let body = lines.join(&b'\n');
        let whole = runtime.block_on(watch(vec![body.clone().into()]));
        prop_assert_eq!(whole, runtime.block_on(watch(split(&body, &cuts))));
        Ok(())
    });
}

#[test]
fn valid_items_are_found_with_one_list_end() {
    let kinds = prop::sample::select(vec!["PodList", "PodList", "List", "Table"]);
    check((objects(), kinds, json(), cuts()), |runtime, (objects, kind, metadata, cuts)| {
        let items: Vec<_> = objects.iter().map(Object::bytes).collect();
        let mut body =
            format!(r#"{{"kind":"{kind}","apiVersion":"v1","metadata":{metadata},"items":["#).into_bytes();
        body.extend(items.join(&b','));
        body.extend(b"]}");
        let whole = runtime.block_on(list(vec![body.clone().into()]));
        let mut parts = runtime.block_on(list(split(&body, &cuts)));
        // If the body has several errors, the split determines which error is found first.
        prop_assert_eq!(whole.error.is_some(), parts.error.is_some(), "{:?} {:?}", whole, parts);
        // Items without identity are reported with the items of the same read.
        let mut expected = whole.found.clone();
        parts.found.sort_unstable();
        expected.sort_unstable();
        prop_assert!(whole.error.is_some() || parts.found == expected, "{:?} {:?}", whole, parts);
        let ends = whole.found.iter().filter(|line| line.starts_with("end ")).count();
        prop_assert_eq!(ends, usize::from(whole.error.is_none()), "{:?}", whole);
        prop_assert!(whole.error.is_some() || good_of(&whole) == good(&objects), "{:?}", whole);
        Ok(())
    });
}

#[test]
fn arbitrary_list_does_not_depend_on_chunks() {
    check((bad(), cuts()), |runtime, (body, cuts)| {
        let whole = runtime.block_on(list(vec![body.clone().into()]));
        let parts = runtime.block_on(list(split(&body, &cuts)));
        prop_assert_eq!(whole.error.is_some(), parts.error.is_some(), "{:?} {:?}", whole, parts);
        Ok(())
    });
}
