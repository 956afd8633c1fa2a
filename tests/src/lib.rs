//! What the tests that cross crates share: real API servers, the ground of docs, the conformance checks.

pub mod conformance;
pub mod guide;
pub mod real;
pub mod testserver_page;
