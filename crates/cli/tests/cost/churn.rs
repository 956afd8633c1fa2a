//! The events that `cost --duration` counts.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::program::{Cluster, row, server};

const PERIOD: Duration = Duration::from_millis(25);
const OBJECTS: usize = 20;

/// Writes the objects, one in each period, until the future is dropped.
async fn write(client: Client, writes: &std::sync::atomic::AtomicU64) {
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let mut ticks = interval(PERIOD);
    // The average rate stays constant on a busy machine.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for number in 0_usize.. {
        ticks.tick().await;
        // Each fourth write is of another manager, which changes another field.
        let (manager, field) = if number % 4 == 0 { ("slow-writer", "b") } else { ("fast-writer", "a") };
        let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({"data": {field: number.to_string()}}));
        api.patch(&format!("object-{}", number % OBJECTS), &params, &patch).await.unwrap();
        writes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rate_of_each_manager_is_counted_within_ten_percent() {
    let server = server().build();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let _ = server.create(&namespace);
    for number in 0..OBJECTS {
        let name = format!("object-{number}");
        // An object without fields has no managedFields, like on kube-apiserver.
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
            "data": {"fixed": "1"},
        });
        server.apply(&object, "creator").unwrap();
    }
    let cluster = Cluster::serve(server).await;
    let client = cluster.client().await;
    let (writes, begun) = (std::sync::atomic::AtomicU64::new(0), Instant::now());
    let report = tokio::select! {
        () = write(client, &writes) => unreachable!("the writer stopped"),
        report = cluster.report(&["configmaps", "--duration", "4s"]) => report,
    };
    let rate = writes.into_inner() as f64 / begun.elapsed().as_secs_f64();
    let events = &row(&report, "configmaps")["events"];
    let is_close = |measured: &serde_json::Value, expected: f64| {
        let ratio = measured.as_f64().unwrap() / expected;
        assert!((0.9..=1.1).contains(&ratio), "{measured} and {expected}: {events}");
    };
    is_close(&events["perSecond"], rate);
    let managers = events["managers"].as_array().unwrap();
    assert_eq!(managers.len(), 2, "{events}");
    for (manager, name, field, share) in
        [(&managers[0], "fast-writer", ".data.a", 0.75), (&managers[1], "slow-writer", ".data.b", 0.25)]
    {
        assert_eq!(manager["manager"], name);
        is_close(&manager["perSecond"], share * rate);
        assert_eq!(manager["fields"][0]["name"], field);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resource_without_events_reports_zero() {
    let cluster = Cluster::serve(server().build()).await;
    let report = cluster.report(&["configmaps", "--duration", "300ms"]).await;
    assert_eq!(row(&report, "configmaps")["events"]["managers"], json!([]));
    assert_eq!(report["total"]["eventsPerSecond"], 0.0);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupt_prints_partial_report() {
    let cluster = Cluster::serve(server().build()).await;
    let page = cluster.file("report.html");
    let arguments = ["configmaps", "-o", "json", "--duration", "1h", "--html", page.to_str().unwrap()];
    let child = cluster.spawn(&arguments);
    // The program watches after its list.
    while cluster.watches("configmaps") == 0 {
        tokio::time::sleep(PERIOD).await;
    }
    let pid = child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(row(&report, "configmaps")["events"]["managers"], json!([]));
    assert!(std::fs::read_to_string(page).unwrap().ends_with("</html>"));
}
