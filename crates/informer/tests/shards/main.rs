//! Tests of sharded informers: fixed slots, changes of slots, and failures during the changes. Each test runs
//! with a server that supports shards, and with a server that ignores the selector.

mod changes;
mod factory;
mod fixed;
mod model;
mod reads;
mod stack;
