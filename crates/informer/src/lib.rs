//! Shared informers: the list-watch cache of a type, its handlers, listers and the factory that shares them.
