//! Checks of a path: invalid namespaces and names, and verbs that the path does not support.

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

/// Rejects names and namespaces that cannot be part of a storage key.
pub(crate) fn check_object(kind: &Kind, path: &ResourcePath, verb: Verb) -> Result<(), Status> {
    let (namespace, name) = (path.namespace.as_deref().unwrap_or(""), path.name.as_deref().unwrap_or(""));
    match (verb, segment_error(name), segment_error(namespace)) {
        (Verb::Create, _, Some(cause)) => {
            Err(Status::internal_error(&format!("invalid resource name \"{namespace}\": [{cause}]")))
        }
        (Verb::Get | Verb::Patch | Verb::Delete, Some(cause), _) => {
            Err(Status::bad_request(format!("Name parameter invalid: \"{name}\": {cause}")))
        }
        (Verb::Create, ..) => Ok(()),
        _ => check_namespace(kind, namespace, &format!("/{name}")),
    }
}

/// Rejects a list in a namespace that cannot be part of a storage key.
pub(crate) fn check_collection(kind: &Kind, path: &ResourcePath) -> Result<(), Status> {
    check_namespace(kind, path.namespace.as_deref().unwrap_or(""), "")
}

fn check_namespace(kind: &Kind, namespace: &str, rest: &str) -> Result<(), Status> {
    if !matches!(namespace, "." | "..") {
        return Ok(());
    }
    let group = if kind.rules.custom { format!("/{}", kind.group) } else { String::new() };
    let key = format!("{group}/{}/{namespace}{rest}", kind.plural);
    Err(Status::internal(format!("invalid key: {key:?}")))
}

/// Returns the error of an invalid path segment. The segment contains no slash.
fn segment_error(segment: &str) -> Option<String> {
    match segment {
        "." | ".." => Some(format!("may not be '{segment}'")),
        _ => segment.contains('%').then(|| "may not contain '%'".into()),
    }
}
