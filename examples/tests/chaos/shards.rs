//! An operator that uses shards instead of an election.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Client;
use kube_operator::{Action, Controller, Failure, Manager, ManagerOptions, Request, ShardOptions};
use kube_testserver::{ChaosService, Server, chaos};
use serde_json::{Value, json};

const NAMESPACES: [&str; 3] = ["a", "b", "c"];

/// Writes the text of each map to a map with the suffix `-copy`.
async fn copy_maps(service: ChaosService) {
    let options = ManagerOptions {
        bind_address: None,
        shards: Some(ShardOptions::new("default", "copies")),
        ..ManagerOptions::default()
    };
    let mut manager = Manager::new(Client::new(service, "default"), options).unwrap();
    let maps = manager.factory().informer::<ConfigMap>().unwrap();
    let client = manager.cached_client("copies");
    manager.add_controller(Controller::new(&maps).owns(&maps), move |request: Request<ConfigMap>| {
        let client = client.clone();
        async move {
            let Some(map) = request.object.present() else { return Ok(Action::AwaitChange) };
            if map.data.as_ref().is_some_and(|data| data.contains_key("source")) {
                let mut copy = ConfigMap::default();
                copy.metadata.name = Some(format!("{}-copy", request.key.name()));
                copy.metadata.namespace = map.metadata.namespace.clone();
                copy.data = Some([("copy".to_owned(), map.data.as_ref().unwrap()["source"].clone())].into());
                client.apply_owned(&*map, copy).await?;
            }
            Ok::<_, Failure>(Action::Done)
        }
    });
    let _ = manager.run(std::future::pending()).await;
}

/// Returns the texts of this field by namespace.
fn texts(server: &Server, field: &str) -> BTreeMap<String, Value> {
    let maps = server.list_untyped("v1", "ConfigMap", None).unwrap();
    let with_text = maps.iter().filter(|map| map["data"][field].is_string());
    with_text.map(|map| (map["metadata"]["namespace"].to_string(), map["data"][field].clone())).collect()
}

#[test]
fn operator_with_shards_keeps_its_invariant() {
    let test = chaos(0)
        .setup(|server| {
            for name in NAMESPACES {
                let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                server.create(&namespace).unwrap();
            }
        })
        .step(|server, rng| {
            let namespace = NAMESPACES[rng.usize(..NAMESPACES.len())];
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map", "namespace": namespace},
                "data": {"source": rng.u8(..9).to_string()},
            });
            match rng.u8(..4) {
                0 => drop(server.delete::<ConfigMap>(Some(namespace), "map")),
                _ => drop(server.create_or_replace(&map)),
            }
        })
        .operator(copy_maps)
        .eventually("each map has a copy, and no other copy exists", |server| {
            let (sources, copies) = (texts(server, "source"), texts(server, "copy"));
            if sources == copies { Ok(()) } else { Err(format!("{sources:?} and {copies:?}")) }
        });
    let reports = test.run_seeds(0..40).unwrap();
    assert!(reports.iter().any(|report| report.processes() > 2), "no seed killed several processes");
}
