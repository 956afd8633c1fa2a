//! Writes with ten watchers that read everything: creates, replaces and patches, of small and of large Pods.

use http::Method;
use http_body_util::BodyExt;
use kube_testserver::{ApiService, Server};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::ask::{self, PODS};
use crate::pods::{self, LARGE, SMALL, Template};
use crate::{Size, process};

const WATCHERS: usize = 10;
/// The Pods that are replaced and patched, in turn.
const OBJECTS: usize = 100;
const BAR: f64 = 20_000.0;
/// As many as the bar asks for.
const THREADS: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Create,
    Replace,
    PatchStatus,
}

const KINDS: [(Kind, &str); 3] =
    [(Kind::Create, "create"), (Kind::Replace, "PUT"), (Kind::PatchStatus, "merge patch of status")];

/// One way to write: what, how large, by how many, and whether owners of fields are tracked.
#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Kind,
    bytes: usize,
    writers: usize,
    owners: bool,
    writes: usize,
}

pub(crate) fn run(size: Size) {
    println!("\nwrites with {WATCHERS} watchers on {THREADS} threads (bar: {BAR}/s)");
    for (bytes, writes) in [(SMALL, size.writes), (LARGE, size.writes / 4)] {
        println!("  Pods of {} KB without managedFields, {writes} writes each", bytes / 1024);
        for (kind, name) in KINDS {
            for (writers, owners) in [(1, false), (2, false), (1, true), (2, true)] {
                let (seconds, processor) = measure(Case { kind, bytes, writers, owners, writes });
                let rate = writes as f64 / seconds;
                println!(
                    "    {name:<21}, {writers} writer(s), {} managedFields {rate:>7.0}/s, {:.2} of the bar, \
                     {:>4.0} us of processor each",
                    if owners { "with   " } else { "without" },
                    rate / BAR,
                    processor / writes as f64 * 1e6,
                );
            }
        }
    }
}

/// Seconds and processor seconds until all writes are done and all watchers have read all of them.
fn measure(case: Case) -> (f64, f64) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(THREADS).enable_all().build().expect("a runtime");
    let Case { kind, bytes, writers, owners, writes } = case;
    runtime.block_on(async move {
        let server = Server::builder().field_ownership(owners).build();
        if !matches!(kind, Kind::Create) {
            write(server.service(), Kind::Create, bytes, 0, 1, objects(kind, writes)).await;
        }
        let mut tasks = JoinSet::new();
        for _ in 0..WATCHERS {
            let from = server.resource_version();
            let path = format!("{PODS}?watch=1&resourceVersion={from}");
            let mut service = server.service();
            let body = ask::open(&mut service, Method::GET, &path, "", bytes::Bytes::new()).await;
            tasks.spawn(read(body, writes));
        }
        let (start, processor) = (Instant::now(), process::processor_seconds());
        for writer in 0..writers {
            tasks.spawn(write(server.service(), kind, bytes, writer, writers, writes));
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("a task that asserts nothing wrong");
        }
        (start.elapsed().as_secs_f64(), process::processor_seconds() - processor)
    })
}

/// How many objects the writes are spread over.
fn objects(kind: Kind, writes: usize) -> usize {
    match kind {
        Kind::Create => writes,
        Kind::Replace | Kind::PatchStatus => writes.min(OBJECTS),
    }
}

/// Every `step`th write, from `first` on.
async fn write(mut service: ApiService, kind: Kind, bytes: usize, first: usize, step: usize, writes: usize) {
    let pod = match kind {
        Kind::Create | Kind::Replace => Template::new(bytes),
        Kind::PatchStatus => Template::status_patch(),
    };
    let objects = objects(kind, writes);
    for at in (first..writes).step_by(step) {
        // Never twice the same: a write that changes nothing is no event.
        let change = if matches!(kind, Kind::Create) { 0 } else { at + 1 };
        let number = at % objects;
        let body = pod.body(number, change);
        match kind {
            Kind::Create => ask::write(&mut service, Method::POST, PODS, "application/json", body).await,
            Kind::Replace => {
                let path = format!("{PODS}/{}", pods::name(number));
                ask::write(&mut service, Method::PUT, &path, "application/json", body).await
            }
            Kind::PatchStatus => {
                let path = format!("{PODS}/{}/status", pods::name(number));
                ask::write(&mut service, Method::PATCH, &path, "application/merge-patch+json", body).await
            }
        };
    }
}

/// Reads this many events, each a frame of its own.
async fn read(mut body: kube_testserver::Body, writes: usize) {
    for at in 0..writes {
        let frame = body.frame().await.expect("a watch that goes on").expect("a whole frame");
        let data = frame.into_data().expect("data");
        let event = data.starts_with(b"{\"type\":\"ADDED\"") || data.starts_with(b"{\"type\":\"MODIFIED\"");
        assert!(event && data.ends_with(b"}\n"), "frame {at}");
    }
}
