//! Which fields a write to a part of an object does not own, because that part does not write them.

use std::sync::LazyLock;

use crate::apply::fields::FieldSet;
use crate::kinds::kind::Kind;
use crate::write::Part;

/// Fields that no manager ever owns. Of the metadata only what is below.
pub(crate) static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// The fields, each with all below it, that a write to this part leaves as they are.
pub(crate) fn left_alone(kind: &Kind, part: Part) -> FieldSet {
    match part {
        Part::Main | Part::Finalize if kind.rules.status => FieldSet::of(&[&["status"]]),
        Part::Main | Part::Finalize | Part::Scale | Part::Binding | Part::Eviction => FieldSet::default(),
        Part::Status => FieldSet::of(beside_status(kind)),
    }
}

/// The paths of what a write to the status leaves alone.
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

/// The fields of a new object that the server itself fills in.
pub(crate) fn made_by_the_server(kind: &Kind) -> FieldSet {
    if kind.is_namespace() { FieldSet::of(&[&["spec"]]) } else { FieldSet::default() }
}

/// What the managers of writes to this part carry as `subresource`.
pub(crate) fn subresource(part: Part) -> &'static str {
    match part {
        Part::Main | Part::Binding | Part::Eviction => "",
        Part::Status => "status",
        Part::Scale => "scale",
        Part::Finalize => "finalize",
    }
}
