//! The protocol, request by request, against answers that were recorded from kube-apiserver 1.36.

mod access;
mod ask;
mod crds;
mod deletes;
mod discovery;
mod faults;
mod forms;
mod garbage;
mod leaks;
mod lists;
mod load;
mod ownership;
mod shards;
mod tcp;
mod watches;
mod writes;
