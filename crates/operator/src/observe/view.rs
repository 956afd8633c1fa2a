//! `ManagerView`: the state of a manager, as metrics and pages read it.

use std::{fmt, sync::Arc};

use kube_informer::InformerFactory;

use crate::{controller::state::ControllerState, election::ElectionView};

/// The informers, controllers and election of a manager.
#[derive(Clone)]
pub(crate) struct ManagerView {
    pub(crate) factory: InformerFactory,
    pub(crate) controllers: Vec<Arc<ControllerState>>,
    pub(crate) election: Option<ElectionView>,
}

impl fmt::Debug for ManagerView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerView").finish_non_exhaustive()
    }
}
