//! The served kinds: their names and rules, and discovery.

pub(crate) mod builtin;
pub(crate) mod defaults;
pub(crate) mod discovery;
pub(crate) mod events;
pub(crate) mod kind;
pub(crate) mod names;
pub(crate) mod qualified;
pub(crate) mod times;
pub(crate) mod workloads;
