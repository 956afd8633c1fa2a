//! Requests for discovery documents, the version and the health of the server.

pub(crate) mod aggregated;
pub(crate) mod catalog;
mod documents;
mod order;
#[cfg(test)]
mod tests;

use http::{HeaderValue, Method, Response, header};
use serde_json::json;

use crate::encoding::body::Body;
use crate::http::health;
use crate::http::service::{Call, cacheable, document, json, page_not_found, upper_hex};
use crate::state::Shared;
use crate::status::Status;
use crate::wire::accept::{self, MediaType};
use crate::wire::route::Route;

type HandlerResult = Result<Response<Body>, Status>;

/// Responds to a request whose path is not the path of a resource.
pub(crate) fn respond(shared: &Shared, call: &Call) -> HandlerResult {
    match &call.route {
        Route::Health => Ok(health::respond(call.parts.uri.path(), &call.query)),
        Route::Root => Ok(document("application/json", root(shared))),
        Route::Version => version(call),
        #[cfg(feature = "openapi")]
        Route::OpenApi => Ok(crate::http::openapi::respond(shared, call)),
        #[cfg(not(feature = "openapi"))]
        Route::OpenApi => Ok(page_not_found()),
        Route::CoreVersions => {
            only_get(call)?;
            all(shared, call, true)
        }
        Route::Groups => all(shared, call, false),
        Route::Group(group) => {
            let found = shared.read(|state| documents::group(&state.registry, group));
            let Some(body) = found else { return Ok(page_not_found()) };
            check_plain(call)?;
            Ok(json(200, &body))
        }
        Route::Resources { group, version } => resources(shared, call, group, version),
        Route::Resource(_) | Route::Unknown | Route::Malformed => unknown(shared, call.parts.uri.path()),
    }
}

/// Responds to a request for a version that is not served. The group of a CRD exists only while the CRD
/// exists.
pub(crate) fn not_served(group: &str) -> HandlerResult {
    if order::is_builtin(group) { Err(Status::no_such_resource()) } else { Ok(page_not_found()) }
}

fn unknown(shared: &Shared, path: &str) -> HandlerResult {
    let steps: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let (group, version) = match steps.as_slice() {
        ["api", version, ..] => ("", *version),
        ["apis", group, version, ..] => (*group, *version),
        ["version", _, ..] => return Err(Status::no_such_resource()),
        _ => return Ok(page_not_found()),
    };
    let served = shared.read(|state| state.registry.resources(group, version).is_some());
    if served { Err(Status::no_such_resource()) } else { not_served(group) }
}

fn only_get(call: &Call) -> Result<(), Status> {
    if call.parts.method == Method::GET { Ok(()) } else { Err(Status::method_not_allowed()) }
}

fn root(shared: &Shared) -> String {
    let mut paths = shared.read(|state| documents::paths(&state.registry));
    paths.extend(["/healthz", "/livez", "/readyz", "/version"].map(str::to_owned));
    #[cfg(feature = "openapi")]
    paths.extend(["/openapi/v2", "/openapi/v3"].map(str::to_owned));
    paths.sort();
    format!("{:#}", json!({"paths": paths}))
}

fn version(call: &Call) -> HandlerResult {
    only_get(call)?;
    if accept::accepted(&call.parts.headers).iter().any(MediaType::is_json) {
        return Ok(document("application/json", documents::VERSION));
    }
    Err(accept::not_acceptable("application/json"))
}

fn resources(shared: &Shared, call: &Call, group: &str, version: &str) -> HandlerResult {
    let found = shared.read(|state| documents::resources(&state.registry, group, version));
    let Some(body) = found else { return not_served(group) };
    if order::is_builtin(group) {
        only_get(call)?;
    }
    check_plain(call)?;
    Ok(json(200, &body))
}

/// Returns 406 if the client accepts no plain document.
fn check_plain(call: &Call) -> Result<(), Status> {
    let accepted = accept::accepted(&call.parts.headers);
    if accepted.iter().any(is_plain) {
        return Ok(());
    }
    let is_known = accepted.iter().any(|media| media.is_json() || media.is_yaml());
    let available = accept::not_acceptable(accept::OBJECT_MEDIA_TYPES);
    Err(if is_known { accept::unsupported_representation() } else { available })
}

fn is_plain(media: &MediaType<'_>) -> bool {
    (media.is_json() || media.is_yaml()) && media.parameter("as").is_none()
}

fn is_aggregated(media: &MediaType<'_>) -> bool {
    let form = ["g", "v", "as"].map(|name| media.parameter(name));
    media.is_json() && form == [Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")]
}

/// Responds to `/api` (`is_core`) or `/apis` with the aggregated document, or with the list of versions or
/// groups.
fn all(shared: &Shared, call: &Call, is_core: bool) -> HandlerResult {
    let accepted = accept::accepted(&call.parts.headers);
    // The aggregated document takes precedence, at any position in `Accept`.
    if accepted.iter().any(is_aggregated) {
        Ok(aggregated(shared, call, is_core))
    } else if accepted.iter().any(is_plain) {
        Ok(json(200, &listed(shared, call, is_core)))
    } else {
        Err(accept::unsupported_representation())
    }
}

fn listed(shared: &Shared, call: &Call, is_core: bool) -> Vec<u8> {
    if !is_core {
        return shared.read(|state| documents::groups(&state.registry));
    }
    // The address of the server in the client's configuration.
    let host = call.parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = call.parts.uri.authority().map(http::uri::Authority::as_str);
    documents::core_versions(authority.or(host).unwrap_or("127.0.0.1"))
}

fn aggregated(shared: &Shared, call: &Call, is_core: bool) -> Response<Body> {
    let mut body = shared.read(|state| aggregated::document(&state.registry, is_core));
    body.push(b'\n');
    let mut response =
        cacheable(call, aggregated::MEDIA_TYPE, &upper_hex(&hmac_sha256::Hash::hash(&body)), body);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}
