//! Tests handlers with a checkpoint: restarts, crashes, and files that cannot be used.

mod failures;
mod handlers;
mod incomplete;
mod life;
#[path = "../support/logged.rs"]
mod logged;
mod model;
mod restart;
