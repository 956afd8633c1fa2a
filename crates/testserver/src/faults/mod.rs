//! What goes wrong on purpose: faults of requests, of watches and of the whole server, asked for one by one or drawn
//! from a seed.

mod disruption;
mod fault;
mod matches;
mod outage;
mod plan;
mod rules;
mod streaming;
mod verbs;

pub use disruption::Disruption;
pub use fault::{Cut, Fault, FaultKind};
pub use matches::Match;
pub(crate) use outage::Gate;
pub use outage::{Outage, OutageGuard};
pub(crate) use plan::PlanState;
pub use plan::{Incident, Plan, RunningPlan};
pub(crate) use rules::Met;
pub use rules::{FaultGuard, Faults};
pub use streaming::StreamingLists;
pub use verbs::Corruption;
