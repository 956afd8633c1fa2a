//! `ManagerView`: the state of a manager, as metrics and pages read it.

use std::{collections::BTreeMap, fmt};

use kube_informer::InformerFactory;

use crate::{EventRecorder, OwnedSlots, controller::state::ControllerStates, election::ElectionView};

/// The informers, controllers, event recorders and election of a manager.
#[derive(Clone)]
pub(crate) struct ManagerView {
    pub(crate) factory: InformerFactory,
    pub(crate) controllers: ControllerStates,
    /// By the name of the controller that reports the events.
    pub(crate) recorders: BTreeMap<String, EventRecorder>,
    pub(crate) election: Option<ElectionView>,
    pub(crate) shards: Option<OwnedSlots>,
}

impl fmt::Debug for ManagerView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerView").finish_non_exhaustive()
    }
}
