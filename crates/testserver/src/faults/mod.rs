//! Fault injection. A test requests faults of requests, watches or the entire server one by one, or draws
//! them from a seed.

mod disruption;
mod fault;
mod outage;
mod plan;
mod request_match;
mod rules;
mod server_methods;
mod streaming;

pub use disruption::Disruption;
pub use fault::{CutAfter, Fault, FaultKind};
pub(crate) use outage::Gate;
pub use outage::{Outage, OutageGuard};
pub(crate) use plan::PlanState;
pub use plan::{FaultPlan, Incident, RunningPlan};
pub use request_match::RequestMatch;
pub(crate) use rules::ActiveFault;
pub use rules::{FaultGuard, Faults};
pub use server_methods::Corruption;
pub use streaming::StreamingLists;
