//! The changes of the example data, as in a cluster: kubelets renew Leases, a container restarts, and Pods
//! are replaced.

use std::time::Duration;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube_client::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{NAMESPACE, objects};

/// The time between two changes.
const PERIOD: Duration = Duration::from_millis(200);

/// Changes one object in each period, until `stop` is cancelled. A failed change is ignored, because the user
/// can make the server reject writes.
pub(super) async fn run(client: Client, stop: CancellationToken) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0.. {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let _ = change(&client, number).await;
    }
}

async fn change(client: &Client, number: usize) -> Result<(), kube_client::Error> {
    let (pods, nodes) = (objects::pod_names(), objects::node_names());
    let params = PatchParams { field_manager: Some("kubelet".to_owned()), ..PatchParams::default() };
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    // The step is coprime to the number of Pods, so the changes reach each Pod.
    let pod = &pods[number * 37 % pods.len()];
    match number % 5 {
        0..=2 => {
            let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
            let node = &nodes[number % nodes.len()];
            let renewed = json!({"spec": {"leaseTransitions": number}});
            leases.patch(node, &params, &Patch::Merge(renewed)).await?;
        }
        3 => {
            // The changes reach the same Pod again after 200 numbers. Its condition then has the other value.
            let is_ready = if (number / 5 + number / 200).is_multiple_of(2) { "False" } else { "True" };
            let conditions = json!([{"type": "Ready", "status": is_ready, "reason": "Probe"}]);
            api.patch_status(pod, &params, &Patch::Strategic(json!({"status": {"conditions": conditions}})))
                .await?;
        }
        _ => {
            if let Ok(old) = api.get(pod).await {
                api.delete(pod, &DeleteParams::default().grace_period(0)).await?;
                let mut new = Pod { status: None, ..old };
                new.metadata.resource_version = None;
                new.metadata.uid = None;
                new.metadata.managed_fields = None;
                let params = kube_client::api::PostParams {
                    field_manager: Some("kube-controller-manager".to_owned()),
                    ..Default::default()
                };
                api.create(&params, &new).await?;
            }
        }
    }
    Ok(())
}
