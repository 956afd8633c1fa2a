//! The indexed cache: one write path, snapshots that block nobody, Listers and typed indexes.
