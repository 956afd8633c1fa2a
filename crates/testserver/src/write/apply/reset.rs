//! The fields that a write to a part of an object cannot own, because the write does not change them.

use kube_managed_fields::FieldSet;

use crate::schemas::kinds::kind::Kind;
use crate::write::Part;

/// Returns the fields that a write to this part does not change, with all nested fields.
pub(crate) fn unchanged_fields(kind: &Kind, part: Part) -> FieldSet {
    match part {
        Part::Main | Part::Finalize if kind.rules.status => FieldSet::from_paths(&[&["status"]]),
        Part::Main | Part::Finalize | Part::Scale | Part::Binding | Part::Eviction => FieldSet::default(),
        Part::Status => FieldSet::from_paths(beside_status(kind)),
    }
}

/// Returns the paths that a write to the status does not change.
pub(crate) fn beside_status(kind: &Kind) -> &'static [&'static [&'static str]] {
    const SPEC: &[&str] = &["spec"];
    const METADATA: &[&str] = &["metadata"];
    if kind.rules.custom {
        return &[SPEC, METADATA];
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => &[SPEC, &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
        ("apps", "Deployment") => &[SPEC, &["metadata", "labels"]],
        ("certificates.k8s.io", _) => &[SPEC, &["status", "conditions"]],
        ("admissionregistration.k8s.io" | "apiregistration.k8s.io" | "flowcontrol.apiserver.k8s.io", _)
        | ("storage.k8s.io", "VolumeAttachment") => &[SPEC, METADATA],
        _ => &[SPEC],
    }
}

/// Returns the fields of a new object that the server sets.
pub(crate) fn made_by_the_server(kind: &Kind) -> FieldSet {
    if kind.is_namespace() { FieldSet::from_paths(&[&["spec"]]) } else { FieldSet::default() }
}

/// Returns the `subresource` of managers that write this part.
pub(crate) fn subresource(part: Part) -> &'static str {
    match part {
        Part::Main | Part::Binding | Part::Eviction => "",
        Part::Status => "status",
        Part::Scale => "scale",
        Part::Finalize => "finalize",
    }
}
