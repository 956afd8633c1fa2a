//! Compares responses of the server with responses that were recorded from kube-apiserver 1.36.

mod access;
mod client;
mod crds;
mod deletes;
mod discovery;
mod faults;
mod garbage_collection;
mod lists;
mod load;
mod media_types;
mod ownership;
mod rbac;
mod resource_release;
mod tcp;
mod watches;
mod webhooks;
mod writes;
