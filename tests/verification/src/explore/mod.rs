//! The explorer: the real state machine, queue, store and backlogs with a model of an API server, through every order of
//! everything that can happen within [`Bounds`]. Each step of each history is held to the [properties](crate::properties).
//!
//! Nothing here waits, spawns tasks or reads a clock to decide: a deadline fires because the search tries what follows. A
//! [`World`] is plain data: [`World::actions`] says what can happen next, [`World::act`] makes it happen. The search copies
//! worlds, and goes on from each only once: a fingerprint says what a world means.

mod action;
mod bounds;
mod client;
mod fingerprint;
mod flaw;
mod moves;
mod open;
mod scopes;
mod search;
mod server;
#[cfg(test)]
mod tests;
mod thing;
mod world;

pub use action::{Action, Change, Fault};
pub use bounds::{Bounds, Streams};
pub use scopes::{SCOPES, Scope};
pub use search::{Report, explore};
pub use world::World;
