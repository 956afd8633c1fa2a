//! Measures the memory of many Pods of 10 KB, of a streaming list, and of the history of changes.

use http::Method;
use http_body_util::BodyExt;
use kube_testserver::{ApiService, Server};
use tokio::time::Instant;

use crate::pods::{self, LARGE, Template};
use crate::requests::{self, PODS};
use crate::{Size, process};

const TARGET_RATIO: f64 = 1.15;
const MEGABYTE: f64 = 1024.0 * 1024.0;

pub(crate) fn run(size: Size) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let server = Server::new();
        let mut service = server.service();
        println!(
            "\nmemory, {} Pods of 10 KB, without managedFields (target: at most {TARGET_RATIO} x their JSON)",
            size.pods
        );
        let before = process::resident();
        let json = create(&mut service, size.pods).await;
        print_added("created", before, json);
        list(&mut service, size.pods).await;
        let json = change(&mut service, size.pods).await;
        print_added("after a status patch of each, with history", before, json);
    });
}

/// Prints the memory that was added since `before` for objects of `json` bytes.
fn print_added(label: &str, before: u64, json: usize) {
    let added = process::resident().saturating_sub(before) as f64;
    let json = json as f64;
    println!(
        "  {label}: {:.0} MB for {:.0} MB of JSON, ratio {:.3}",
        added / MEGABYTE,
        json / MEGABYTE,
        added / json
    );
}

async fn create(service: &mut ApiService, count: usize) -> usize {
    let pod = Template::new(LARGE);
    let mut json = 0;
    for number in 0..count {
        json += requests::write(service, Method::POST, PODS, "application/json", pod.body(number, 0)).await;
    }
    json
}

async fn change(service: &mut ApiService, count: usize) -> usize {
    let patch = Template::status_patch();
    let mut json = 0;
    for number in 0..count {
        let path = format!("{PODS}/{}/status", pods::name(number));
        let body = patch.body(number, 1);
        json += requests::write(service, Method::PATCH, &path, "application/merge-patch+json", body).await;
    }
    json
}

/// Lists all Pods and counts the bytes. Does not keep the list.
async fn list(service: &mut ApiService, count: usize) {
    let (before, start) = (process::resident(), Instant::now());
    let mut body = requests::open(service, Method::GET, PODS, "application/json", bytes::Bytes::new()).await;
    let (mut first, mut bytes, mut largest, mut names) = (None, 0, 0, 0);
    while let Some(frame) = body.frame().await {
        let data = frame.expect("a complete list").into_data().expect("data");
        first.get_or_insert(start.elapsed());
        bytes += data.len();
        largest = largest.max(data.len());
        names +=
            data.windows(b"\"generateName\":".len()).step_by(1).filter(|w| w == b"\"generateName\":").count();
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(names, count, "objects in the list");
    let added = process::peak().max(process::resident()).saturating_sub(before);
    println!(
        "  list: first byte after {:.1} ms, {:.0} MB in {seconds:.2} s, {:.0} MB/s, chunks of at most {} KB, \
         at most {:.1} MB of added memory",
        first.unwrap_or_default().as_secs_f64() * 1e3,
        bytes as f64 / MEGABYTE,
        bytes as f64 / MEGABYTE / seconds,
        largest / 1024,
        added as f64 / MEGABYTE,
    );
}
