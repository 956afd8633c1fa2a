//! `kubectl informer cost` as a user runs it, with kube-testserver.

mod churn;
mod demo;
mod faults;
mod page;
mod program;
mod rights;
