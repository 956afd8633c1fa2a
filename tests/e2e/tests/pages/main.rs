//! The code of the pages, compiled and run. `build.rs` turns each block of Rust code into a test.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_imports,
    clippy::all,
    clippy::needless_pass_by_value,
    reason = "the code of pages"
)]

mod unsupported;

include!(concat!(env!("OUT_DIR"), "/pages.rs"));
