//! `Action` and `Failure`: the results of a reconcile.

use std::{error::Error, fmt, iter::successors, time::Duration};

use kube_workqueue::Priority;

use crate::redact::{MAX_CAUSES, redact};

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
    /// Does the same as [`RequeueAfter`](Self::RequeueAfter), with another priority. Otherwise, the key
    /// keeps the priority of this reconcile. This action corresponds to `Result.Priority` of
    /// controller-runtime.
    RequeueWithPriority(Duration, Priority),
    /// Reconcile the key again only if the object or a related object changes.
    ///
    /// If an earlier reconcile of the key requested a requeue, that requeue still happens, as in
    /// client-go's queue. The additional reconcile is harmless, because reconciling is idempotent.
    AwaitChange,
}

/// Describes the error of a failed reconcile.
///
/// `?` converts these errors to a failure: each [`Error`], an `anyhow::Error`, a
/// `Box<dyn Error + Send + Sync>`, a `String` and a `&str`. The controller retries the key with a
/// backoff, except after a [`Failure::terminal`] or a [`TerminalError`].
///
/// Logs and debug pages contain the text of a failure: the messages of the error and of its
/// sources. Each message is truncated. Two kinds of messages are shortened, because they may contain
/// parts of objects:
/// - An error response of the server is shown as a [`StatusText`](crate::informer::StatusText). It omits
///   the message if the kind is unknown, a Secret, or marked with
///   [`mark_sensitive`](crate::informer::mark_sensitive).
/// - An error of serde_json is shown as its category and position.
///
/// Your own messages should not contain parts of objects. [`Failure::error`] returns the complete
/// error.
pub struct Failure {
    error: BoxError,
    is_terminal: bool,
}

/// Represents an error that must not be retried, in functions that do not return a [`Failure`].
///
/// Wrap the error where it occurs. It stays terminal if `?` converts it to another error type, for
/// example to an `anyhow::Error`, and then to a `Failure`. An error type of the program must return
/// the `TerminalError` as its [`source`](Error::source). This type corresponds to
/// `reconcile.TerminalError` of controller-runtime.
///
/// ```
/// use kube_operator::{Failure, TerminalError};
///
/// fn check(text: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     if text.is_empty() { Err(TerminalError::new("the text is empty"))? }
///     Ok(())
/// }
///
/// let failure = Failure::from(check("").unwrap_err());
/// assert!(failure.is_terminal());
/// assert_eq!(failure.to_string(), "the text is empty");
/// ```
#[derive(Debug)]
pub struct TerminalError(TerminalCause);

/// The source of each [`TerminalError`]. `anyhow::Error` hides the type of the outermost error from
/// downcasts, but not the types of its sources.
#[derive(Debug)]
struct TerminalCause(BoxError);

type BoxError = Box<dyn Error + Send + Sync>;

impl TerminalError {
    /// Creates an error that is not retried.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(TerminalCause(error.into()))
    }
}

impl fmt::Display for TerminalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for TerminalError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

impl fmt::Display for TerminalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for TerminalCause {
    /// Returns the wrapped error, so that callers can downcast it. The chain then contains its message
    /// more than once, and the text of a [`Failure`] omits the repetitions.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

impl Failure {
    /// Creates a failure that is not retried, because a retry would fail again. The failure is
    /// logged and counted. The key is reconciled again if the object or a related object changes.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self { error: error.into(), is_terminal: true }
    }

    /// Returns true if the failure is not retried.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns the complete error. The messages of the error may contain parts of objects.
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }

    /// Converts the failure to an error, for functions that return another error type. A terminal
    /// failure becomes a [`TerminalError`].
    pub fn into_error(self) -> BoxError {
        if self.is_terminal { Box::new(TerminalError::new(self.error)) } else { self.error }
    }
}

impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let first: &(dyn Error + 'static) = &*error;
        let is_terminal = successors(Some(first), |error| (**error).source())
            .take(MAX_CAUSES)
            .any(|error| error.is::<TerminalCause>());
        Self { error, is_terminal }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum UserError {
        #[error("cannot check the site")]
        Check(#[from] TerminalError),
        #[error("cannot read the site")]
        Read(#[from] std::io::Error),
    }

    /// Converts the error with `?`, like a reconciler.
    fn failure<E: Into<BoxError>>(error: E) -> Failure {
        let fail = || -> Result<(), Failure> { Err(error)? };
        fail().unwrap_err()
    }

    #[test]
    fn question_mark_converts_every_error() {
        let io = || std::io::Error::other("the disk is full");
        let boxed: BoxError = Box::new(io());
        for (failure, text) in [
            (failure("no luck"), "no luck"),
            (failure("no luck".to_owned()), "no luck"),
            (failure(io()), "the disk is full"),
            (failure(boxed), "the disk is full"),
            (failure(UserError::from(io())), "cannot read the site: the disk is full"),
            (failure(anyhow::anyhow!("no luck")), "no luck"),
            (
                failure(anyhow::Error::new(io()).context("cannot read the site")),
                "cannot read the site: the disk is full",
            ),
            (failure(kube_client::Error::LinesCodecMaxLineLengthExceeded), "Error finding newline character"),
        ] {
            assert!(!failure.is_terminal(), "{failure}");
            assert!(failure.to_string().starts_with(text), "{failure}");
        }
    }

    #[test]
    fn terminal_error_stays_terminal_through_other_error_types() {
        let terminal = || TerminalError::new("no spec");
        let boxed: BoxError = Box::new(terminal());
        for (failure, text) in [
            (Failure::terminal("no spec"), "no spec"),
            (failure(terminal()), "no spec"),
            (failure(boxed), "no spec"),
            (failure(UserError::from(terminal())), "cannot check the site: no spec"),
            (failure(anyhow::Error::new(terminal())), "no spec"),
            (
                failure(anyhow::Error::new(terminal()).context("cannot check the site")),
                "cannot check the site: no spec",
            ),
            (failure(anyhow::Error::new(UserError::from(terminal()))), "cannot check the site: no spec"),
            (failure(anyhow::Error::from_boxed(Failure::terminal("no spec").into_error())), "no spec"),
        ] {
            assert!(failure.is_terminal(), "{failure}");
            assert_eq!(failure.to_string(), text);
        }
        assert!(!failure(Failure::from("no luck").into_error()).is_terminal());
    }
}
