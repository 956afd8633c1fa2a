//! The code of the pages: each page is compiled and run as documentation tests of a module.

pub mod faults;
pub mod guide;
pub mod operators;
pub mod testserver;
