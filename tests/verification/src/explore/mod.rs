//! The explorer runs the real state machine, queue, store and backlogs with a model of an API server.
//! It tries each order of all possible actions within [`Bounds`], and checks the
//! [properties](crate::properties) at each step.
//!
//! The explorer does not wait, spawn tasks, or use a clock for decisions. A deadline fires because the
//! search tries this action. A [`World`] is plain data: [`World::actions`] returns the possible
//! actions, and [`World::act`] executes one. The search clones worlds and continues from each world
//! once. A fingerprint identifies a world.

mod action;
mod bounds;
mod cache_gap;
mod client;
mod disorder;
mod fingerprint;
mod horizon;
mod open;
mod possible_actions;
mod restart;
mod scopes;
mod search;
mod server;
mod test_object;
#[cfg(test)]
mod tests;
mod transitions;
mod world;

pub use action::{Action, Change, Fault, Verification};
pub use bounds::{Bounds, Streams, Versions};
pub use scopes::{SCOPES, Scope};
pub use search::{Report, explore};
pub use world::World;
