//! The garbage collector: deletes what has lost its owners. In a cluster a controller does this by and by; here it is
//! done within the very write that gives it something to do, before anybody sees the state between.

mod collector;
mod graph;

use crate::state::{Shared, State};

pub(crate) use collector::Collector;

/// Does what the last changes of the state ask for, if the collector is switched on.
pub(crate) fn settle(state: &mut State, shared: &Shared) {
    let Some(mut collector) = state.collector.take() else { return };
    collector.run(state, shared);
    state.collector = Some(collector);
}
