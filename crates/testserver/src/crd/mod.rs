//! CustomResourceDefinitions: what their authors get wrong, how they are served, and the rules of their objects.

pub(crate) mod definition;
pub(crate) mod schema;
