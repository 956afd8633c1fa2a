//! What the tests that cross crates share: real API servers, the guide's ground, the conformance checks.

pub mod conformance;
pub mod guide;
pub mod real;
