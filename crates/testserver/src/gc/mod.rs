//! The garbage collector deletes objects without remaining owners. In a cluster, a controller does
//! this asynchronously. This collector runs within the write, so that clients do not see the
//! intermediate state.

mod collector;
mod graph;

use crate::state::{Shared, State};

pub(crate) use collector::Collector;

/// Processes the last changes of the state, if the collector is enabled.
pub(crate) fn settle(state: &mut State, shared: &Shared) {
    let Some(mut collector) = state.collector.take() else { return };
    collector.run(state, shared);
    state.collector = Some(collector);
}
