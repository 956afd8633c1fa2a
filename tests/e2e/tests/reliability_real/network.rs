//! Faults of the network, of permissions and of types.

use std::time::Duration;

use anyhow::{Result, ensure};
use kube_informer::Phase;
use kube_listwatch::ErrorClass;
use tokio::time::sleep;

use crate::suite::Suite;
use kube_informer_e2e::load::cluster;

pub(crate) async fn connections_are_cut(suite: &mut Suite) -> Result<()> {
    for _ in 0..5 {
        sleep(Duration::from_millis(1500)).await;
        suite.proxy.cut();
    }
    Ok(())
}

pub(crate) async fn connections_are_refused(suite: &mut Suite) -> Result<()> {
    suite.proxy.refuse();
    sleep(Duration::from_secs(8)).await;
    suite.proxy.pass();
    Ok(())
}

/// Stalled connections never recover. Only a deadline detects them.
pub(crate) async fn connections_go_silent(suite: &mut Suite) -> Result<()> {
    suite.proxy.black_hole();
    sleep(Duration::from_secs(10)).await;
    suite.proxy.pass();
    Ok(())
}

pub(crate) async fn rights_are_revoked_and_granted_again(suite: &mut Suite) -> Result<()> {
    cluster::revoke(&suite.admin).await?;
    // Permissions are checked when a request starts. The informers of the server receive the change
    // with a short delay.
    sleep(Duration::from_secs(1)).await;
    suite.proxy.cut();
    let forbidden = Some(ErrorClass::Forbidden);
    suite.each("forbidden", |subject| subject.informer.status().reflector.failing == forbidden).await?;
    sleep(Duration::from_secs(3)).await;
    for subject in &suite.subjects {
        let status = subject.informer.status();
        ensure!(status.objects > 0, "{}: a cache was given up for want of rights", subject.name);
        ensure!(status.reflector.failing == forbidden, "{}: no longer forbidden", subject.name);
    }
    cluster::grant(&suite.admin).await
}

pub(crate) async fn crd_is_recreated(suite: &mut Suite) -> Result<()> {
    cluster::remove_crd(&suite.admin).await?;
    let is_gadgets = |name: &str| name == "custom resource";
    let suspended = |phase: Phase| phase == Phase::Suspended;
    suite
        .each("suspended", |subject| {
            !is_gadgets(subject.name) || suspended(subject.informer.status().reflector.phase)
        })
        .await?;
    sleep(Duration::from_secs(3)).await;
    cluster::install_crd(&suite.admin).await?;
    suite.writer.create_gadgets().await
}

/// After the fault, the informer finds new objects with the names of deleted objects.
pub(crate) async fn crd_is_recreated_during_closed_watch(suite: &mut Suite) -> Result<()> {
    suite.proxy.black_hole();
    cluster::remove_crd(&suite.admin).await?;
    cluster::install_crd(&suite.admin).await?;
    suite.writer.create_gadgets().await?;
    suite.proxy.pass();
    Ok(())
}
