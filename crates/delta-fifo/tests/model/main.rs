//! Compares the queues with naive models after each step of random sequences.

mod backlog;
mod fifo;
mod property_observer;
mod world;
