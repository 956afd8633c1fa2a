//! The HTML page for browsers: the overview at `/`, and further pages below `/ui`.
//!
//! The pages contain the same state as the metrics and the debug pages. They never contain the contents of an
//! object. A server-sent stream of each page replaces the sections that have changed.

mod assets;
mod caches;
mod chart;
mod clusters;
mod configuration;
mod key;
mod layout;
mod lists;
mod live;
mod memory;
mod overview;
mod parts;
mod queues;
mod reconciles;
mod replicas;
mod router;
mod sampler;
mod security;
mod series;
mod view;

pub(crate) use router::browser_pages;
pub(crate) use sampler::sample;
pub(crate) use security::Access;

use parking_lot::Mutex;

use self::{lists::ListHistory, memory::MemoryCounts, series::SeriesStore};
use crate::ManagerOptions;

/// The data that only the pages for browsers need.
pub(crate) struct BrowserState {
    options: ManagerOptions,
    series: Mutex<SeriesStore>,
    lists: Mutex<ListHistory>,
    memory: MemoryCounts,
}

impl BrowserState {
    pub(crate) fn new(options: ManagerOptions) -> Self {
        Self { options, series: Mutex::default(), lists: Mutex::default(), memory: MemoryCounts::default() }
    }
}
