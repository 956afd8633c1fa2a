//! Tests of the event recorder with a test server, under a paused clock: stored events, series, and
//! failures.

mod ends;
mod failures;

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{ConfigMap, Node},
    events::v1::Event,
};
use kube_client::{
    Api, Client, Resource,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use kube_operator::{EventRecorder, EventType, NewEvent, RecorderError, RecorderStatus};
use kube_testserver::{Fault, RequestMatch, Server, Verb};
use serde_json::json;
use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

fn map(name: &str) -> ConfigMap {
    let metadata =
        json!({"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "7"});
    serde_json::from_value(json!({ "metadata": metadata })).unwrap()
}

/// A recorder whose events are written.
struct Recording {
    recorder: EventRecorder,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Recording {
    fn new(server: &Server) -> Self {
        Self::through(client(server))
    }

    fn through(client: Client) -> Self {
        let stop = CancellationToken::new();
        let (recorder, writer) =
            EventRecorder::new(client, "example.com/shop", "shop-0", stop.clone()).unwrap();
        let task = tokio::spawn(writer);
        Self { recorder, stop, task }
    }

    fn report(&self, name: &str, reason: &str) {
        self.recorder.event(&map(name), EventType::Normal, reason, "Test", "a note");
    }

    /// Waits until all events are written, and returns the status.
    async fn written(&self) -> RecorderStatus {
        for _ in 0..100_000 {
            if self.recorder.status().waiting == 0 {
                return self.recorder.status();
            }
            sleep(SECOND).await;
        }
        panic!("not written: {:?}", self.recorder);
    }

    async fn stop(self) -> RecorderStatus {
        self.stop.cancel();
        self.task.await.unwrap();
        self.recorder.status()
    }
}

async fn events(server: &Server) -> Vec<Event> {
    Api::all(client(server)).list(&Default::default()).await.unwrap().items
}

/// Returns the only event on the server.
async fn event(server: &Server) -> Event {
    let mut events = events(server).await;
    assert_eq!(events.len(), 1, "{events:?}");
    events.remove(0)
}

/// Returns the count of the series.
fn count(event: &Event) -> Option<i32> {
    event.series.as_ref().map(|series| series.count)
}

fn creating() -> RequestMatch {
    RequestMatch::verb(Verb::Create).resource("events")
}

/// Returns the number of create requests and of patch requests.
fn request_counts(server: &Server) -> (usize, usize) {
    (server.journal().count(Verb::Create, "events"), server.journal().count(Verb::Patch, "events"))
}

#[tokio::test(start_paused = true)]
async fn event_has_object_action_reason_and_reporter() {
    let server = Server::new();
    let recording = Recording::new(&server);
    recording.recorder.event(&map("a"), EventType::Warning, "FailedCreate", "Create", "there is no room");
    recording.written().await;
    let event = serde_json::to_value(event(&server).await).unwrap();
    let expected = json!({
        "regarding": {
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "a", "uid": "uid-a",
            "resourceVersion": "7",
        },
        "type": "Warning", "reason": "FailedCreate", "action": "Create", "note": "there is no room",
        "reportingController": "example.com/shop", "reportingInstance": "shop-0",
    });
    for (field, expected) in expected.as_object().unwrap() {
        assert_eq!(&event[field], expected, "{field}");
    }
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("a.") && event["series"].is_null());
    assert_eq!(event["metadata"]["namespace"], "default");
    assert_eq!(event["eventTime"].as_str().unwrap().len(), "2026-01-01T00:00:00.000000Z".len());
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_object_has_events_in_default_namespace() {
    let server = Server::new();
    let recording = Recording::new(&server);
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    recording.recorder.event(&node, EventType::Normal, "Ready", "Look", "");
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Website"));
    let website = DynamicObject::new("system:w", &kind).within("default");
    recording.recorder.publish(NewEvent {
        regarding: website.object_ref(&kind),
        related: Some(map("a").object_ref(&())),
        reason: "Created".to_owned(),
        action: "Create".to_owned(),
        ..NewEvent::default()
    });
    assert_eq!(recording.written().await.sent, 2);
    let mut events = events(&server).await;
    events.sort_by_key(|event| event.reason.clone());
    assert_eq!(events[1].metadata.namespace.as_deref(), Some("default"));
    let regarding = events[0].regarding.clone().unwrap();
    assert_eq!(
        (regarding.api_version.as_deref(), regarding.kind.as_deref(), regarding.name.as_deref()),
        (Some("example.com/v1"), Some("Website"), Some("system:w"))
    );
    assert_eq!(events[0].related.as_ref().unwrap().name.as_deref(), Some("a"));
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn repeats_become_series_that_is_written_twice() {
    let server = Server::new();
    let recording = Recording::new(&server);
    for version in 0..10 {
        let mut map = map("a");
        map.metadata.resource_version = Some(version.to_string());
        let note = format!("note {version}");
        recording.recorder.event(&map, EventType::Normal, "Tested", "Test", note);
        sleep(MINUTE).await;
    }
    let begun = event(&server).await;
    assert_eq!(
        (count(&begun), request_counts(&server), recording.recorder.status().waiting),
        (Some(2), (1, 1), 8)
    );
    recording.written().await;
    let finished = event(&server).await;
    assert_eq!((count(&finished), request_counts(&server)), (Some(10), (1, 2)));
    assert_eq!(finished.note.as_deref(), Some("note 0"));
    let last = |event: &Event| event.series.as_ref().unwrap().last_observed_time.clone();
    assert!(last(&finished) > last(&begun) && last(&begun) >= begun.event_time.unwrap());
    assert_eq!(recording.recorder.status().tracked_series, 0);
    recording.report("a", "Tested");
    recording.written().await;
    assert_eq!(events(&server).await.len(), 2, "after a series there is a new event");
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn active_series_is_written_every_half_hour() {
    let server = Server::new();
    let recording = Recording::new(&server);
    for _ in 0..121 {
        recording.report("a", "Tested");
        sleep(MINUTE).await;
    }
    assert_eq!(request_counts(&server), (1, 4));
    assert_eq!(recording.stop().await.sent, 121);
    assert_eq!((count(&event(&server).await), request_counts(&server)), (Some(121), (1, 5)));
}

#[tokio::test(start_paused = true)]
async fn series_of_deleted_event_is_created_again() {
    let server = Server::new();
    let recording = Recording::new(&server);
    for _ in 0..3 {
        recording.report("a", "Tested");
        sleep(SECOND).await;
    }
    let name = event(&server).await.metadata.name.unwrap();
    server.delete_untyped("events.k8s.io/v1", "Event", Some("default"), &name).unwrap();
    assert_eq!(recording.written().await.sent, 3);
    assert_eq!((count(&event(&server).await), request_counts(&server)), (Some(3), (2, 2)));
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn full_queue_drops_and_counts_new_events() {
    let server = Server::new();
    let recording = Recording::new(&server);
    let hangs = server.faults().always(creating(), Fault::Hang);
    recording.report("0", "Tested");
    sleep(SECOND).await;
    for number in 0..1010 {
        recording.report(&number.to_string(), "Tested");
    }
    let status = recording.recorder.status();
    assert_eq!((status.waiting, status.dropped.queue_full, status.dropped.total()), (1002, 9, 9));
    drop(hangs);
    sleep(MINUTE).await;
    let status = recording.recorder.status();
    assert_eq!((status.sent, status.waiting, events(&server).await.len()), (1002, 0, 1001));
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rate_limit_of_one_object_spares_other_objects() {
    let server = Server::new();
    let recording = Recording::new(&server);
    for number in 0..30 {
        recording.report("a", &format!("Reason{number}"));
    }
    for _ in 0..3 {
        recording.report("a", "Reason0");
        recording.report("b", "Tested");
    }
    let status = recording.stop().await;
    assert_eq!((status.sent, status.dropped.rate_limited, events(&server).await.len()), (31, 5, 26));
}

#[tokio::test(start_paused = true)]
async fn long_text_is_truncated_and_missing_reason_is_dropped() {
    let server = Server::new();
    let recording = Recording::new(&server);
    recording.recorder.event(&map("a"), EventType::Normal, &"R".repeat(500), "Test", "€".repeat(1000));
    recording.recorder.event(&map("a"), EventType::Normal, "", "Test", "");
    recording.recorder.event(&map("a"), EventType::Normal, "Tested", "", "");
    let status = recording.written().await;
    assert_eq!((status.sent, status.failed, status.dropped.invalid), (1, 0, 2));
    let event = event(&server).await;
    assert_eq!((event.reason.unwrap(), event.note.unwrap()), ("R".repeat(128), "€".repeat(341)));
    recording.stop().await;
}

#[tokio::test(start_paused = true)]
async fn recorder_rejects_names_that_the_server_rejects() {
    let server = Server::new();
    let error = |controller: &str, instance: &str| {
        EventRecorder::new(client(&server), controller, instance, CancellationToken::new()).err()
    };
    for bad in ["", "my operator", "a/b/c"] {
        assert_eq!(error(bad, "i"), Some(RecorderError::InvalidController(bad.to_owned())));
    }
    assert_eq!(error("c", ""), Some(RecorderError::InvalidInstance(0)));
    assert_eq!(error("c", &"i".repeat(129)), Some(RecorderError::InvalidInstance(129)));
    assert_eq!(error("example.com/c", &"i".repeat(128)), None);
}
