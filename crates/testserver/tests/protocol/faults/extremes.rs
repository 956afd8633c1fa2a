//! Parameters at the limits of their ranges.

use std::time::Duration;

use jiff::SignedDuration;
use kube_testserver::{Clock, Fault, FaultPlan, Lag, Outage, RequestMatch, Server};
use serde_json::json;

use crate::client::{CONFIGMAPS, Lines, configmaps, get, server};

const LONG: Duration = Duration::MAX;

#[tokio::test(start_paused = true)]
async fn maximum_durations_do_not_overflow() {
    let server = Server::builder().bookmark_period(LONG).expire_after(LONG).build();
    server.set_lag(Lag::Time(LONG));
    configmaps(&server, &["a"]);
    let mut watch =
        Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=5"))
            .await;
    let _ = watch.line().await;
    server.set_lag(Lag::None);
    configmaps(&server, &["b"]);
    assert_eq!(get(&server, CONFIGMAPS).await.names().len(), 2);
    server.outage_for(LONG, Outage::Refused);
    server.faults().during(LONG, RequestMatch::any(), Fault::Delay(LONG));
}

#[tokio::test(start_paused = true)]
async fn zero_bookmark_period_does_not_block() {
    let server = Server::builder().bookmark_period(Duration::ZERO).build();
    let first = configmaps(&server, &["a"]);
    let path =
        format!("{CONFIGMAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=5&resourceVersion={first}");
    assert_eq!(get(&server, &path).await.text, "");
}

#[test]
fn pending_fault_count_saturates() {
    let server = server();
    server.faults().times(usize::MAX, &RequestMatch::any(), &Fault::Reset);
    server.faults().times(usize::MAX, &RequestMatch::any(), &Fault::Reset);
    assert_eq!(server.faults().pending(), usize::MAX);
}

#[tokio::test]
async fn nan_rate_means_no_faults() {
    let plan = FaultPlan::new(1).rate(f64::NAN).fault(1, RequestMatch::any(), Fault::Reset);
    let server = Server::builder().plan(plan).build();
    assert_eq!(get(&server, CONFIGMAPS).await.code, 200);
}

#[test]
fn extreme_clocks_produce_valid_timestamps() {
    let server = server();
    server.set_clock(Clock::Fixed(jiff::Timestamp::MIN));
    let object =
        server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})).unwrap();
    let stamp = object["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    assert_eq!(stamp.len(), 20, "{stamp}");
    server.set_clock(Clock::Fixed(jiff::Timestamp::MAX));
    server.jump_clock(SignedDuration::MAX);
    server.jump_clock(SignedDuration::MAX);
    server.jump_clock(SignedDuration::MIN);
    let object =
        server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "m"}})).unwrap();
    let stamp = object["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    assert_eq!(stamp.len(), 20, "{stamp}");
}
