//! Records a conflict of the Website operator, which depends on the times of two writes, and replays it.

use std::{
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::Client;
use kube_informer_examples::website::{OperatorOptions, Website, operator};
use kube_operator::{Recording, RecordingError, Replay};
use kube_testserver::{Fault, RequestMatch, Server, Verb};
use serde_json::json;
use tokio::{runtime::Builder, task::JoinHandle, time::sleep};
use tracing_subscriber::fmt::MakeWriter;

/// The value of a Secret, as text and in base64. A ConfigMap contains a copy of this value.
const SECRET: [&str; 2] = ["hunter2-hunter2", "aHVudGVyMi1odW50ZXIy"];

/// Collects the log of a thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Runs a future with a paused clock and a fixed seed. Returns its output and the warnings of the operator.
fn run<F: Future>(future: impl FnOnce() -> F) -> (F::Output, String) {
    fastrand::seed(7);
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("kube_operator=warn")
        .with_writer(log.clone())
        .with_ansi(false)
        .without_time()
        .finish();
    let output = tracing::subscriber::with_default(subscriber, || {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async { future().await })
    });
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    (output, text)
}

/// Starts the Website operator with an additional cache of Secrets.
fn start(client: Client) -> JoinHandle<()> {
    let (namespace, identity) = ("default".to_owned(), Some("test".to_owned()));
    let manager = operator(client, OperatorOptions { namespace, identity, address: None }).unwrap();
    manager.factory().informer::<Secret>().unwrap();
    tokio::spawn(async move { drop(manager.run(std::future::pending()).await) })
}

async fn record(path: &Path) {
    let server = Server::builder().garbage_collector(true).build();
    server.install::<Website>().unwrap();
    let secret = json!({"metadata": {"name": "login"}, "stringData": {"password": SECRET[0]}});
    server.create::<Secret>(&serde_json::from_value(secret).unwrap()).unwrap();
    let copy =
        json!({"metadata": {"name": "copy"}, "data": {"url": format!("https://{}@example.com", SECRET[0])}});
    server.create::<ConfigMap>(&serde_json::from_value(copy).unwrap()).unwrap();
    let (recording, client) = Recording::start(path, Client::new(server.service(), "default")).unwrap();
    let operator = start(client);
    sleep(Duration::from_secs(5)).await;

    let status = RequestMatch::verb(Verb::Update).kind::<Website>().subresource("status");
    server.faults().next(status, Fault::Delay(Duration::from_secs(2)));
    let site = json!({
        "apiVersion": "examples.kube-informer.dev/v1", "kind": "Website", "metadata": {"name": "web"},
        "spec": {"html": "old", "replicas": 1},
    });
    server.create(&site).unwrap();
    sleep(Duration::from_secs(1)).await;
    // The server has not executed the request for the status yet. This request contains the resourceVersion
    // before this write.
    server.patch::<Website>(None, "web", &json!({"spec": {"html": "new"}})).unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(server.faults().pending(), 0);
    operator.abort();
    recording.finish().await.unwrap();
}

async fn replay(path: &Path) -> Vec<String> {
    let replay = Replay::open(path).unwrap();
    let operator = start(replay.client());
    replay.finished().await.unwrap();
    sleep(Duration::from_millis(100)).await;
    operator.abort();
    replay.requests()
}

#[test]
fn recorded_conflict_is_replayed_100_times_from_a_file_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("website.recording");
    let ((), log) = run(|| record(&path));
    assert!(log.contains("conflict with another write"), "{log}");
    assert_eq!(log.matches("reconcile failed").count(), 1, "{log}");

    let file = std::fs::read(&path).unwrap();
    let text = String::from_utf8_lossy(&file);
    assert!(text.contains("login") && text.contains("example.com"), "the objects are recorded");
    for secret in SECRET {
        assert!(!text.contains(secret), "the file contains {secret}");
    }

    let (requests, first) = run(|| replay(&path));
    assert_eq!(first, log);
    let updates = requests.iter().filter(|request| request.ends_with("/websites/web/status")).count();
    assert_eq!(updates, 2, "{requests:#?}");
    for number in 1..100 {
        let (again, log) = run(|| replay(&path));
        assert_eq!((&again, &log), (&requests, &first), "replay {number}");
    }
}

#[test]
fn recording_of_another_version_is_rejected_with_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("website.recording");
    run(|| record(&path));
    let file = std::fs::read(&path).unwrap();
    let mut other = file.clone();
    other[8] = 9;
    std::fs::write(&path, &other).unwrap();
    let error = Replay::open(&path).unwrap_err();
    assert!(matches!(error, RecordingError::Unusable { .. }));
    let expected = format!(
        "cannot use the recording {}: its format has version 9, and this program reads version 2; use a file that this version has recorded",
        path.display()
    );
    assert_eq!(error.to_string(), expected);

    let mut damaged = file.clone();
    damaged[file.len() / 2] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    assert!(Replay::open(&path).unwrap_err().to_string().contains("it is damaged"));
    std::fs::write(&path, "no recording").unwrap();
    assert!(Replay::open(&path).unwrap_err().to_string().contains("it is not a recording"));
    // A killed program leaves a partial entry at the end.
    std::fs::write(&path, &file[..file.len() - 3]).unwrap();
    assert!(Replay::open(&path).is_ok());
}
