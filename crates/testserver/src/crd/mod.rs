//! CustomResourceDefinitions.

pub(crate) mod definition;
