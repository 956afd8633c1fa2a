//! The command lines of the programs that are not published. Each error is one line.
//!
//! `kube-testserver` is published and cannot depend on this package. The program therefore contains a copy of
//! [`usage_problem`].

mod command_line;

pub use command_line::{parse, run, usage_problem};
