//! The served kinds: their names, rules, types, CRDs and tables.

pub(crate) mod crd;
pub(crate) mod kinds;
pub(crate) mod rules;
pub(crate) mod tables;
pub(crate) mod types;
