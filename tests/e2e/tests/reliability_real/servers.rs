//! Faults of the servers: restarts, compactions, and restores.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::time::sleep;

use crate::subject::{Subject, distrusting};
use crate::suite::Suite;
use kube_informer_e2e::load::cluster;
use kube_informer_e2e::load::writer::CONFIG_MAPS;

/// The duration of the outage of both servers.
const OUTAGE: Duration = Duration::from_secs(60);
/// The deadline of hundreds of writes, or of one write after an outage.
const WRITTEN: Duration = Duration::from_secs(60);
/// More writes than an apiserver makes by itself when it starts.
const STARTED: u64 = 300;
/// The number of writes that a restore reverts. It is larger than the number of writes of an apiserver
/// at its start, so that the server does not reach the version of an informer before the informer
/// detects the restore. Otherwise, no client could detect the restore.
const UNDONE: u64 = 1000;

pub(crate) async fn first_list_equals_state_of_server(suite: &mut Suite) -> Result<()> {
    suite.writer.pause().await?;
    suite.subjects.iter().for_each(|subject| subject.informer.start());
    suite.each("synced", |subject| subject.informer.status().synced).await?;
    let objects = suite.subjects[0].informer.status().objects;
    ensure!(objects >= CONFIG_MAPS, "{objects} objects");
    Ok(())
}

pub(crate) async fn the_apiserver_restarts(suite: &mut Suite) -> Result<()> {
    suite.server.stop_apiserver().await?;
    sleep(Duration::from_secs(3)).await;
    suite.server.start_apiserver().await
}

pub(crate) async fn apiserver_is_killed(suite: &mut Suite) -> Result<()> {
    suite.server.kill_apiserver().await?;
    suite.server.start_apiserver().await
}

pub(crate) async fn etcd_restarts(suite: &mut Suite) -> Result<()> {
    suite.server.stop_etcd().await?;
    sleep(Duration::from_secs(2)).await;
    suite.server.start_etcd().await?;
    suite.writer.write(1, WRITTEN).await
}

pub(crate) async fn both_replicas_are_stopped_for_a_minute(suite: &mut Suite) -> Result<()> {
    suite.server.stop_apiserver().await?;
    suite.server.stop_etcd().await?;
    sleep(OUTAGE).await;
    let empty = suite.subjects.iter().find(|subject| subject.informer.status().objects == 0);
    ensure!(empty.is_none(), "a cache was given up for an outage");
    suite.server.start_etcd().await?;
    suite.server.start_apiserver().await
}

/// A restarted apiserver has no versions before its start, and etcd has compacted them.
pub(crate) async fn etcd_is_compacted_and_watches_expire(suite: &mut Suite) -> Result<()> {
    suite.proxy.refuse();
    suite.writer.write(300, WRITTEN).await?;
    suite.writer.touch_each_scope().await?;
    suite.server.compact().await?;
    suite.server.restart_apiserver().await?;
    all_expire(suite).await
}

/// Without a watch cache, etcd serves each list and watch, and versions expire immediately, also during
/// a list in pages.
pub(crate) async fn versions_and_pages_expire_without_watch_cache(suite: &mut Suite) -> Result<()> {
    suite.proxy.refuse();
    suite.server.restart_apiserver_with(&["--watch-cache=false"]).await?;
    suite.writer.write(300, WRITTEN).await?;
    suite.writer.touch_each_scope().await?;
    suite.server.compact().await?;
    all_expire(suite).await?;
    suite.settle().await?;

    suite.begin();
    suite.subjects.iter().for_each(|subject| subject.informer.relist());
    for _ in 0..10 {
        suite.server.compact().await?;
        sleep(Duration::from_millis(200)).await;
    }
    suite.settle().await?;
    suite.begin();
    suite.server.restart_apiserver_with(&[]).await
}

/// Lets the informers reconnect, and waits until each detects that its version expired.
async fn all_expire(suite: &mut Suite) -> Result<()> {
    let seen = |subject: &Subject| distrusting(&subject.informer.status());
    let before: Vec<_> = suite.subjects.iter().map(|subject| (subject.name, seen(subject))).collect();
    suite.proxy.pass();
    suite.writer.go();
    suite
        .each("expired", |subject| {
            before.iter().any(|(name, count)| *name == subject.name && seen(subject) > *count)
        })
        .await
}

/// Versions are used again, for other states of the same objects, and no informer notices before.
pub(crate) async fn etcd_goes_back_in_time(suite: &mut Suite) -> Result<()> {
    suite.writer.pause().await?;
    let version = cluster::version(&suite.admin).await?;
    let backup = suite.while_stopped(|server| server.back_up_etcd()).await?;
    suite.writer.write(STARTED, WRITTEN).await?;
    let marked = suite.writer.mark().await?;
    lose(suite).await?;

    suite.proxy.refuse();
    suite.while_stopped(|server| server.restore_etcd(&backup)).await?;
    suite.backup = Some((backup, version));
    let again = suite.writer.mark_again(&marked).await?;
    ensure!(again > 0, "no version was used again");
    suite.proxy.pass();
    suite.settle().await?;
    suite.begin();
    suite.writer.write(UNDONE, WRITTEN).await
}

/// No version is reused, and the versions of all informers are from before the restore.
pub(crate) async fn etcd_goes_back_in_time_with_newer_versions(suite: &mut Suite) -> Result<()> {
    lose(suite).await?;
    let now = cluster::version(&suite.admin).await?;
    suite.server.stop_apiserver().await?;
    suite.server.stop_etcd().await?;
    let (backup, then) = suite.backup.take().context("there is no backup")?;
    suite.server.restore_etcd(&backup)?;
    suite.server.start_etcd().await?;
    let lost = now.saturating_sub(then);
    suite.server.bump_etcd(lost as usize + 100).await?;
    suite.writer.go();
    suite.server.start_apiserver().await
}

/// Writes objects, and waits until every informer has received the changes. The last writes change one object
/// in each scope.
async fn lose(suite: &mut Suite) -> Result<()> {
    suite.writer.write(UNDONE, WRITTEN).await?;
    suite.writer.touch_each_scope().await?;
    suite.settle().await
}
