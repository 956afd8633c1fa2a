//! A kubectl plugin that shows what an informer costs, what changes in a cluster, and why a controller runs.
//!
//! kubectl runs the program `kubectl-informer` as `kubectl informer`. The program uses the crates of kube-informer as
//! any other program does. [`run`] is the entire program, so tests can call it.
//!
//! # Invariants
//!
//! 1. The program only reads from the cluster. It creates nothing except access reviews, which the server does not
//!    store.
//! 2. An error is one line on standard error, without a backtrace. If standard output is closed, the program exits
//!    without a message.
//! 3. The contents of Secrets are never printed or written to files.

#![allow(dead_code, unused_imports)] // removed when all commands exist

mod check;
mod command_line;
mod completion;
mod connection;
mod cost;
mod demo;
mod error;
mod exit;
mod flags;
mod interrupt;
mod output;
mod resources;
mod terminal;

pub use command_line::run;
