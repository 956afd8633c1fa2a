//! Tests informers with a snapshot: restarts, crashes, hostile servers, and files that cannot be used.

mod failures;
mod handlers;
mod hostile;
mod life;
#[path = "../support/logged.rs"]
mod logged;
mod model;
mod register;
mod representations;
mod restart;
mod writes;
