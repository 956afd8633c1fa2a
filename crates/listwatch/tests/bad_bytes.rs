//! Whatever a server sends and however it is split: nothing panics, nothing is held beyond the limit, good objects are
//! found among bad ones, and no error quotes what it could not read.

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

/// What no error may show.
const SECRET: &str = "hunter2";
/// The longest object that is read.
const LIMIT: usize = 4096;

/// Objects that are Pods, and what stands in their place.
#[derive(Debug, Clone)]
enum Object {
    /// A Pod of this number.
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

/// A Pod of which some fields are wrong, missing or there twice.
fn nearly_a_pod() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        Just(r#""kind":"Pod""#.to_owned()),
        Just(r#""apiVersion":"v1""#.to_owned()),
        Just(r#""metadata":{"name":"nearly","resourceVersion":"7"}"#.to_owned()),
        // Kinds are quoted, cut to a length that is safe.
        Just(r#""kind":"Table""#.to_owned()),
        Just(r#""kind":7"#.to_owned()),
        (prop::sample::select(vec!["metadata", "spec", "status"]), json())
            .prop_map(|(key, value)| format!("{key:?}:{value}")),
        json().prop_map(|value| format!(r#""metadata":{{"name":"nearly","labels":{value}}}"#)),
        json().prop_map(|value| format!(r#""spec":{{"containers":[{{"env":{value}}}]}}"#)),
    ];
    prop::collection::vec(field, 0..6).prop_map(|fields| format!("{{{}}}", fields.join(",")))
}

/// Anything; whole frames and items of it, so without a line's end.
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

/// A source whose every answer has this body, in these pieces.
fn source(pieces: Vec<Bytes>) -> ListWatch<Pod> {
    let service = tower::service_fn(move |_: Request<Body>| {
        let frames =
            stream::iter(pieces.clone()).map(|piece| Ok::<_, Infallible>(http_body::Frame::data(piece)));
        let answer = Response::builder().header("content-type", "application/json");
        std::future::ready(answer.body(StreamBody::new(frames)).map_err(|_| std::fmt::Error))
    });
    ListWatch::new(Api::all(Client::new(service, "default"))).max_object_bytes(LIMIT)
}

/// What a list or a watch gives, in words: whom it names, and the error that it ends with.
#[derive(Debug, PartialEq)]
struct Read {
    found: Vec<String>,
    error: Option<String>,
}

/// An error's words, which are no secret.
fn shown(error: &(impl ToString + Debug)) -> String {
    let text = error.to_string();
    assert!(!text.contains(SECRET) && !format!("{error:?}").contains(SECRET), "{text} {error:?}");
    text
}

fn decoded(object: &Decoded<Pod>) -> String {
    match object {
        Decoded::Object(entry) => entry.key().to_string(),
        Decoded::Undecodable { error, .. } => format!("? {}", shown(error)),
    }
}

fn read<P>(parts: &[Result<P, ListWatchError>], found: impl Fn(&P) -> Vec<String>) -> Read {
    let failed = parts.iter().filter(|part| part.is_err()).count();
    assert!(
        failed == 0 || failed == 1 && parts.last().is_some_and(Result::is_err),
        "it goes on after its error"
    );
    let error = parts.last().and_then(|part| part.as_ref().err()).map(shown);
    Read { found: parts.iter().flatten().flat_map(found).collect(), error }
}

async fn watch(pieces: Vec<Bytes>) -> Read {
    let timeout = Some(Duration::from_secs(300));
    let request = WatchRequest { from: WatchFrom::Version(5.into()), timeout, bookmarks: true };
    let events: Vec<_> = source(pieces).watch(request, Arc::new(NoCache)).collect().await;
    read(&events, |events: &Vec<WatchEvent<Pod>>| {
        let event = |event: &WatchEvent<Pod>| match event {
            WatchEvent::Added(object) => format!("+{}", decoded(object)),
            WatchEvent::Modified(object) => format!("~{}", decoded(object)),
            WatchEvent::Deleted { id, .. } => format!("-{}", id.key),
            WatchEvent::Bookmark { version, .. } => format!("@{version}"),
        };
        events.iter().map(event).collect()
    })
}

async fn list(pieces: Vec<Bytes>) -> Read {
    let request = ListRequest { at: ListAt::Any, limit: None };
    let parts: Vec<_> = source(pieces).list(request, Arc::new(NoCache)).collect().await;
    read(&parts, |part: &ListPart<Pod>| match part {
        ListPart::Items { items, nameless } => items
            .iter()
            .map(decoded)
            .chain(nameless.iter().map(|reason| format!("? {}", shown(reason))))
            .collect(),
        ListPart::End(end) => vec![format!("end {}", end.version)],
    })
}

/// Runs a property with a runtime for its clients.
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

/// Those of the good ones that were found, in their order.
fn good_of(read: &Read) -> Vec<String> {
    let name = |line: &String| line.find("good-").map(|at| line[at..].to_owned());
    read.found.iter().filter_map(name).collect()
}

#[test]
fn good_events_are_found_among_bad_ones_up_to_the_first_error() {
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
        prop_assert!(whole.found.len() <= objects.len());
        Ok(())
    });
}

#[test]
fn frames_of_any_bytes_are_the_same_however_they_are_split() {
    let lines = prop::collection::vec(bad(), 0..5);
    check((lines, cuts()), |runtime, (lines, cuts)| {
        let body = lines.join(&b'\n');
        let whole = runtime.block_on(watch(vec![body.clone().into()]));
        prop_assert_eq!(whole, runtime.block_on(watch(split(&body, &cuts))));
        Ok(())
    });
}

#[test]
fn good_items_are_found_among_bad_ones_and_a_list_ends_once() {
    let kinds = prop::sample::select(vec!["PodList", "PodList", "List", "Table"]);
    check((objects(), kinds, json(), cuts()), |runtime, (objects, kind, metadata, cuts)| {
        let items: Vec<_> = objects.iter().map(Object::bytes).collect();
        let mut body =
            format!(r#"{{"kind":"{kind}","apiVersion":"v1","metadata":{metadata},"items":["#).into_bytes();
        body.extend(items.join(&b','));
        body.extend(b"]}");
        let whole = runtime.block_on(list(vec![body.clone().into()]));
        let mut parts = runtime.block_on(list(split(&body, &cuts)));
        // Which of several things that are wrong is named depends on what has been read by then.
        prop_assert_eq!(whole.error.is_some(), parts.error.is_some(), "{:?} {:?}", whole, parts);
        // Nameless items are told beside the items of the same read.
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
fn bodies_of_any_bytes_are_the_same_lists_however_they_are_split() {
    check((bad(), cuts()), |runtime, (body, cuts)| {
        let whole = runtime.block_on(list(vec![body.clone().into()]));
        let parts = runtime.block_on(list(split(&body, &cuts)));
        prop_assert_eq!(whole.error.is_some(), parts.error.is_some(), "{:?} {:?}", whole, parts);
        Ok(())
    });
}
