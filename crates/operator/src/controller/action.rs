//! `Action` and `Failure`: the results of a reconcile.

use std::{error::Error, fmt, time::Duration};

use crate::redact::redact;

/// Describes the next step after a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The object has the desired state. With
    /// [`requeue_after_success`](crate::Controller::requeue_after_success), the key is requeued
    /// after that delay. Without it, the key waits for the next change.
    Done,
    /// Reconcile the key again after this delay, or earlier if the object or a related object
    /// changes.
    ///
    /// A delay of zero requeues the key immediately, behind the keys that already wait.
    ///
    /// If the reconcile cannot continue, for example because a resource is missing, return a
    /// [`Failure`] instead. The delay after failures grows, but this delay does not.
    RequeueAfter(Duration),
    /// Reconcile the key again only if the object or a related object changes.
    ///
    /// If an earlier reconcile of the key requested a requeue, that requeue still happens, as in
    /// client-go's queue. The additional reconcile is harmless, because reconciling is idempotent.
    AwaitChange,
}

/// Describes the error of a failed reconcile.
///
/// The operator `?` converts any [`Error`] to a failure that is retried. [`Failure::retry`] and
/// [`Failure::terminal`] create a failure explicitly.
///
/// Logs and debug pages contain the text of a failure: the messages of the error and of its
/// sources, each truncated to 512 characters. Two kinds of messages may contain parts of objects,
/// and are replaced:
/// - The text of an error response of the server contains only the status code, the reason and the
///   field names.
/// - The text of an error of serde_json contains only the kind and the position of the error.
///
/// Your own messages should not contain parts of objects. [`Failure::error`] returns the complete
/// error.
pub struct Failure {
    error: Box<dyn Error + Send + Sync>,
    is_terminal: bool,
}

impl Failure {
    /// Creates a failure that is not retried, because a retry would fail again. The failure is
    /// logged and counted. The key is reconciled again if the object or a related object changes.
    pub fn terminal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), is_terminal: true }
    }

    /// Creates a failure that is retried, from an error that `?` does not accept. Examples are
    /// `anyhow::Error` and boxed errors, which do not implement [`Error`].
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), is_terminal: false }
    }

    /// Creates a failure that is retried, with this message.
    pub fn message(message: impl Into<String>) -> Self {
        Self { error: message.into().into(), is_terminal: false }
    }

    /// Returns true if the failure is not retried.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns the complete error. The messages of the error may contain parts of objects.
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { error: Box::new(error), is_terminal: false }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact(&*self.error))
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_terminal { "terminal" } else { "retried" };
        write!(f, "Failure({kind}: {self})")
    }
}
