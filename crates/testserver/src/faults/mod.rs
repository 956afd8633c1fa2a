//! Fault injection. A test requests faults of requests, watches or the entire server one by one, or draws
//! them from a seed.

mod disruption;
mod fault;
pub(crate) mod open_watches;
mod outage;
mod plan;
mod rules;
mod streaming;

pub use disruption::Disruption;
pub use fault::{CutAfter, Fault};
pub(crate) use outage::Gate;
pub use outage::Outage;
pub(crate) use plan::PlanState;
pub use plan::{FaultPlan, Incident};
pub(crate) use rules::ActiveFault;
pub use rules::{FaultGuard, Faults};
pub use streaming::StreamingLists;
