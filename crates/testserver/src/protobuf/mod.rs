//! Bodies in Kubernetes' protobuf, which clients in Go prefer for built-in types: they are turned into JSON before anybody looks at them.

mod json;
mod schema;
mod wire;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;

use crate::status::Status;
use crate::write::decode::media_type;
use schema::SCHEMA;
use wire::{Malformed, Wire};

const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What stands before the envelope.
const MAGIC: &[u8] = b"k8s\0";

/// The body as JSON, and headers that say so, if it is protobuf of a built-in type. Of others it stays what it is, to be
/// refused like any unknown format.
///
/// # Errors
/// BadRequest where the bytes are not what they claim to be.
pub(crate) fn to_json(headers: &mut HeaderMap, body: Bytes) -> Result<Bytes, Status> {
    if body.is_empty() || media_type(headers) != MEDIA_TYPE {
        return Ok(body);
    }
    let read = |why: Malformed| Status::bad_request(format!("the protobuf body can't be read: {why}"));
    let envelope = Envelope::read(&body).map_err(read)?;
    let Some(message) = SCHEMA.kind(envelope.api_version, envelope.kind) else { return Ok(body) };
    let mut object = json::message(message, envelope.raw).map_err(read)?;
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".into(), envelope.api_version.into());
        map.insert("kind".into(), envelope.kind.into());
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(Bytes::from(Value::to_string(&object)))
}

/// The message around each object: its type, then its bytes.
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let inner = body.strip_prefix(MAGIC).ok_or(Malformed::Magic)?;
        let mut envelope = Self { api_version: "", kind: "", raw: &[] };
        for field in wire::fields(inner) {
            match field? {
                (1, Wire::Bytes(names)) => {
                    for field in wire::fields(names) {
                        match field? {
                            (1, Wire::Bytes(text)) => envelope.api_version = wire::text(text)?,
                            (2, Wire::Bytes(text)) => envelope.kind = wire::text(text)?,
                            _ => {}
                        }
                    }
                }
                (2, Wire::Bytes(raw)) => envelope.raw = raw,
                // An encoding of the raw bytes; no client uses one.
                (3, Wire::Bytes(encoding)) if !encoding.is_empty() => return Err(Malformed::Encoding),
                _ => {}
            }
        }
        Ok(envelope)
    }
}

#[cfg(test)]
mod tests;
