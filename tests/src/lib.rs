//! What the tests that cross crates share: real API servers, the embedded one and the examples as programs, the ground of docs, the
//! conformance checks.

pub mod conformance;
pub mod embedded;
pub mod example;
pub mod explore;
pub mod faults_page;
pub mod guide;
pub mod mutants;
pub mod operators;
pub mod real;
pub mod simulation;
pub mod testserver_page;

pub use kube_informer_properties as properties;
