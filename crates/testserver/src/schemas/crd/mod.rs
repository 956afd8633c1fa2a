//! CustomResourceDefinitions: validation, serving, and the rules for custom resources.

#[cfg(feature = "cel")]
pub(crate) mod cel;
pub(crate) mod check;
pub(crate) mod defaults;
pub(crate) mod definition;
pub(crate) mod scale;
pub(crate) mod schema;
pub(crate) mod status;

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";
