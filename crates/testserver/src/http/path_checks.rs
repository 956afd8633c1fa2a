//! Checks of a path: a missing namespace, and verbs that the path does not support.

use http::Response;

use crate::encoding::body::Body;
use crate::http::service::page_not_found;
use crate::journal::Verb;
use crate::schemas::kinds::kind::Kind;
use crate::status::Status;
use crate::wire::route::ResourcePath;

/// Responds to a request on a namespaced kind whose path has no namespace. LIST and WATCH do not need
/// one.
pub(crate) fn missing_namespace(
    kind: &Kind,
    path: &ResourcePath,
    verb: Verb,
) -> Result<Response<Body>, Status> {
    let by_name = matches!(verb, Verb::Get | Verb::Update | Verb::Patch | Verb::Delete);
    if kind.rules.custom {
        return Ok(page_not_found());
    }
    Err(match path.name {
        Some(_) if !path.unnamed_namespace => Status::no_such_resource(),
        Some(_) if by_name => Status::bad_request("Namespace parameter required."),
        _ => Status::method_not_allowed(),
    })
}

/// Creates the rejection of a verb that `kind` does not support. Custom resources have other messages.
pub(crate) fn unsupported_verb(kind: &Kind, verb: Verb) -> Status {
    match verb {
        _ if !kind.rules.custom => Status::method_not_allowed(),
        Verb::Update | Verb::Patch => Status::bad_request("name must be provided"),
        Verb::Other => Status::verb_not_supported(kind.named(), ""),
        _ => Status::method_not_allowed(),
    }
}
