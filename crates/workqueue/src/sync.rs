//! What `queue` locks, wakes and waits with. In this crate's unit tests each operation first lets a scheduler decide
//! which task goes on (`controlled`), so that `queue::interleavings` can try the orders in which tasks may come to them.
//! Programs, documentation tests and `tests/` always have the real ones: no flag of a build changes that.

#[cfg(test)]
pub(crate) mod controlled;
#[cfg(test)]
pub(crate) mod orders;
#[cfg(not(test))]
mod real;

#[cfg(test)]
pub(crate) use controlled::{Mutex, Notify, now, sleep_until};
#[cfg(not(test))]
pub(crate) use real::{Mutex, Notify, now, sleep_until};
