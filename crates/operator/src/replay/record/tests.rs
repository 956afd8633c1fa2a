//! Tests of recordings.

use std::convert::Infallible;

use http_body_util::{BodyExt, Full};

use super::*;
use crate::{recorded_bodies, replay::reader::Entries};

/// The length of the magic and the version.
const START_BYTES: usize = 12;

/// Returns a client whose responses to all requests have this body.
fn client(body: &'static str) -> Client {
    let respond = move |_: Request<Body>| async move {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(body.as_bytes()))))
    };
    Client::new(tower::service_fn(respond), "default")
}

async fn read(client: &Client, path: &str) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    client.send(request).await.unwrap().into_body().collect().await.unwrap();
}

fn chunks(path: &Path) -> Vec<String> {
    let file = fs::read(path).unwrap();
    let entries = Entries::new(&file).unwrap().map(Result::unwrap);
    entries
        .filter_map(|entry| if let Entry::Chunk { text, .. } = entry { Some(text) } else { None })
        .collect()
}

#[tokio::test]
async fn value_of_secret_is_replaced_within_earlier_and_later_texts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let (map, secret) = (
        "{\"kind\":\"ConfigMap\",\"data\":{\"a\":\"<swordfish>swordfish\"}}\n{\"kind\":\"ConfigMap\"}\n",
        "{\"kind\":\"Secret\",\"data\":{\"a\":\"c3dvcmRmaXNo\"}}",
    );
    let (recording, records_maps) = Recording::start(&path, client(map)).unwrap();
    let records_secrets = recording.record(client(secret));
    read(&records_maps, "/api/v1/configmaps?watch=true").await;
    read(&records_secrets, "/api/v1/secrets/a").await;
    read(&records_maps, "/api/v1/configmaps?watch=true").await;
    recording.finish().await.unwrap();
    let texts = chunks(&path);
    let data = |text: &String| serde_json::from_str::<serde_json::Value>(text).unwrap()["data"]["a"].clone();
    let data: Vec<_> = texts.iter().map(data).collect();
    let replaced = serde_json::json!("<redacted-0>redacted-0");
    assert_eq!((&data[0], &data[3]), (&replaced, &replaced), "{texts:?}");
    assert!(texts.len() == 5 && !texts.concat().contains("swordfish"), "{texts:?}");
}

/// A Secret from a file often ends with a line break, and programs copy it without. An annotation of
/// kubectl contains JSON.
#[test]
fn forms_of_value_are_replaced() {
    let mut redactor = Redactor::default();
    let secret = serde_json::json!({"kind": "Secret", "stringData": {"a": "first \"line\"\nsecond line\n"}});
    redactor.redact("secrets", secret.to_string().as_bytes()).unwrap();
    let trimmed = "first \"line\"\nsecond line";
    let annotation = serde_json::json!({"env": [{"value": trimmed}]}).to_string();
    let object = serde_json::json!({"kind": "Pod", "spec": [trimmed, annotation]}).to_string();
    let text = redactor.redact("pods", object.as_bytes()).unwrap();
    assert!(text.contains("redacted-0") && !text.contains("line"), "{text}");
}

/// A program that is killed leaves the partial file.
#[tokio::test]
async fn partial_file_contains_no_value_of_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let secret = "{\"kind\":\"Secret\",\"data\":{\"a\":\"c3dvcmRmaXNo\"},\"stringData\":{\"b\":\"x\",\"c\":\"swordfish\"}}";
    let (recording, client) = Recording::start(&path, client(secret)).unwrap();
    read(&client, "/api/v1/secrets/a").await;
    // Closes the file.
    recording.stop(io::Error::other("the program is killed"));
    let [text] = &*chunks(&with_suffix(&path, ".partial")) else { panic!() };
    for value in ["c3dvcmRmaXNo", "\"x\"", "swordfish"] {
        assert!(!text.contains(value), "{text}");
    }
}

/// The API server rejects numbers in a Secret. Objects of other kinds, which a program marks, contain them.
#[test]
fn numbers_and_booleans_of_sensitive_objects_are_replaced() {
    let mut redactor = Redactor::default();
    let secret = serde_json::json!({
        "kind": "Secret", "immutable": true, "metadata": {"generation": 3, "name": "a"},
        "data": {"pin": 12_345_678, "on": true, "list": [4711, {"x": -1.5}], "none": null},
        "stringData": {"pin": 87_654_321},
    });
    let text = redactor.redact("secrets", secret.to_string().as_bytes()).unwrap();
    let expected = serde_json::json!({
        "kind": "Secret", "immutable": true, "metadata": {"generation": 3, "name": "a"},
        "data": {"pin": 0, "on": false, "list": [0, {"x": 0}], "none": null}, "stringData": {"pin": 0},
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), expected);
    assert_eq!(redactor.hidden(), 5);
}

#[test]
fn result_of_token_review_is_kept() {
    let mut redactor = Redactor::default();
    let review = serde_json::json!({"kind": "TokenReview", "status": {"authenticated": true}});
    let text = redactor.redact("tokenreviews", review.to_string().as_bytes()).unwrap();
    assert!(text.contains("true"), "{text}");
}

