//! The errors of a factory.

use kube_object::Escaped;

/// Reports why a factory cannot return or adopt an informer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FactoryError {
    /// The factory was shut down with
    /// [`InformerFactory::shutdown`](crate::InformerFactory::shutdown). Contains the name of the
    /// informer.
    #[error("cannot add informer {} to the factory, because the factory is shut down", Escaped(.0))]
    ShutDown(String),
    /// The name of the namespace is empty or not a DNS label, or the type is cluster-scoped.
    #[error(
        "cannot create informer of {} in namespace {namespace:?}: \
         the name must be a DNS label, and the type must be namespaced",
        Escaped(kind)
    )]
    InvalidNamespace {
        /// The kind of the objects.
        kind: String,
        /// The requested namespace.
        namespace: String,
    },
    /// A label selector or a field selector has invalid syntax.
    #[error("cannot create informer of {} with selector {selector:?}: {reason}", Escaped(kind))]
    InvalidSelector {
        /// The kind of the objects.
        kind: String,
        /// The text of the selector.
        selector: String,
        /// The syntax error.
        reason: String,
    },
}
