//! Bodies of requests to `/scale`: a Scale, or a patch of one.

use bytes::Bytes;

use crate::encoding::scale::{Scale, replicas};
use crate::schemas::crd::scale::NEGATIVE;
use crate::schemas::kinds::builtin::SCALE;
use crate::schemas::kinds::kind::{Kind, ScalePaths};
use crate::status::{Cause, Named, Status};
use crate::wire::object::{meta, metadata_mut};
use crate::write::create::place;
use crate::write::decode;
use crate::write::strict::read_typed;
use crate::write::update::check_named;
use crate::write::{Object, Target, Via, WriteOptions, type_meta};

/// The replicas of a scale before a patch, if the object does not set them.
const UNSET: i64 = i32::MIN as i64;

pub(crate) fn decode(body: &Bytes, kind: &Kind, options: &WriteOptions) -> Result<Object, Status> {
    let read = || {
        let mut scale = decode::object(body, &SCALE)?;
        read_typed(&SCALE, Via::Put, &mut scale, options)?;
        Ok(scale)
    };
    if !kind.rules.custom {
        return read();
    }
    // The real server fails to format the actual error.
    let text = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";
    read().map_err(|_: Status| Status::bad_request(text))
}

pub(crate) fn patched(
    target: &Target,
    object: &Object,
    paths: &ScalePaths,
    options: &WriteOptions,
    patch: impl Fn(Object) -> Result<Object, Status>,
) -> Result<Object, Status> {
    let mut shown = Scale::of(object, paths);
    shown.replicas.get_or_insert(UNSET);
    let mut wanted = patch(shown.object())?;
    type_meta::check_patched(&wanted, &SCALE, &target.name)?;
    read_typed(&SCALE, Via::Patch, &mut wanted, options)?;
    check_named(target, &wanted)?;
    place(target, &mut wanted)?;
    if replicas(&wanted) == UNSET {
        let path = &paths.spec_replicas;
        return Err(Status::bad_request(format!("the spec replicas field \"{path}\" cannot be empty")));
    }
    let (uid, sent) = (meta(object, "uid"), meta(&wanted, "uid"));
    if !sent.is_empty() && sent != uid {
        if target.kind().rules.custom {
            // The real server ignores the uid.
            metadata_mut(&mut wanted).remove("uid");
        } else {
            let resource = format!("{}/scale", target.kind().plural);
            let what = Named { group: &target.kind().group, resource: &resource };
            let detail =
                format!("Precondition failed: UID in precondition: {sent}, UID in object meta: {uid}");
            return Err(Status::conflict(what, &target.name, &detail));
        }
    }
    scaled(target, object, &wanted, paths)
}

/// Returns the object with the values of the scale `wanted`.
pub(crate) fn scaled(
    target: &Target,
    object: &Object,
    wanted: &Object,
    paths: &ScalePaths,
) -> Result<Object, Status> {
    check(target.kind(), &target.name, replicas(wanted), paths)?;
    Ok(Scale::of(object, paths).put_into(object, wanted, paths))
}

fn check(kind: &Kind, name: &str, replicas: i64, paths: &ScalePaths) -> Result<(), Status> {
    if replicas >= 0 {
        return Ok(());
    }
    let shown = replicas.to_string();
    if kind.rules.custom {
        let cause = Cause::invalid(&paths.spec_replicas, &shown, NEGATIVE);
        return Err(Status::invalid(kind.named_kind(), name, vec![cause]));
    }
    let cause = Cause::invalid("spec.replicas", &shown, "must be greater than or equal to 0");
    Err(Status::invalid(SCALE.named_kind(), name, vec![cause]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(plural: &str, body: &str) -> String {
        let kind =
            crate::schemas::kinds::builtin::kinds().into_iter().find(|kind| kind.plural == plural).unwrap();
        decode(&Bytes::copy_from_slice(body.as_bytes()), &kind, &WriteOptions::default())
            .unwrap_err()
            .message()
            .to_owned()
    }

    #[test]
    fn non_scale_bodies_are_rejected() {
        assert!(refused("deployments", "{").ends_with(" ({)"));
        let cannot = |kind: &str, detail: &str| {
            format!("{kind} in version \"v1\" cannot be handled as a Scale: {detail}")
        };
        let other = refused("deployments", r#"{"apiVersion":"apps/v1","kind":"Deployment"}"#);
        assert!(other.contains(" cannot be handled as a Scale: "));
        for (body, detail) in [
            (r#"{"spec":{"replicas":1.5}}"#, "number into spec.replicas of type int32"),
            (r#"{"spec":[]}"#, "array into spec of type object"),
            (r#"{"status":{"selector":1}}"#, "number into status.selector of type string"),
            (r#"{"metadata":{"uid":1}}"#, "number into metadata.uid of type string"),
        ] {
            let detail = format!("json: cannot unmarshal {detail}");
            assert_eq!(refused("deployments", body), cannot("Scale", &detail));
        }
    }
}
