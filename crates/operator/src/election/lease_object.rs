//! The Lease as an object of the cluster: what counts of it, and how a write changes it.
//!
//! It is read as it comes, not as the type of k8s-openapi. Its times are for people and stay text: one that a library can't
//! read, such as the last day of the year 9999, must not keep everybody from leading. What others put into it is kept.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube_client::core::{ApiResource, DynamicObject};
use kube_informer::ResourceVersion;
use serde_json::{Value, json};

use super::lease::{Record, Write};

const STEP: SignedDuration = SignedDuration::from_micros(1);

/// Where Leases are.
pub(crate) fn leases() -> ApiResource {
    ApiResource::erase::<Lease>(&())
}

/// What counts of a Lease. One that says no duration, or none that can be, is taken for one that has expired.
pub(crate) fn record(lease: &DynamicObject) -> Record {
    let spec = &lease.data["spec"];
    let text = |name: &str| spec[name].as_str().unwrap_or_default().to_owned();
    let transitions = spec["leaseTransitions"].as_i64().and_then(|number| i32::try_from(number).ok());
    Record {
        uid: lease.metadata.uid.clone().unwrap_or_default(),
        version: ResourceVersion::new(lease.metadata.resource_version.as_deref().unwrap_or_default()),
        holder: text("holderIdentity"),
        duration: seconds(&spec["leaseDurationSeconds"]),
        transitions: transitions.unwrap_or_default(),
        renewed: text("renewTime"),
    }
}

/// A Lease has 32 bits for them: more could not be added to a time.
fn seconds(value: &Value) -> Duration {
    let seconds = value.as_u64().and_then(|seconds| u32::try_from(seconds).ok());
    Duration::from_secs(seconds.unwrap_or_default().into())
}

/// The Lease as this write makes it at this time, `before` being what is there.
pub(crate) fn written(before: DynamicObject, write: &Write, now: Timestamp) -> DynamicObject {
    let mut lease = before;
    lease.metadata.resource_version = write.over.as_ref().map(ResourceVersion::to_string);
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

/// What to write as the time after `last` was written. Whoever follows knows by another text that the holder lives: a clock
/// that stands still, or goes back by a little, must not give one again.
pub(crate) fn later(last: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let near = |last: &Timestamp| {
        (SignedDuration::ZERO..SignedDuration::from_secs(1)).contains(&last.duration_since(now))
    };
    last.filter(near).and_then(|last| last.checked_add(STEP).ok()).unwrap_or(now)
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

    fn write(holder: &str, acquires: bool) -> Write {
        let (holder, duration) = (holder.to_owned(), Duration::from_secs(15));
        Write { over: Some(7.into()), holder, duration, transitions: 4, acquires }
    }

    #[test]
    fn what_counts_is_read_whatever_the_times_are() {
        let spec = json!({"holderIdentity": "a", "leaseDurationSeconds": 9, "leaseTransitions": 3,
            "renewTime": "9999-12-31T23:59:59.000000Z", "acquireTime": 7});
        let record = record(&lease(&spec));
        assert_eq!((&*record.uid, record.version, &*record.holder), ("u", 7.into(), "a"));
        assert_eq!((record.duration, record.transitions), (Duration::from_secs(9), 3));
        assert_eq!(record.renewed, "9999-12-31T23:59:59.000000Z");
    }

    #[test]
    fn a_lease_without_a_duration_that_can_be_has_expired() {
        for spec in [
            json!(null),
            json!({}),
            json!({"leaseDurationSeconds": -1}),
            json!({"leaseDurationSeconds": u64::MAX}),
        ] {
            assert_eq!(record(&lease(&spec)).duration, Duration::ZERO);
            let written = written(lease(&spec), &write("b", true), Timestamp::UNIX_EPOCH);
            assert_eq!(record(&written).duration, Duration::from_secs(15));
        }
    }

    #[test]
    fn a_write_changes_what_is_its_own_and_keeps_the_rest() {
        let spec =
            json!({"holderIdentity": "a", "acquireTime": "long ago", "strategy": "OldestEmulationVersion"});
        let renewed = written(lease(&spec), &write("b", false), Timestamp::UNIX_EPOCH);
        let expected = json!({"holderIdentity": "b", "acquireTime": "long ago", "renewTime": "1970-01-01T00:00:00.000000Z",
            "leaseDurationSeconds": 15, "leaseTransitions": 4, "strategy": "OldestEmulationVersion"});
        assert_eq!((&renewed.data["spec"], &renewed.metadata), (&expected, &lease(&spec).metadata));
        let released = written(renewed, &write("", true), Timestamp::UNIX_EPOCH);
        assert_eq!(released.data["spec"].get("holderIdentity"), None);
        assert_eq!(released.data["spec"]["acquireTime"], "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn a_clock_that_stands_still_gives_no_time_twice() {
        let now = Timestamp::UNIX_EPOCH;
        let mut last = None;
        for micros in 0..10 {
            last = Some(later(last, now));
            assert_eq!(last, Some(now + STEP * micros));
        }
        let day = SignedDuration::from_hours(24);
        assert_eq!(later(last, now + day), now + day);
        assert_eq!(later(last, now - day), now - day, "one that was set right");
        assert_eq!(later(Some(Timestamp::MAX), Timestamp::MAX), Timestamp::MAX);
    }
}
