//! CustomResourceDefinitions: what their authors get wrong, how they are served, and the rules of their objects.

pub(crate) mod admit;
pub(crate) mod check;
pub(crate) mod defaults;
pub(crate) mod definition;
pub(crate) mod names;
pub(crate) mod removal;
pub(crate) mod scale;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod status;

/// The name of the resource that CRDs themselves are.
pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";
