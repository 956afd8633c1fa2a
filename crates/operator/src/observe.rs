//! Metrics, health checks and debug pages.

pub(crate) mod collector;
pub(crate) mod metrics;
pub(crate) mod pages;
pub(crate) mod serve;
