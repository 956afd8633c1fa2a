//! Programs for end-to-end tests: a real kube-apiserver, kube-testserver, the examples, and the code of
//! the pages.

pub mod embedded;
pub mod example;
pub mod load;
pub mod pages;
pub mod real;
pub mod soak;
