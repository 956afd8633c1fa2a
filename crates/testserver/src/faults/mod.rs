//! What goes wrong on purpose: faults of requests, of watches and of the whole server, asked for one by one or drawn
//! from a seed.

mod disruption;
mod fault;
mod outage;
mod plan;
mod request_match;
mod rules;
mod streaming;
mod verbs;

pub use disruption::Disruption;
pub use fault::{CutAfter, Fault, FaultKind};
pub(crate) use outage::Gate;
pub use outage::{Outage, OutageGuard};
pub(crate) use plan::PlanState;
pub use plan::{FaultPlan, Incident, RunningPlan};
pub use request_match::RequestMatch;
pub(crate) use rules::ActiveFault;
pub use rules::{FaultGuard, Faults};
pub use streaming::StreamingLists;
pub use verbs::Corruption;
