//! `ManagerView`: the state of a manager, as metrics and pages read it.

use std::{collections::BTreeMap, fmt};

use kube_informer::{AnyInformer, InformerFactory, InformerStatus};

use crate::{
    ClusterName, Clusters, EventRecorder, OwnedSlots, controller::state::ControllerStates,
    election::ElectionView,
};

/// The informers, controllers, event recorders and election of a manager.
#[derive(Clone)]
pub(crate) struct ManagerView {
    pub(crate) factory: InformerFactory,
    pub(crate) controllers: ControllerStates,
    /// The recorders of the cluster of the manager, by the name of the controller that reports the events.
    pub(crate) recorders: BTreeMap<String, EventRecorder>,
    pub(crate) election: Option<ElectionView>,
    pub(crate) shards: Option<OwnedSlots>,
    pub(crate) clusters: Option<Clusters>,
}

impl ManagerView {
    /// Returns the status of the informers, sorted by the name of their cluster and their name. `None` is the
    /// cluster of the manager.
    pub(crate) fn informers(&self) -> Vec<(Option<ClusterName>, InformerStatus)> {
        self.handles().into_iter().map(|(cluster, status, _)| (cluster, status)).collect()
    }

    /// Returns the informers with their status, in the order of [`informers`](Self::informers).
    pub(crate) fn handles(&self) -> Vec<(Option<ClusterName>, InformerStatus, AnyInformer)> {
        let own = self.factory.informers().into_iter().map(|informer| (None, informer));
        let clusters = self.clusters.iter().flat_map(Clusters::list);
        let remote = clusters.flat_map(|cluster| {
            let name = cluster.name().clone();
            let informers = cluster.factory().informers().into_iter();
            informers.map(move |informer| (Some(name.clone()), informer))
        });
        let with_status = |(cluster, informer): (_, AnyInformer)| (cluster, informer.status(), informer);
        let mut all: Vec<_> = own.chain(remote).map(with_status).collect();
        all.sort_by(|(a, first, _), (b, second, _)| (a, &first.name).cmp(&(b, &second.name)));
        all
    }

    /// Returns the event recorders with the names of their clusters and controllers. `None` is the cluster of
    /// the manager.
    pub(crate) fn recorders(&self) -> Vec<(Option<ClusterName>, String, EventRecorder)> {
        let own = self.recorders.iter().map(|(name, recorder)| (None, name.clone(), recorder.clone()));
        let clusters = self.clusters.iter().flat_map(Clusters::list);
        let remote = clusters.flat_map(|cluster| {
            let recorders = cluster.recorders().into_iter();
            recorders.map(move |(name, recorder)| (Some(cluster.name().clone()), name, recorder))
        });
        own.chain(remote).collect()
    }
}

impl fmt::Debug for ManagerView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerView").finish_non_exhaustive()
    }
}
