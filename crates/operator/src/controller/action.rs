//! `Action` and `Failure`: the results of a reconcile.

use std::{error::Error, fmt, time::Duration};

use crate::redact::redact;

/// Describes the next step after a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The object has the desired state. If the controller has
    /// [`requeue_after_success`](crate::Controller::requeue_after_success), the key is requeued
    /// after that delay.
    Done,
    /// Reconcile again after this delay, or earlier if something changes.
    ///
    /// With a zero delay, the key is requeued immediately, behind the keys that wait. If a resource
    /// is missing, return a [`Failure`] instead, because the backoff of failures grows.
    RequeueAfter(Duration),
    /// Reconcile again when something changes.
    ///
    /// A requeue that an earlier reconcile requested still happens, as in client-go's queue. It is
    /// harmless, because reconciling is idempotent.
    AwaitChange,
}

/// Describes the error of a failed reconcile. Use `?` on any [`Error`], or [`Failure::retry`] or
/// [`Failure::terminal`].
///
/// Logs and debug pages show the messages of the error and its sources, each up to 512 characters.
/// The messages should not contain parts of objects. For an error response of the server, which may
/// contain parts of objects, the text is limited to the code, the reason and the field names. For
/// unexpected JSON, the text is limited to the position. [`Failure::error`] returns the complete
/// error.
pub struct Failure {
    error: Box<dyn Error + Send + Sync>,
    is_terminal: bool,
}

impl Failure {
    /// Creates a failure that a retry cannot fix. It is counted and logged, and the key waits for a
    /// change.
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

    /// Returns whether the failure is not retried.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns the error.
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
