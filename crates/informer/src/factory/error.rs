//! The errors of a factory.

/// Reports why a factory cannot return an informer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FactoryError {
    /// The factory was shut down with
    /// [`InformerFactory::shutdown`](crate::InformerFactory::shutdown). Contains the name of the
    /// requested informer.
    #[error("cannot create informer {0}: factory is shut down")]
    ShutDown(String),
    /// The namespace is empty or not a valid name, or the type is cluster-scoped.
    #[error(
        "cannot create informer of {kind} in namespace {namespace:?}: \
         requires a valid namespace name and a namespaced type"
    )]
    InvalidNamespace {
        /// The kind of the objects.
        kind: String,
        /// The requested namespace.
        namespace: String,
    },
    /// A label selector or a field selector has invalid syntax.
    #[error("cannot create informer of {kind} with selector {selector:?}: {reason}")]
    InvalidSelector {
        /// The kind of the objects.
        kind: String,
        /// The text of the selector.
        selector: String,
        /// The syntax error.
        reason: String,
    },
}
