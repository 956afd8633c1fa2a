//! Shards: several processes share the objects of an operator. See [`Sharding`](sharding::Sharding).
//!
//! - [`Member`](member::Member) decides, and consists of the states of the [own Lease](own_lease), the
//!   [other members](peers), the [table](table) and the [placement](placement). It is plain data, so a
//!   simulation can check it with many orders of events.
//! - [`lease_loop`] and [`table_loop`] send its requests.
//! - [`OwnedSlots`](owned::OwnedSlots) reports the result to the rest of the program.

pub(crate) mod caches;
#[cfg(test)]
mod calls;
pub(crate) mod cluster_slots;
#[cfg(test)]
mod exploration;
pub(crate) mod gate;
mod lease_client;
mod lease_loop;
mod lease_objects;
mod member;
mod moves;
mod own_lease;
pub(crate) mod owned;
mod peers;
mod placement;
pub(crate) mod scope;
#[cfg(test)]
mod server;
pub(crate) mod sharding;
#[cfg(test)]
mod simulation;
mod table;
mod table_loop;
mod written;
