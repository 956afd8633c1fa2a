//! The subresources with a separate type: `/scale`, `/binding`, `/eviction`.

use bytes::Bytes;
use http::Response;

use crate::encoding::body::Body;
use crate::encoding::object_encoder::ObjectEncoder;
use crate::encoding::scale::Scale;
use crate::http::handle::write_options;
use crate::http::service::{Call, json};
use crate::journal::Verb;
use crate::schemas::kinds::kind::ScalePaths;
use crate::state::Shared;
use crate::status::Status;
use crate::wire::object::media_type;
use crate::write::patch::{PatchRequest, patch_scale};
use crate::write::{self, Mode, Part, Target, Via, binding, decode, eviction, scale_body};

type HandlerResult = Result<Response<Body>, Status>;

const CREATED: &[u8] = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}"#;

/// Handles a POST of `/binding`: a scheduler assigns a pod to a node.
pub(crate) async fn bind(shared: &Shared, target: &Target, call: &Call, body: &Bytes) -> HandlerResult {
    let options = write_options(shared, call, body)?;
    decode::check_json(&call.parts.headers)?;
    binding::bind(shared, target, body, options).await?;
    Ok(json(201, CREATED))
}

/// Handles a POST of `/eviction`: deletes a pod if its disruption budget permits the deletion.
pub(crate) async fn evict(shared: &Shared, target: &Target, call: &Call, body: &Bytes) -> HandlerResult {
    let options = write_options(shared, call, body)?;
    decode::check_json(&call.parts.headers)?;
    eviction::evict(shared, target, body, &options).await?;
    Ok(json(201, CREATED))
}

/// Handles GET, PUT and PATCH of `/scale`.
pub(crate) async fn scale(
    shared: &Shared,
    target: &Target,
    encoder: &ObjectEncoder,
    call: &Call,
    body: &Bytes,
) -> HandlerResult {
    let paths = target.kind().scale.as_ref().ok_or_else(Status::no_such_resource)?;
    if call.info.verb == Verb::Get {
        let entry = shared.read(|state| state.store.table(target.served.table).get(&target.key()).cloned());
        let object = entry.ok_or_else(|| target.not_found())?.object();
        return Ok(json(200, &encoder.scale(&Scale::shown(&object, paths)?)));
    }
    let written = write_scale(shared, target, call, body, paths).await?;
    let scale = Scale::of(&written.entry().object(), paths);
    Ok(json(written.code(), &encoder.scale(&scale)))
}

async fn write_scale(
    shared: &Shared,
    target: &Target,
    call: &Call,
    body: &Bytes,
    paths: &ScalePaths,
) -> Result<write::Written, Status> {
    let options = write_options(shared, call, body)?;
    if call.info.verb == Verb::Patch {
        let mode = Mode { via: Via::Patch, part: Part::Scale, options };
        let media_type = media_type(&call.parts.headers);
        let sent = PatchRequest { media_type, body, force: call.query.flag("force"), caller: None };
        return patch_scale(shared, target, mode, sent, paths).await;
    }
    decode::check_json(&call.parts.headers)?;
    let mut wanted = scale_body::decode(body, target.kind(), &options)?;
    write::update::check_named(target, &wanted)?;
    write::create::place(target, &mut wanted)?;
    let mode = Mode { via: Via::Put, part: Part::Scale, options };
    write::update(shared, target, &mode, |target, object| scale_body::scaled(target, object, &wanted, paths))
        .await
}
