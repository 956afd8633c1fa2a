//! Where a path leads: namespaces and names that can't be any, and verbs that are done elsewhere.

use http::Response;

use crate::http::body::Body;
use crate::http::route::ResourcePath;
use crate::http::service::page_not_found;
use crate::journal::Verb;
use crate::kinds::kind::Kind;
use crate::status::Status;

/// The answer to a verb other than LIST and WATCH on a kind with namespaces, at a path without one.
pub(crate) fn outside(kind: &Kind, path: &ResourcePath, verb: Verb) -> Result<Response<Body>, Status> {
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

/// The refusal of a verb that `kind` does not have. The handler of custom resources has words of its own.
pub(crate) fn no_such_verb(kind: &Kind, verb: Verb) -> Status {
    match verb {
        _ if !kind.rules.custom => Status::method_not_allowed(),
        Verb::Update | Verb::Patch => Status::bad_request("name must be provided"),
        Verb::Other => Status::verb_not_supported(kind.named(), ""),
        _ => Status::method_not_allowed(),
    }
}

/// Refuses names and namespaces under which nothing can be stored.
pub(crate) fn check_object(kind: &Kind, path: &ResourcePath, verb: Verb) -> Result<(), Status> {
    let (namespace, name) = (path.namespace.as_deref().unwrap_or(""), path.name.as_deref().unwrap_or(""));
    match (verb, complaint(name), complaint(namespace)) {
        (Verb::Create, _, Some(why)) => {
            Err(Status::internal_error(&format!("invalid resource name \"{namespace}\": [{why}]")))
        }
        (Verb::Get | Verb::Patch | Verb::Delete, Some(why), _) => {
            Err(Status::bad_request(format!("Name parameter invalid: \"{name}\": {why}")))
        }
        (Verb::Create, ..) => Ok(()),
        _ => check_namespace(kind, namespace, &format!("/{name}")),
    }
}

/// Refuses to list where nothing can be stored.
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

/// Why a text can't be a step of a path; slashes don't come here.
fn complaint(step: &str) -> Option<String> {
    match step {
        "." | ".." => Some(format!("may not be '{step}'")),
        _ => step.contains('%').then(|| "may not contain '%'".into()),
    }
}
