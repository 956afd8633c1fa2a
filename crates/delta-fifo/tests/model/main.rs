//! The queues against naive models: random scripts, one step at a time, compared after each.

mod backlog;
mod fifo;
mod watched;
mod world;
