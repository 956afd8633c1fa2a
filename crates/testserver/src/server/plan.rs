//! Fault plans of a server.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::faults::{FaultPlan, Incident, PlanState};
use crate::journal::FaultKind;
use crate::server::Server;
use crate::state::Shared;

impl Server {
    /// Starts a plan of random faults, and stops the previous plan.
    pub fn run_plan(&self, plan: FaultPlan) -> RunningPlan {
        RunningPlan { state: self.shared.run_plan(plan), shared: self.shared.clone() }
    }

    /// Returns the current plan, even if it was stopped. Returns `None` if the server has never had a
    /// plan.
    pub fn plan(&self) -> Option<RunningPlan> {
        let state = self.shared.plan.lock().clone()?;
        Some(RunningPlan { state, shared: self.shared.clone() })
    }
}

/// Reports the incidents of a plan, and can stop the plan. Dropping this handle does not stop the plan.
#[derive(Clone, Debug)]
pub struct RunningPlan {
    state: Arc<PlanState>,
    shared: Arc<Shared>,
}

impl RunningPlan {
    /// Stops the plan and the effects that would outlast it.
    ///
    /// Connections of hanging requests break, and the watch cache no longer lags. If the plan hid or
    /// repeated events of a watch, the watch is closed with an Expired ERROR event, so that its client
    /// lists again.
    pub fn stop(&self) {
        self.shared.stop_plan(&self.state);
    }

    /// Returns the number of applied faults of each kind.
    pub fn counts(&self) -> BTreeMap<FaultKind, usize> {
        self.state.counts()
    }

    /// Returns the last 16,384 applied faults, oldest first.
    pub fn incidents(&self) -> Vec<Incident> {
        self.state.incidents()
    }
}
