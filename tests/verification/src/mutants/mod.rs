//! Mutants: small patches, each of which puts back a neighbour's defect or breaks a property, and what
//! finds them.
//!
//! A patch of `tests/verification/mutants` begins with lines that say what it breaks and who finds it:
//!
//! ```text
//! breaks: 2
//! defect: kube-runtime: what is deleted during a relist disappears silently
//! found by: explore protocol-lists
//! ```
//!
//! `breaks` names properties by their numbers, `defect` (once or not at all) a defect of a neighbour,
//! `promise` another promise of a crate, such as one of kube-operator's; one of them is there. `found
//! by` (the program that is faster comes first) the explorer, the simulation or, where neither can, a
//! test.

mod patch;
mod tree;

pub use patch::{FoundBy, Mutant, mutants};
pub use tree::Tree;
