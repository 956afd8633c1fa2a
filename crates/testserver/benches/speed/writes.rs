//! Writes with ten watchers that read all events: creates, replaces and patches of small and large Pods.

use http::Method;
use http_body_util::BodyExt;
use kube_testserver::{ApiService, Server};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::pods::{self, LARGE, SMALL, Template};
use crate::requests::{self, PODS};
use crate::{Size, process};

const WATCHERS: usize = 10;
/// The number of Pods for replaces and patches.
const OBJECTS: usize = 100;
const TARGET_WRITES_PER_SECOND: f64 = 20_000.0;
/// The number of threads that the target assumes.
const THREADS: usize = 2;

#[derive(Clone, Copy, Debug)]
enum WriteKind {
    Create,
    Replace,
    PatchStatus,
}

const KINDS: [(WriteKind, &str); 3] = [
    (WriteKind::Create, "create"),
    (WriteKind::Replace, "PUT"),
    (WriteKind::PatchStatus, "merge patch of status"),
];

/// The parameters of one measurement.
#[derive(Clone, Copy, Debug)]
struct Case {
    kind: WriteKind,
    /// The size of a Pod.
    bytes: usize,
    writers: usize,
    /// Tracks field ownership in managedFields.
    owners: bool,
    writes: usize,
}

pub(crate) fn run(size: Size) {
    println!("\nwrites with {WATCHERS} watchers on {THREADS} threads (target: {TARGET_WRITES_PER_SECOND}/s)");
    for (bytes, writes) in [(SMALL, size.writes), (LARGE, size.writes / 4)] {
        println!("  Pods of {} KB without managedFields, {writes} writes each", bytes / 1024);
        for (kind, name) in KINDS {
            for (writers, owners) in [(1, false), (2, false), (1, true), (2, true)] {
                let (seconds, processor) = measure(Case { kind, bytes, writers, owners, writes });
                let rate = writes as f64 / seconds;
                println!(
                    "    {name:<21}, {writers} writer(s), {} managedFields {rate:>7.0}/s, {:.2} of the target, \
                     {:>4.0} us of processor time per write",
                    if owners { "with   " } else { "without" },
                    rate / TARGET_WRITES_PER_SECOND,
                    processor / writes as f64 * 1e6,
                );
            }
        }
    }
}

/// Returns the seconds and processor seconds until all writes are done and all watchers have read their
/// events.
fn measure(case: Case) -> (f64, f64) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(THREADS).enable_all().build().expect("a runtime");
    let Case { kind, bytes, writers, owners, writes } = case;
    runtime.block_on(async move {
        let server = Server::builder().field_ownership(owners).build();
        if !matches!(kind, WriteKind::Create) {
            write(server.service(), WriteKind::Create, bytes, 0, 1, objects(kind, writes)).await;
        }
        let mut tasks = JoinSet::new();
        for _ in 0..WATCHERS {
            let from = server.resource_version();
            let path = format!("{PODS}?watch=1&resourceVersion={from}");
            let mut service = server.service();
            let body = requests::open(&mut service, Method::GET, &path, "", bytes::Bytes::new()).await;
            tasks.spawn(read(body, writes));
        }
        let (start, processor) = (Instant::now(), process::processor_seconds());
        for writer in 0..writers {
            tasks.spawn(write(server.service(), kind, bytes, writer, writers, writes));
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("a task that does not panic");
        }
        (start.elapsed().as_secs_f64(), process::processor_seconds() - processor)
    })
}

/// Returns the number of objects that the writes change.
fn objects(kind: WriteKind, writes: usize) -> usize {
    match kind {
        WriteKind::Create => writes,
        WriteKind::Replace | WriteKind::PatchStatus => writes.min(OBJECTS),
    }
}

/// Executes every `step`th write, starting with `first`.
async fn write(
    mut service: ApiService,
    kind: WriteKind,
    bytes: usize,
    first: usize,
    step: usize,
    writes: usize,
) {
    let pod = match kind {
        WriteKind::Create | WriteKind::Replace => Template::new(bytes),
        WriteKind::PatchStatus => Template::status_patch(),
    };
    let objects = objects(kind, writes);
    for at in (first..writes).step_by(step) {
        // Each change is different, because a write without a change creates no event.
        let change = if matches!(kind, WriteKind::Create) { 0 } else { at + 1 };
        let number = at % objects;
        let body = pod.body(number, change);
        match kind {
            WriteKind::Create => {
                requests::write(&mut service, Method::POST, PODS, "application/json", body).await
            }
            WriteKind::Replace => {
                let path = format!("{PODS}/{}", pods::name(number));
                requests::write(&mut service, Method::PUT, &path, "application/json", body).await
            }
            WriteKind::PatchStatus => {
                let path = format!("{PODS}/{}/status", pods::name(number));
                requests::write(&mut service, Method::PATCH, &path, "application/merge-patch+json", body)
                    .await
            }
        };
    }
}

/// Reads this number of events. Each event is a separate frame.
async fn read(mut body: kube_testserver::Body, writes: usize) {
    for at in 0..writes {
        let frame = body.frame().await.expect("an open watch").expect("a complete frame");
        let data = frame.into_data().expect("data");
        let event = data.starts_with(b"{\"type\":\"ADDED\"") || data.starts_with(b"{\"type\":\"MODIFIED\"");
        assert!(event && data.ends_with(b"}\n"), "frame {at}");
    }
}
