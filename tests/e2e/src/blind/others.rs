//! The other clients of the cluster, which change the objects and the Lease of the operator.

use std::{convert::Infallible, time::Duration};

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::{
    api::{apps::v1::Deployment, coordination::v1::Lease},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube_client::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::sleep;

use super::{
    HOME, NAMESPACE, OTHER_IDENTITY,
    cluster::Cluster,
    operator::{NAME, Website},
    plan::{ConflictSource, Fault, LeaseLoss},
};

/// The time between two changes of a Website. A reconcile takes longer.
const CHANGE_INTERVAL: Duration = Duration::from_millis(10);
/// The time between two reads of an object.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The time for which the operator is the leader.
const LEADER_TIME: Duration = Duration::from_secs(3);
/// The time between two renewals of the other leader.
const RENEW_INTERVAL: Duration = Duration::from_secs(2);

/// Acts as the other clients. The other faults need no client, and the future is then pending.
pub(super) async fn act(cluster: &mut Cluster, fault: Fault) -> Result<Infallible> {
    let admin = cluster.admin.clone();
    match fault {
        Fault::ConflictStorm(ConflictSource::Spec) => change_website(&admin).await,
        Fault::ConflictStorm(ConflictSource::FieldManager | ConflictSource::Fight) => {
            set_replicas(&admin).await
        }
        Fault::LostLease(LeaseLoss::OtherHolder) => take_lease(&admin).await,
        Fault::LostLease(LeaseLoss::FailedRenewals) => {
            wait_for_leader(&admin).await?;
            cluster.reject_lease_writes().await?;
            std::future::pending().await
        }
        Fault::MissingRight | Fault::MissingCrd | Fault::RefusingWebhook | Fault::HungReconcile(_) => {
            std::future::pending().await
        }
    }
}

/// Changes the number of replicas of a Website all the time.
async fn change_website(admin: &Client) -> Result<Infallible> {
    let websites: Api<Website> = Api::namespaced(admin.clone(), NAMESPACE);
    for replicas in (1..=5).cycle() {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        websites.patch(website_name(), &PatchParams::default(), &patch).await?;
        sleep(CHANGE_INTERVAL).await;
    }
    std::future::pending().await
}

/// Takes over the number of replicas of a Deployment, also after the operator has taken it over.
async fn set_replicas(admin: &Client) -> Result<Infallible> {
    let deployments: Api<Deployment> = Api::namespaced(admin.clone(), NAMESPACE);
    let apply = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5}});
    let manager = PatchParams::apply("autoscaler").force();
    loop {
        if deployments.get_opt(website_name()).await?.is_some() {
            deployments.patch(website_name(), &manager, &Patch::Apply(&apply)).await?;
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns the Lease after the operator has been the leader for some time.
async fn wait_for_leader(admin: &Client) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(admin.clone(), NAMESPACE);
    let has_holder = |lease: &Lease| lease.spec.as_ref().is_some_and(|spec| spec.holder_identity.is_some());
    while !leases.get_opt(NAME).await?.as_ref().is_some_and(has_holder) {
        sleep(POLL_INTERVAL).await;
    }
    sleep(LEADER_TIME).await;
    Ok(())
}

/// Writes another leader into the Lease, and renews the Lease for this leader.
async fn take_lease(admin: &Client) -> Result<Infallible> {
    wait_for_leader(admin).await?;
    let leases: Api<Lease> = Api::namespaced(admin.clone(), NAMESPACE);
    loop {
        let mut lease = leases.get(NAME).await?;
        let spec = lease.spec.get_or_insert_default();
        let now = Timestamp::now();
        if spec.holder_identity.as_deref() != Some(OTHER_IDENTITY) {
            spec.holder_identity = Some(OTHER_IDENTITY.to_owned());
            spec.acquire_time = Some(MicroTime(now));
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default() + 1);
        }
        spec.renew_time = Some(MicroTime(now));
        match leases.replace(NAME, &PostParams::default(), &lease).await {
            // The operator renewed the Lease after the read.
            Err(kube_client::Error::Api(status)) if status.is_conflict() => {}
            written => {
                written?;
                sleep(RENEW_INTERVAL).await;
            }
        }
    }
}

/// Returns the name of the Website that the fault affects.
fn website_name() -> &'static str {
    HOME.rsplit('/').next().unwrap_or(HOME)
}
