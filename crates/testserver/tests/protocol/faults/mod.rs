//! The effect of each fault on a client.

mod basics;
mod extremes;
mod history;
mod journal;
mod outages;
mod plan;
mod rejections;
mod replicas;
mod restores;
mod streaming;
mod watches;
