//! What a client sees of each fault.

mod basics;
mod extremes;
mod history;
mod journal;
mod outages;
mod plan;
mod refusals;
mod replicas;
mod restores;
mod streaming;
mod watches;
