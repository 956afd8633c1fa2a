//! Request bodies in Kubernetes protobuf, which Go clients prefer for built-in types. They are
//! converted to JSON before all other processing.

mod envelope;
mod expected_body;
mod message;
mod special;
mod wire;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;

use crate::journal::Verb;
use crate::schemas::types::Types;
use crate::state::Shared;
use crate::status::Status;
use crate::wire::object::media_type;
use crate::wire::route::Route;
use envelope::Envelope;
use expected_body::ExpectedBody;

const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Converts a protobuf body to JSON and updates the headers, if the request may have a protobuf body.
/// Other bodies stay unchanged. Custom resources do not support protobuf; their bodies are rejected
/// like any unknown format.
///
/// # Errors
/// Returns `BadRequest` if the bytes are malformed, or if the type differs from the type in the URL.
pub(crate) fn to_json(
    shared: &Shared,
    route: &Route,
    verb: Verb,
    headers: &mut HeaderMap,
    body: Bytes,
) -> Result<Bytes, Status> {
    if !media_type(headers).eq_ignore_ascii_case(MEDIA_TYPE) {
        return Ok(body);
    }
    let Some(wanted) = ExpectedBody::of(shared, route, verb) else { return Ok(body) };
    if body.is_empty() && wanted.is_options() {
        return Ok(body);
    }
    let json = read(&body, &wanted)?;
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(json.to_string().into())
}

fn read(body: &[u8], wanted: &ExpectedBody) -> Result<Value, Status> {
    let envelope = Envelope::read(body).map_err(|detail| wanted.unrecognized(&detail, body))?;
    let (api_version, kind) = wanted.complete(&envelope);
    wanted.check(&api_version, &kind)?;
    let place = Types::get().kind(&api_version, &kind);
    let place = place.ok_or_else(|| wanted.unreadable(&api_version, &kind, &"the version is unknown"))?;
    let mut object = message::message(place, envelope.raw)
        .map_err(|detail| wanted.unreadable(&api_version, &kind, &detail))?;
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".into(), api_version.into());
        object.insert("kind".into(), kind.into());
    }
    Ok(object)
}

#[cfg(test)]
mod tests;
