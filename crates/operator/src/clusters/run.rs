//! Runs the provider, and a task for each cluster.

use std::{panic::resume_unwind, time::Duration};

use futures_util::{FutureExt, future::join_all};
use kube_informer::SlotSet;
use tokio::{
    task::{JoinError, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{
    cluster::Cluster,
    name::ClusterName,
    provider::{ClusterEngager, ClusterProvider},
    registry::{Clusters, Step},
    status::{ClusterState, ClusterStatus},
};
use crate::Failure;

/// The interval in which the log observes the state of a cluster.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(5);

impl Clusters {
    /// Runs the provider until `stop` is cancelled, and engages its clusters.
    pub(crate) async fn run(
        self,
        provider: Box<dyn ClusterProvider>,
        stop: CancellationToken,
    ) -> Result<(), Failure> {
        let (mut tasks, mut slots) = (JoinSet::new(), SlotSet::default());
        let mut provider = provider.run(ClusterEngager(self.clone()), stop.child_token()).fuse();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                result = &mut provider => {
                    result?;
                    self.set_initialized();
                }
                wanted = self.slots_changed(slots) => slots = wanted,
                Some(joined) = tasks.join_next() => joined.unwrap_or_else(resume_panic),
                names = self.next_tasks() => {
                    for name in names {
                        tasks.spawn(run_cluster(self.clone(), name, stop.child_token()));
                    }
                }
            }
        }
        while let Some(joined) = tasks.join_next().await {
            joined.unwrap_or_else(resume_panic);
        }
        Ok(())
    }
}

fn resume_panic(error: JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        resume_unwind(panic);
    }
}

/// Stops the informers of a cluster, also if the task of the cluster is dropped. Handlers and listers of the
/// program would keep them alive.
struct StopOnDrop(Cluster);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.leave();
        drop(self.0.take_event_writers());
        // The first poll stops the informers.
        let _stopped = self.0.factory().shutdown().now_or_never();
    }
}

/// Engages and disengages a cluster, as the provider wants, until the provider does not want it any longer.
async fn run_cluster(clusters: Clusters, name: ClusterName, stop: CancellationToken) {
    let mut engaged: Option<StopOnDrop> = None;
    let mut keep_ready = std::future::pending().boxed();
    loop {
        match clusters.next_step(&name) {
            Step::End => return,
            Step::Engage(desired) => {
                tracing::info!(cluster = %name, "cluster is engaged");
                let cluster = clusters.engage(&name, &desired);
                keep_ready = clusters.keep_ready(&cluster);
                engaged = Some(StopOnDrop(cluster));
            }
            Step::Disengage(cluster) => {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = disengage(&clusters, &cluster) => {}
                }
                cluster.factory().shutdown().await;
                clusters.disengaged(&name);
                keep_ready = std::future::pending().boxed();
                engaged = None;
                tracing::info!(cluster = %name, "cluster has left");
            }
            Step::Wait => tokio::select! {
                () = clusters.changed(&name) => {}
                () = stop.cancelled() => {}
                () = log_states(engaged.as_ref()) => {}
                () = &mut keep_ready => {}
            },
        }
        if stop.is_cancelled() {
            break;
        }
    }
    if let Some(StopOnDrop(cluster)) = &engaged {
        cluster.leave();
        cluster.stop_recorders().await;
        cluster.factory().shutdown().await;
    }
}

async fn disengage(clusters: &Clusters, cluster: &Cluster) {
    cluster.leave();
    let members = clusters.members();
    join_all(members.iter().map(|member| member.detach(cluster))).await;
    join_all(members.iter().map(|member| member.purge(cluster))).await;
    members.iter().for_each(|member| member.disengaged(cluster));
    cluster.stop_recorders().await;
}

/// Logs each change of the state of a cluster, until the future is dropped.
async fn log_states(engaged: Option<&StopOnDrop>) {
    let Some(StopOnDrop(cluster)) = engaged else { return std::future::pending().await };
    let mut before = ClusterState::Starting;
    loop {
        sleep(OBSERVE_INTERVAL).await;
        // The problem of the provider is logged already.
        let status = ClusterStatus::new(cluster.name(), Some(cluster), None);
        if status.state != before {
            log_state(&status, before);
            before = status.state;
        }
    }
}

fn log_state(status: &ClusterStatus, before: ClusterState) {
    let (cluster, informers, objects) = (&status.name, status.informers.len(), status.objects());
    match status.state {
        ClusterState::Synced if before == ClusterState::Failing => {
            tracing::info!(%cluster, informers, objects, "cluster works again");
        }
        ClusterState::Synced => tracing::info!(%cluster, informers, objects, "caches of the cluster synced"),
        ClusterState::Failing => {
            let error = status.problem.as_deref().unwrap_or_default();
            tracing::warn!(%cluster, error, "cluster fails; retrying; other clusters are not affected");
        }
        ClusterState::Starting | ClusterState::OtherReplica => {}
    }
}
