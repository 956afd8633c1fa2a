//! The results of admission handlers.

use kube_client::core::response::Status;

/// Permits a request. This is the result of a validating webhook. `Ok(())` has the same effect as
/// `Ok(Allowed::new())`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    pub(super) warnings: Vec<String>,
}

impl Allowed {
    /// Creates a result without warnings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a warning, which the client receives. A server may truncate warnings of more than 256 characters.
    #[must_use]
    pub fn warn(mut self, text: impl Into<String>) -> Self {
        self.warnings.push(text.into());
        self
    }
}

impl From<()> for Allowed {
    fn from((): ()) -> Self {
        Self::new()
    }
}

/// Permits a request with a changed object. This is the result of a mutating webhook. `Ok(object)` has the
/// same effect as `Ok(Mutated::new(object))`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutated<K> {
    pub(super) object: K,
    pub(super) allowed: Allowed,
}

impl<K> Mutated<K> {
    /// Creates a result without warnings.
    pub fn new(object: K) -> Self {
        Self { object, allowed: Allowed::new() }
    }

    /// Adds a warning, like [`Allowed::warn`].
    #[must_use]
    pub fn warn(mut self, text: impl Into<String>) -> Self {
        self.allowed = self.allowed.warn(text);
        self
    }
}

impl<K> From<K> for Mutated<K> {
    fn from(object: K) -> Self {
        Self::new(object)
    }
}

/// Denies a request. The client receives the message after `admission webhook "NAME" denied the request: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denied {
    code: u16,
    reason: &'static str,
    message: String,
}

impl Denied {
    /// Denies with code 403 (`Forbidden`).
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: 403, reason: "Forbidden", message: message.into() }
    }

    /// Denies with code 422 (`Invalid`), because a field of the object is invalid. The message
    /// should contain the path of the field, for example `spec.replicas: must not be negative`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: 422, reason: "Invalid", message: message.into() }
    }

    /// Denies with code 400 (`BadRequest`), because the object cannot be read.
    pub(super) fn unreadable(message: String) -> Self {
        Self { code: 400, reason: "BadRequest", message }
    }

    /// Denies with code 500 (`InternalError`), because the webhook failed.
    pub(super) fn failed(message: String) -> Self {
        Self { code: 500, reason: "InternalError", message }
    }

    /// Returns the code and the message as a Status.
    pub(super) fn status(self) -> Status {
        Status::failure(&self.message, self.reason).with_code(self.code)
    }
}
