//! Tests of the page for browsers of `kube-operator` in Chromium.
//!
//! The package contains a small client for the Chrome DevTools Protocol, and a demo operator on an API server
//! in memory. The tests are in `tests/page.rs`. The program `page-demo` runs the demo operator, for a browser
//! of your own.

mod chromium;
mod demo;
mod tab;

pub use chromium::Chromium;
pub use demo::{Demo, FAILING_ERROR, FAILING_KEY, HOSTILE_KEY};
pub use tab::{Scripts, Tab};
