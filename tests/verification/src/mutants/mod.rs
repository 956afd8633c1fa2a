//! Mutants. A mutant is a small patch that breaks a property, or that introduces a defect of another
//! library. Each mutant names the test that must find it.
//!
//! A patch of `tests/verification/mutants` begins with a header:
//!
//! ```text
//! breaks: 2
//! defect: kube-runtime: a deletion during a relist is not reported
//! found by: explore protocol-lists
//! ```
//!
//! - `breaks` contains the numbers of the broken properties.
//! - `defect` names another library and describes its defect.
//! - `promise` names another guarantee of a crate, for example of kube-operator.
//! - `found by` is the test: the explorer or the simulation, preferably the faster of the two. If
//!   neither finds the mutant, it is a test of `cargo test`.
//!
//! A header needs `breaks`, `defect` or `promise`.

mod patch;
mod tree;

pub use patch::{FoundBy, Mutant, mutants};
pub use tree::Tree;
