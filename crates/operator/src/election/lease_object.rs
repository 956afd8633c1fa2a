//! Conversion between a Lease object and the fields that decide the election.
//!
//! The Lease is read as a dynamic object, not as the type of k8s-openapi. Its times are for people and
//! stay text: a time that a library cannot parse, such as the last day of the year 9999, must not block
//! every candidate. A write keeps all fields that other programs added.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube_client::core::{ApiResource, DynamicObject};
use kube_informer::ResourceVersion;
use serde_json::{Value, json};

use super::lease::{LeaseRecord, LeaseWrite};

/// Resolution of the times in a Lease.
const ONE_MICROSECOND: SignedDuration = SignedDuration::from_micros(1);

/// Returns the API resource of Leases.
pub(crate) fn lease_resource() -> ApiResource {
    ApiResource::erase::<Lease>(&())
}

/// Returns the fields that decide the election. A Lease without a valid duration counts as expired.
pub(crate) fn parse_record(lease: &DynamicObject) -> LeaseRecord {
    let spec = &lease.data["spec"];
    let text = |name: &str| spec[name].as_str().unwrap_or_default().to_owned();
    let transitions = spec["leaseTransitions"].as_i64().and_then(|number| i32::try_from(number).ok());
    LeaseRecord {
        uid: lease.metadata.uid.clone().unwrap_or_default(),
        version: ResourceVersion::new(lease.metadata.resource_version.as_deref().unwrap_or_default()),
        holder: text("holderIdentity"),
        duration: parse_seconds(&spec["leaseDurationSeconds"]),
        transitions: transitions.unwrap_or_default(),
        renewed: text("renewTime"),
    }
}

/// Parses the 32-bit number of seconds in a Lease. A larger number could overflow when added to a time.
fn parse_seconds(value: &Value) -> Duration {
    let seconds = value.as_u64().and_then(|seconds| u32::try_from(seconds).ok());
    Duration::from_secs(seconds.unwrap_or_default().into())
}

/// Returns the Lease `before` with the changes of `write`, which happens at `now`.
pub(crate) fn apply_write(before: DynamicObject, write: &LeaseWrite, now: Timestamp) -> DynamicObject {
    let mut lease = before;
    lease.metadata.resource_version = write.over.as_ref().map(|version| version.as_str().into_owned());
    if !lease.data.is_object() {
        lease.data = json!({});
    }
    let spec = &mut lease.data["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    let now = json!(MicroTime(now));
    spec["leaseDurationSeconds"] = write.duration.as_secs().into();
    spec["leaseTransitions"] = write.transitions.into();
    if write.acquires {
        spec["acquireTime"] = now.clone();
    }
    spec["renewTime"] = now;
    if !write.holder.is_empty() {
        spec["holderIdentity"] = write.holder.clone().into();
    } else if let Some(spec) = spec.as_object_mut() {
        spec.remove("holderIdentity");
    }
    lease
}

/// Returns the time to write after `last` was written. Followers detect a renewal by a different text.
/// The text must therefore differ even if the clock stops or is set back a little.
pub(crate) fn next_renew_time(last: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let is_near = |last: &Timestamp| {
        (SignedDuration::ZERO..SignedDuration::from_secs(1)).contains(&last.duration_since(now))
    };
    last.filter(is_near).and_then(|last| last.checked_add(ONE_MICROSECOND).ok()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(spec: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "operator", "uid": "u", "resourceVersion": "7", "labels": {"team": "shop"}},
            "spec": spec,
        }))
        .unwrap()
    }

    fn write(holder: &str, acquires: bool) -> LeaseWrite {
        let (holder, duration) = (holder.to_owned(), Duration::from_secs(15));
        LeaseWrite { over: Some(7.into()), holder, duration, transitions: 4, acquires }
    }

    #[test]
    fn unreadable_times_do_not_block_parsing() {
        let spec = json!({"holderIdentity": "a", "leaseDurationSeconds": 9, "leaseTransitions": 3,
            "renewTime": "9999-12-31T23:59:59.000000Z", "acquireTime": 7});
        let record = parse_record(&lease(&spec));
        assert_eq!((&*record.uid, record.version, &*record.holder), ("u", 7.into(), "a"));
        assert_eq!((record.duration, record.transitions), (Duration::from_secs(9), 3));
        assert_eq!(record.renewed, "9999-12-31T23:59:59.000000Z");
    }

    #[test]
    fn lease_without_valid_duration_is_expired() {
        for spec in [
            json!(null),
            json!({}),
            json!({"leaseDurationSeconds": -1}),
            json!({"leaseDurationSeconds": u64::MAX}),
        ] {
            assert_eq!(parse_record(&lease(&spec)).duration, Duration::ZERO);
            let written = apply_write(lease(&spec), &write("b", true), Timestamp::UNIX_EPOCH);
            assert_eq!(parse_record(&written).duration, Duration::from_secs(15));
        }
    }

    #[test]
    fn write_preserves_fields_of_other_programs() {
        let spec =
            json!({"holderIdentity": "a", "acquireTime": "long ago", "strategy": "OldestEmulationVersion"});
        let renewed = apply_write(lease(&spec), &write("b", false), Timestamp::UNIX_EPOCH);
        let expected = json!({"holderIdentity": "b", "acquireTime": "long ago", "renewTime": "1970-01-01T00:00:00.000000Z",
            "leaseDurationSeconds": 15, "leaseTransitions": 4, "strategy": "OldestEmulationVersion"});
        assert_eq!((&renewed.data["spec"], &renewed.metadata), (&expected, &lease(&spec).metadata));
        let released = apply_write(renewed, &write("", true), Timestamp::UNIX_EPOCH);
        assert_eq!(released.data["spec"].get("holderIdentity"), None);
        assert_eq!(released.data["spec"]["acquireTime"], "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn renew_time_is_unique_if_clock_stops() {
        let now = Timestamp::UNIX_EPOCH;
        let mut last = None;
        for micros in 0..10 {
            last = Some(next_renew_time(last, now));
            assert_eq!(last, Some(now + ONE_MICROSECOND * micros));
        }
        let day = SignedDuration::from_hours(24);
        assert_eq!(next_renew_time(last, now + day), now + day);
        assert_eq!(next_renew_time(last, now - day), now - day, "the clock was corrected");
        assert_eq!(next_renew_time(Some(Timestamp::MAX), Timestamp::MAX), Timestamp::MAX);
    }
}
