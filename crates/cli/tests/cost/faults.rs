//! Faults of the server. A fault of one resource never stops the report of the other resources.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, api::PostParams};
use kube_testserver::{Fault, RequestMatch, Verb};
use serde_json::{Value, json};

use crate::program::{Cluster, row, server};

fn lists() -> RequestMatch {
    RequestMatch::verb(Verb::List).resource("configmaps")
}

async fn cluster(objects: usize) -> Cluster {
    let cluster = Cluster::serve(server().build()).await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client().await, "default");
    for number in 0..objects {
        let object = json!({"metadata": {"name": format!("object-{number}")}, "data": {"a": "1"}});
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
    cluster
}

#[tokio::test]
async fn failed_list_is_one_row() {
    for (fault, reason) in [
        (Fault::gone(), "expired (410)"),
        (Fault::status(404, "NotFound", None), "not found (404)"),
        (Fault::status(405, "MethodNotAllowed", None), "405"),
        (Fault::status(500, "InternalError", None), "500"),
        (Fault::json("{\"kind\":\"ConfigMapList\",\"items\":[{"), "configmaps"),
    ] {
        let cluster = cluster(3).await;
        let guard = cluster.server.faults().always(lists(), fault);
        let report = cluster.report(&["configmaps,namespaces"]).await;
        let failures = report["failures"].as_array().unwrap();
        assert_eq!((failures.len(), &failures[0]["resource"]), (1, &json!("configmaps")), "{reason}");
        assert!(failures[0]["reason"].as_str().unwrap().contains(reason), "{reason}: {failures:?}");
        assert!(row(&report, "namespaces")["objects"].as_u64() > Some(0));
        drop(guard);
    }
}

#[tokio::test]
async fn expired_page_starts_list_again() {
    let cluster = cluster(3).await;
    cluster.server.faults().next(lists(), Fault::gone());
    let report = cluster.report(&["configmaps"]).await;
    assert_eq!(row(&report, "configmaps")["objects"], 3);
    assert_eq!(report["failures"], json!([]));
}

fn watches() -> RequestMatch {
    RequestMatch::verb(Verb::Watch).resource("configmaps")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expiring_watches_are_opened_with_growing_delays() {
    let cluster = cluster(3).await;
    let guard = cluster.server.faults().always(watches(), Fault::gone());
    let report = cluster.report(&["configmaps", "--duration", "2500ms"]).await;
    drop(guard);
    // The watches are at 0 s and 1 s. The next watch is at 3 s.
    let journal = cluster.server.journal();
    let requests = [Verb::List, Verb::Watch].map(|verb| journal.count(verb, "configmaps"));
    assert!(requests.iter().all(|count| (1..=2).contains(count)), "{requests:?}: {report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_watch_is_a_note() {
    let cluster = cluster(3).await;
    let guard = cluster.server.faults().always(watches(), Fault::status(500, "InternalError", None));
    let output = cluster.cost(&["configmaps", "--duration", "500ms"]).await;
    drop(guard);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("configmaps: the watch failed: ") && text.contains("500"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_watch_is_a_gap_and_counting_continues() {
    let cluster = cluster(3).await;
    cluster.server.faults().next(watches(), Fault::gone());
    let report = cluster.report(&["configmaps", "--duration", "1s"]).await;
    let events = &row(&report, "configmaps")["events"];
    assert_eq!((&events["gaps"], &events["managers"]), (&json!(1), &json!([])), "{events}");
    assert_eq!(events["ended"], Value::Null);
}
