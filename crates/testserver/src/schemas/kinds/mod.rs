//! The names and rules of the kinds.

pub(crate) mod builtin;
pub(crate) mod cluster;
pub(crate) mod defaults;
pub(crate) mod events;
pub(crate) mod kind;
pub(crate) mod labels;
pub(crate) mod services;
pub(crate) mod times;
pub(crate) mod workloads;
