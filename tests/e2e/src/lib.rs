//! Programs for end-to-end tests: a real kube-apiserver, kube-testserver, the examples, the code of the
//! pages, and an operator with a fault.

pub mod blind;
pub mod embedded;
pub mod example;
pub mod load;
pub mod pages;
pub mod real;
pub mod soak;
pub mod webhook;