#[tokio::test]
async fn truncated_recording_has_its_complete_bodies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let (recording, client) = Recording::start(&path, client("{\"kind\":\"Pod\"}\n")).unwrap();
    for _ in 0..3 {
        read(&client, "/api/v1/pods?watch=true").await;
    }
    recording.finish().await.unwrap();
    let file = fs::read(&path).unwrap();
    let all = recorded_bodies(&path).unwrap();
    assert!(all.is_complete && all.bodies.len() == 3, "{all:?}");
    let empty = Entries::new(&file[..START_BYTES]).unwrap();
    assert_eq!((empty.is_complete(), empty.count()), (false, 0));
    for length in START_BYTES..file.len() {
        fs::write(&path, &file[..length]).unwrap();
        let read = recorded_bodies(&path).unwrap();
        assert!(!read.is_complete && all.bodies.starts_with(&read.bodies), "{length} bytes");
    }
}

#[tokio::test]
async fn full_recording_keeps_earlier_file_and_partial_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    fs::write(&path, "earlier").unwrap();
    let (recording, client) = Recording::start(&path, client("{}")).unwrap();
    read(&client, "/api/v1/pods").await;
    if let State::Recording(open) = &mut *recording.0.state.lock() {
        open.left = 100;
    }
    for _ in 0..3 {
        read(&client, "/api/v1/pods").await;
    }
    assert_eq!(recording.hidden_values(), None, "the recording has stopped");
    let error = recording.finish().await.unwrap_err().to_string();
    assert!(error.contains("the recording reached 256 MiB"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"earlier");
    let partial = recorded_bodies(&with_suffix(&path, ".partial")).unwrap();
    assert!(!partial.is_complete && partial.bodies.len() == 1, "{partial:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn special_file_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    for path in [&path, folder.path()] {
        let started = Recording::start(path, client("{}"));
        assert!(matches!(started.err(), Some(RecordingError::Io { .. })));
    }
    assert!(!fs::metadata(&path).unwrap().is_file());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file");
}

#[tokio::test]
async fn stopped_recording_stores_no_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let (recording, client) =
        Recording::start(&path, client("{\"kind\":\"Secret\",\"data\":{\"a\":\"eA==\"}}")).unwrap();
    recording.stop(io::Error::other("the disk is full"));
    read(&client, "/api/v1/secrets/a").await;
    assert!(matches!(*recording.0.state.lock(), State::Stopped(_)), "the redactor is dropped");
    assert!(recording.finish().await.is_err());
}

#[tokio::test]
async fn discarded_recording_keeps_earlier_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    fs::write(&path, "earlier").unwrap();
    let (recording, client) = Recording::start(&path, client("{}")).unwrap();
    read(&client, "/api/v1/pods").await;
    recording.clone().discard().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"earlier");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the partial file is removed");
    assert!(recording.finish().await.is_err());
    assert_eq!(fs::read(&path).unwrap(), b"earlier");
}

#[test]
fn finish_neither_blocks_requests_nor_depends_on_its_future() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    runtime.block_on(async {
        let (release, wait) = std::sync::mpsc::channel::<()>();
        // The file cannot be written before this task completes.
        let busy = tokio::task::spawn_blocking(move || wait.recv());
        let (recording, client) = Recording::start(&path, client("{}")).unwrap();
        read(&client, "/api/v1/pods").await;
        let mut finish = Box::pin(recording.finish());
        assert!(futures_util::poll!(&mut finish).is_pending());
        read(&client, "/api/v1/pods").await;
        drop(finish);
        assert!(!path.exists());
        drop(release);
        assert!(busy.await.unwrap().is_err());
        recording.finish().await.unwrap();
        recording.finish().await.unwrap();
    });
    assert_eq!(chunks(&path), ["{}"], "the second response is not recorded");
}

#[tokio::test]
async fn too_large_response_stops_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let (recording, _client) = Recording::start(&path, client("{}")).unwrap();
    let body = Body::from(vec![b' '; MAX_BODY_BYTES + 1]);
    let body = recording.respond(Response::new(body), 1, "pods".to_owned(), false).into_body();
    assert_eq!(body.collect().await.unwrap().to_bytes().len(), MAX_BODY_BYTES + 1, "the program reads it");
    let error = recording.finish().await.unwrap_err().to_string();
    assert!(error.contains("larger than 64 MiB"), "{error}");
}

#[tokio::test]
async fn function_removes_further_values_and_bodies_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let body =
        "{\"kind\":\"PodList\",\"items\":[{\"spec\":{\"a\":\"private\"}},{\"spec\":{\"a\":\"private\"}}]}";
    let redact = |resource: &str, object: &mut serde_json::Value| {
        assert_eq!(resource, "pods");
        object["spec"]["a"] = "redacted".into();
    };
    let (recording, client) = Recording::start_with_redaction(&path, client(body), redact).unwrap();
    read(&client, "/api/v1/pods?limit=5").await;
    assert_eq!(recording.hidden_values(), Some(0));
    recording.finish().await.unwrap();
    assert_eq!(recording.hidden_values(), None);
    let bodies = recorded_bodies(&path).unwrap().bodies;
    let [only] = &*bodies else { panic!("{bodies:?}") };
    assert_eq!((&*only.method, &*only.path, only.status), ("GET", "/api/v1/pods?limit=5", 200));
    assert!(only.body.contains("redacted") && !only.body.contains("private"), "{}", only.body);
}
