//! What the tests of the driver share: a source that plays a script, and a run that is recorded.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod fake;
pub(crate) mod notation;
pub(crate) mod run;
