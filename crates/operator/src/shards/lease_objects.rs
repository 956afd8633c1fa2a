//! Conversion between Lease objects and the state of the group. Each member has a Lease, and a further Lease
//! contains the table. Each Lease has the same label.
//!
//! The Leases are read as dynamic objects, and changed with merge patches. Fields of other programs therefore
//! stay. A patch contains the uid and the resourceVersion as preconditions.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{Resource, api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube_client::core::DynamicObject;
use kube_informer::ResourceVersion;
use kube_object::SlotSet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    member::StoredTable,
    own_lease::{MemberInfo, MemberLease},
    peers::Kill,
    table::{FORMAT, Table, TableError},
};

/// The label of all Leases of a group. The value of the label is the name of the group.
pub(crate) const GROUP_LABEL: &str = "kube-informer.dev/shard-group";
const MEMBER: &str = "kube-informer.dev/shard-member";
const TABLE: &str = "kube-informer.dev/shard-table";
const KILLED_BY: &str = "kube-informer.dev/killed-by";

/// The text of [`MEMBER`]. The other fields of a Lease are the same in all versions, so that members of
/// another version can observe that a member has died.
#[derive(Serialize, Deserialize)]
struct MemberText {
    /// The format of the table that the member uses.
    format: u32,
    weight: u32,
    filled: String,
}

/// Returns whether a Lease with the label of the group belongs to a member: its name is the name of the
/// group and a random suffix. The suffix has 16 hexadecimal digits.
pub(crate) fn is_member_name(group: &str, name: &str) -> bool {
    let suffix = name.strip_prefix(group).and_then(|suffix| suffix.strip_prefix('-'));
    suffix.is_some_and(|suffix| suffix.len() == 16 && suffix.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns the state of a member.
pub(crate) fn parse_member(lease: &DynamicObject) -> MemberLease {
    let spec = &lease.data["spec"];
    let seconds = spec["leaseDurationSeconds"].as_u64().and_then(|seconds| u32::try_from(seconds).ok());
    MemberLease {
        uid: uid(lease),
        version: version(lease),
        info: annotation(lease, MEMBER).and_then(parse_info),
        renewed: spec["renewTime"].as_str().unwrap_or_default().to_owned(),
        is_killed: annotation(lease, KILLED_BY).is_some(),
        duration: Duration::from_secs(seconds.unwrap_or_default().into()),
    }
}

fn parse_info(text: &str) -> Option<MemberInfo> {
    let MemberText { format, weight, filled } = serde_json::from_str(text).ok()?;
    let filled = filled.parse().ok()?;
    (format == FORMAT).then_some(MemberInfo { weight, filled })
}

/// Returns the table.
pub(crate) fn parse_table(lease: &DynamicObject) -> StoredTable {
    let missing = || TableError::Invalid(format!("the annotation {TABLE} is missing"));
    let table = annotation(lease, TABLE).ok_or_else(missing).and_then(Table::parse);
    StoredTable { uid: uid(lease), version: version(lease), table }
}

/// Returns the new Lease of a member, or a patch of the Lease.
pub(crate) fn member_patch(
    (group, name): (&str, &str),
    over: Option<&MemberLease>,
    info: MemberInfo,
    duration: Duration,
    now: Timestamp,
) -> Value {
    let filled = SlotSet::to_string(&info.filled);
    let text = json!(MemberText { format: FORMAT, weight: info.weight, filled }).to_string();
    let over = over.map(|over| (over.uid.as_str(), &over.version));
    let mut patch = patch((group, name), over, &[(MEMBER, &text)]);
    patch["spec"] = json!({
        "holderIdentity": name,
        "leaseDurationSeconds": duration.as_secs(),
        "renewTime": MicroTime(now),
    });
    patch
}

/// Returns the new Lease with the table, or a patch of the Lease.
pub(crate) fn table_patch((group, name): (&str, &str), over: Option<&StoredTable>, table: &Table) -> Value {
    patch((group, name), over.map(|over| (over.uid.as_str(), &over.version)), &[(TABLE, &table.text())])
}

/// Returns the change that kills a member.
pub(crate) fn kill_patch(group: &str, kill: &Kill, killer: &str) -> Value {
    patch((group, &kill.member), Some((&kill.uid, &kill.version)), &[(KILLED_BY, killer)])
}

fn patch(
    (group, name): (&str, &str),
    over: Option<(&str, &ResourceVersion)>,
    annotations: &[(&str, &str)],
) -> Value {
    let annotations: serde_json::Map<String, Value> =
        annotations.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
    // The label is in each patch, because a user may have removed it.
    let labels = json!({GROUP_LABEL: group});
    let mut metadata = json!({"name": name, "labels": labels, "annotations": annotations});
    if let Some((uid, version)) = over {
        metadata["uid"] = json!(uid);
        metadata["resourceVersion"] = json!(version.as_str());
    }
    json!({"apiVersion": Lease::API_VERSION, "kind": Lease::KIND, "metadata": metadata})
}

fn annotation<'a>(lease: &'a DynamicObject, name: &str) -> Option<&'a str> {
    lease.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn uid(lease: &DynamicObject) -> String {
    lease.metadata.uid.clone().unwrap_or_default()
}

fn version(lease: &DynamicObject) -> ResourceVersion {
    ResourceVersion::new(lease.metadata.resource_version.as_deref().unwrap_or_default())
}
