//! The events that `cost --duration` counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use kube_client::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use kube_testserver::Server;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::program::{Cluster, row, server};

const PERIOD: Duration = Duration::from_millis(25);
const OBJECTS: usize = 20;
const NAMESPACE: &str = "default";

/// The writes to the objects of one resource.
#[derive(Clone, Copy, Debug)]
enum Writes {
    /// One write in each period. Each fourth write is of another manager, which changes another field.
    TwoManagers,
    /// Many writes at the same time, and then none.
    Bursts,
    /// The objects are created and deleted in turn.
    CreateAndDelete,
    /// All writes change the same object.
    OneObject,
    /// Few writes of large objects.
    LargeObjects,
}

const WORKLOADS: [(&str, Writes); 5] = [
    ("configmaps", Writes::TwoManagers),
    ("secrets", Writes::Bursts),
    ("serviceaccounts", Writes::CreateAndDelete),
    ("leases.coordination.k8s.io", Writes::OneObject),
    ("limitranges", Writes::LargeObjects),
];

/// Returns the type of a resource, and the field that the writes change.
fn kind(resource: &str) -> (ApiResource, &'static str) {
    let (group, version, kind, plural, field) = match resource {
        "configmaps" => ("", "v1", "ConfigMap", "configmaps", "data"),
        "secrets" => ("", "v1", "Secret", "secrets", "stringData"),
        "serviceaccounts" => ("", "v1", "ServiceAccount", "serviceaccounts", "annotations"),
        "limitranges" => ("", "v1", "LimitRange", "limitranges", "annotations"),
        _ => ("coordination.k8s.io", "v1", "Lease", "leases", "annotations"),
    };
    let gvk = GroupVersionKind::gvk(group, version, kind);
    (ApiResource::from_gvk_with_plural(&gvk, plural), field)
}

/// Writes until the future is dropped. Counts the completed writes.
async fn write(client: Client, resource: &str, writes: Writes, count: &AtomicU64) {
    let api: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &kind(resource).0);
    let (period, at_once) = match writes {
        Writes::Bursts => (8 * PERIOD, 8),
        Writes::LargeObjects => (4 * PERIOD, 1),
        _ => (PERIOD, 1),
    };
    let mut ticks = interval(period);
    // The average rate stays constant on a busy machine.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for tick in 0_usize.. {
        ticks.tick().await;
        for number in at_once * tick..at_once * (tick + 1) {
            write_once(&api, resource, writes, number).await;
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn write_once(api: &Api<DynamicObject>, resource: &str, writes: Writes, number: usize) {
    let (manager, key) = match writes {
        Writes::TwoManagers if number.is_multiple_of(4) => ("slow-writer", "b"),
        _ => ("fast-writer", "a"),
    };
    let value = match writes {
        Writes::LargeObjects => number.to_string().repeat(5_000),
        _ => number.to_string(),
    };
    let object = match writes {
        Writes::OneObject => 0,
        _ => number % OBJECTS,
    };
    let patch = match kind(resource).1 {
        "annotations" => json!({"metadata": {"annotations": {key: value}}}),
        field => json!({field: {key: value}}),
    };
    let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
    if let Writes::CreateAndDelete = writes {
        let name = format!("temporary-{}", number / 2);
        if number % 2 == 1 {
            api.delete(&name, &DeleteParams::default()).await.unwrap();
        } else {
            let object = DynamicObject::new(&name, &kind(resource).0);
            api.create(&PostParams::default(), &object).await.unwrap();
        }
    } else {
        api.patch(&format!("object-{object}"), &params, &Patch::Merge(patch)).await.unwrap();
    }
}

/// Creates the objects that the writes change.
fn create_objects(server: &Server) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let _ = server.create(&namespace);
    for (resource, _) in WORKLOADS {
        let resource = kind(resource).0;
        for number in 0..OBJECTS {
            // An object without fields has no managedFields, like on kube-apiserver.
            let mut object = json!({
                "apiVersion": resource.api_version, "kind": resource.kind,
                "metadata": {"name": format!("object-{number}"), "namespace": NAMESPACE, "labels": {"fixed": "1"}},
            });
            if resource.kind == "LimitRange" {
                object["spec"] = json!({"limits": []});
            }
            server.apply(&object, "creator").unwrap();
        }
    }
}

fn assert_close(measured: &Value, expected: f64, events: &Value) {
    let ratio = measured.as_f64().unwrap() / expected;
    assert!((0.9..=1.1).contains(&ratio), "{measured} and {expected}: {events}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rates_of_five_workloads_are_counted_within_ten_percent() {
    let server = server().build();
    create_objects(&server);
    let cluster = Cluster::serve(server).await;
    let client = cluster.client().await;
    let counts = [const { AtomicU64::new(0) }; WORKLOADS.len()];
    let writers = WORKLOADS.iter().zip(&counts);
    let writers = writers.map(|((resource, writes), count)| write(client.clone(), resource, *writes, count));
    let (writers, begun) = (join_all(writers), Instant::now());
    let resources = WORKLOADS.map(|(resource, _)| resource).join(",");
    let arguments = [&*resources, "--duration", "6s"];
    let report = tokio::select! {
        _ = writers => unreachable!("a writer stopped"),
        report = cluster.report(&arguments) => report,
    };
    let seconds = begun.elapsed().as_secs_f64();
    let rate = |at: usize| counts[at].load(Ordering::Relaxed) as f64 / seconds;
    for (at, (resource, _)) in WORKLOADS.iter().enumerate() {
        let events = &row(&report, resource)["events"];
        assert_close(&events["perSecond"], rate(at), events);
    }
    let total: f64 = (0..WORKLOADS.len()).map(rate).sum();
    assert_close(&report["total"]["eventsPerSecond"], total, &report["total"]);
    let events = &row(&report, "configmaps")["events"];
    let managers = events["managers"].as_array().unwrap();
    assert_eq!(managers.len(), 2, "{events}");
    for (manager, name, field, share) in
        [(&managers[0], "fast-writer", ".data.a", 0.75), (&managers[1], "slow-writer", ".data.b", 0.25)]
    {
        assert_eq!(manager["manager"], name);
        assert_close(&manager["perSecond"], share * rate(0), events);
        assert_eq!(manager["fields"][0]["name"], field);
    }
}

#[tokio::test]
async fn all_namespaces_is_the_default() {
    let server = server().build();
    for namespace in [NAMESPACE, "other"] {
        let _ =
            server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "object", "namespace": namespace},
        });
        server.create(&object).unwrap();
    }
    let cluster = Cluster::serve(server).await;
    for (arguments, expected) in
        [(&["configmaps", "-A"][..], 2), (&["configmaps"], 2), (&["configmaps", "-n", "other"], 1)]
    {
        let report = cluster.report(arguments).await;
        assert_eq!(report["total"]["objects"], expected, "{arguments:?}");
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
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(row(&report, "configmaps")["events"]["managers"], json!([]));
    assert!(std::fs::read_to_string(page).unwrap().ends_with("</html>"));
}
