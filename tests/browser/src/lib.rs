//! Tests of the page for browsers of `kube-operator` in Chromium, and pictures for the documentation.
//!
//! The package contains a small client for the Chrome DevTools Protocol, and a demo operator on an API server
//! in memory. The tests of the page are in `tests/page.rs`. The program `page-demo` runs the demo operator,
//! for a browser of your own. [`Console`] converts the screen of a terminal program to a page.

mod chromium;
mod console;
mod demo;
mod tab;

pub use chromium::Chromium;
pub use console::Console;
pub use demo::{Demo, FAILING_ERROR, FAILING_KEY, HOSTILE_KEY};
pub use tab::{Scripts, Tab};
