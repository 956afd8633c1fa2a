//! Searches for violations of the properties of an informer: every order of events, random histories,
//! and mutants.

pub mod explore;
pub mod mutants;
pub mod simulation;

pub use kube_informer_properties as properties;
