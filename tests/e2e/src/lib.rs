//! Programs for end-to-end tests: a real kube-apiserver, kube-testserver, the examples, the code of the
//! pages, a sharded operator, and an operator with a fault.

pub mod audit;
pub mod blind;
pub mod embedded;
pub mod example;
pub mod load;
pub mod pages;
pub mod proxy;
pub mod real;
pub mod replica;
pub mod rights;
pub mod sharded;
pub mod soak;
pub mod webhook;
