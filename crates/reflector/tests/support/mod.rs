//! Common code of the tests: a scripted source, and a recorder of deltas.

#![allow(dead_code, reason = "each test file uses only some functions")]

pub(crate) mod fake;
pub(crate) mod notation;
pub(crate) mod run;
