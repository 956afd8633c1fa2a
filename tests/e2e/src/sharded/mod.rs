//! Replicas of a sharded operator as separate processes, on a real etcd and kube-apiserver. Replicas are
//! killed, paused, stopped and partitioned while objects change. The audit log of the server decides
//! whether two replicas wrote for the same slot, and whether a reconcile read an old state.

mod history;
mod judge;
mod objects;
mod operator;
mod suite;
mod tables;

pub use operator::{Caches, OperatorOptions, run_operator};
pub use suite::{Settings, run};

/// The namespace and the name of the group of replicas.
const GROUP: (&str, &str) = ("default", "sharded");
