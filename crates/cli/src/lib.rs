//! A kubectl plugin that measures the cost of an informer, prints changes in a cluster, and explains the
//! reconciles of an operator.
//!
//! kubectl runs the program `kubectl-informer` as `kubectl informer`. The program uses the public API of
//! kube-informer. [`run`] is the entire program, so tests can call it.
//!
//! # Invariants
//!
//! 1. The program only reads from the cluster. It creates only access reviews, which the server does not
//!    store.
//! 2. An error is one line on standard error, without a backtrace. If standard output is closed, the program
//!    exits without a message.
//! 3. The program never prints the contents of Secrets, and never writes them to files.

mod changes;
mod check;
mod command_line;
mod completion;
mod connection;
mod cost;
mod demo;
mod discovery;
mod error;
mod examples;
mod exit;
mod feed;
mod flags;
mod interrupt;
mod output;
mod record;
mod resources;
mod runtime;
mod selectors;
mod serve;
mod terminal;
mod watch;
mod why;

pub use command_line::{Failure, run};
