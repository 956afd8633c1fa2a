//! What a run asks for: `Action`, or a `Failure`.

use std::{error::Error, fmt, time::Duration};

use crate::redact::redact;

/// What a run that has succeeded asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing is left to do. Where the controller looks at every object from time to time
    /// ([`Controller::requeue_after_success`](crate::Controller::requeue_after_success)), it will look at this one, too.
    Done,
    /// Another run after this time, or earlier if something changes. After none at all it runs again at once, behind the keys
    /// that wait: where that is for want of something, a [`Failure`] is better, which waits longer each time.
    RequeueAfter(Duration),
    /// Another run when something changes. One that an earlier run has asked for after some time still comes, as with
    /// client-go's queue: nothing is lost by that, and a run finds nothing to do.
    AwaitChange,
}

/// A run has failed: with a `?` on any type that is an [`Error`], as [`Failure::retry`] or as [`Failure::terminal`].
///
/// What the error and its causes say is logged and shown on debug pages, each in at most 512 characters: it should quote
/// nothing of an object. Of a server's refusal, which quotes, no more than the code, the reason and the names of the fields is
/// shown, of JSON that is not as expected only where it stands; the rest is in [`Failure::error`].
pub struct Failure {
    error: Box<dyn Error + Send + Sync>,
    is_terminal: bool,
}

impl Failure {
    /// One that another try would not mend: it is counted and reported, and the key waits for a change.
    pub fn terminal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), is_terminal: true }
    }

    /// To be tried again: for what is no [`Error`] itself, such as an `anyhow::Error` or a boxed one, which `?` does not take.
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), is_terminal: false }
    }

    /// In words of one's own, to be tried again.
    pub fn message(message: impl Into<String>) -> Self {
        Self { error: message.into().into(), is_terminal: false }
    }

    /// No other try would mend it.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// What has gone wrong.
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
        let kind = if self.is_terminal { "terminal" } else { "to be tried again" };
        write!(f, "Failure({kind}: {self})")
    }
}
