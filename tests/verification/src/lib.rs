//! Searches for violations of the properties of an informer: every order of events, random histories,
//! and mutants. Also sends random requests to kube-testserver.

pub mod explore;
pub mod fuzz;
pub mod mutants;
pub mod simulation;

pub use kube_informer_properties as properties;
