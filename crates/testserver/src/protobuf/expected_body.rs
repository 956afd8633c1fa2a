//! The expected type of a request body, from its URL, and the errors for other types.

use std::fmt::Display;

use super::envelope::Envelope;
use crate::journal::Verb;
use crate::schemas::kinds::kind::group_version;
use crate::schemas::types::Types;
use crate::state::Shared;
use crate::status::Status;
use crate::wire::object::excerpt;
use crate::wire::route::Route;

const DELETE_OPTIONS: &str = "DeleteOptions";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpectedBody {
    api_version: String,
    kind: String,
}

impl ExpectedBody {
    pub(super) fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }

    /// Returns the expected body of a request. Returns `None` if the request has no body, or a body that
    /// is not protobuf.
    pub(super) fn of(shared: &Shared, route: &Route, verb: Verb) -> Option<Self> {
        let Route::Resource(path) = route else { return None };
        match verb {
            Verb::Delete | Verb::DeleteCollection => return Some(Self::new("v1", DELETE_OPTIONS)),
            Verb::Create | Verb::Update => {}
            _ => return None,
        }
        let own = match path.subresource.as_deref() {
            Some("scale") => Some(("autoscaling/v1", "Scale")),
            Some("eviction") => Some(("policy/v1", "Eviction")),
            Some("binding") => Some(("v1", "Binding")),
            Some("token") => Some(("authentication.k8s.io/v1", "TokenRequest")),
            _ => None,
        };
        if let Some((api_version, kind)) = own {
            return Some(Self::new(api_version, kind));
        }
        match shared.find(&path.group, &path.version, &path.resource) {
            Some(served) if served.kind.rules.custom => None,
            Some(served) => Some(Self::new(served.kind.api_version(), served.kind.kind.as_str())),
            None => {
                let api_version = group_version(&path.group, &path.version);
                let kind = Types::get().kind_of(&api_version, &path.resource)?;
                Some(Self::new(api_version, kind))
            }
        }
    }

    pub(super) fn is_options(&self) -> bool {
        self.kind == DELETE_OPTIONS
    }

    /// Returns the type in the body. Adds missing parts from the expected type. Options of a DELETE may
    /// have the version of any group.
    pub(super) fn complete(&self, envelope: &Envelope<'_>) -> (String, String) {
        let named = &envelope.api_version;
        let kind = if envelope.kind.is_empty() { &self.kind } else { &envelope.kind };
        let unnamed = named.is_empty() || named.matches('/').count() > 1;
        let any = self.is_options() && kind == DELETE_OPTIONS;
        let api_version = if unnamed || any { &self.api_version } else { named };
        (api_version.clone(), kind.clone())
    }

    /// Creates the error for a body that does not contain its type.
    pub(super) fn unrecognized(&self, detail: &dyn Display, body: &[u8]) -> Status {
        if self.is_options() {
            return Status::bad_request(detail.to_string());
        }
        let (kind, shown) = (&self.kind, excerpt(body));
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {detail} ({shown})"
        ))
    }

    /// Rejects a body of another kind. A different version is checked later, by the JSON decoder.
    pub(super) fn check(&self, api_version: &str, kind: &str) -> Result<(), Status> {
        if kind == self.kind {
            return Ok(());
        }
        Err(self.unreadable(api_version, kind, &"it is another kind"))
    }

    /// Creates the error for a body that cannot be decoded as the kind that it contains.
    pub(super) fn unreadable(&self, api_version: &str, kind: &str, detail: &dyn Display) -> Status {
        if self.is_options() {
            return Status::bad_request(detail.to_string());
        }
        let (wanted, version) = (&self.kind, api_version.rsplit('/').next().unwrap_or(api_version));
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {wanted}: {detail}"
        ))
    }
}
