//! `Rotation`: replaces the certificate of webhooks in steps. No request fails during these steps.
//!
//! kube-apiserver verifies a webhook with the CA bundle in its configuration, which it reads from a cache.
//! A new certificate is therefore published in the bundles first, and is served only later:
//!
//! 1. `Publish`: create the next certificate. The bundle contains both.
//! 2. `Promote`: serve the next certificate. The bundle still contains both, because some replicas still
//!    serve the old certificate.
//! 3. `Retire`: the bundle contains only the current certificate.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The times of a rotation, stored with the certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rotation {
    /// The time at which the current certificate was created.
    pub(super) created: Timestamp,
    pub(super) stage: Stage,
    /// The start of the stage.
    pub(super) since: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Stage {
    /// There is one certificate.
    Stable,
    /// The next certificate is in the bundle, and is not served.
    Published,
    /// The current certificate is served, and the bundle also contains the previous one.
    Promoted,
}

/// A change of the certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Replaces the certificate immediately, because it expired. Earlier requests fail.
    Replace,
    Publish,
    Promote,
    Retire,
}

/// The durations of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    /// The validity of a certificate.
    pub(super) validity: Duration,
    /// The duration of each of the stages `Published` and `Promoted`.
    pub(super) publish_delay: Duration,
}

impl Rotation {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { created: now, stage: Stage::Stable, since: now }
    }

    /// Returns the step to take now. `is_injected` is true if all configurations contain the bundle.
    /// Otherwise, the certificates must not change.
    pub(super) fn due(&self, schedule: Schedule, now: Timestamp, is_injected: bool) -> Option<Step> {
        let passed = |since: Timestamp, time: Duration| {
            now.duration_since(since) >= SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
        };
        let has_passed = || is_injected && passed(self.since, schedule.publish_delay);
        match self.stage {
            Stage::Stable | Stage::Promoted if passed(self.created, schedule.validity) => Some(Step::Replace),
            Stage::Stable => {
                (is_injected && passed(self.created, schedule.validity / 3 * 2)).then_some(Step::Publish)
            }
            Stage::Published => has_passed().then_some(Step::Promote),
            Stage::Promoted => has_passed().then_some(Step::Retire),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const SCHEDULE: Schedule = Schedule { validity: Duration::from_secs(300 * 3600), publish_delay: HOUR };

    fn after(hours: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours)
    }

    #[test]
    fn stages_follow_each_other() {
        let mut rotation = Rotation::new(after(0));
        assert_eq!(rotation.due(SCHEDULE, after(199), true), None);
        assert_eq!(rotation.due(SCHEDULE, after(200), true), Some(Step::Publish));
        assert_eq!(rotation.due(SCHEDULE, after(200), false), None);
        (rotation.stage, rotation.since) = (Stage::Published, after(200));
        assert_eq!(rotation.due(SCHEDULE, after(200), true), None);
        assert_eq!(rotation.due(SCHEDULE, after(201), false), None);
        assert_eq!(rotation.due(SCHEDULE, after(201), true), Some(Step::Promote));
        (rotation.created, rotation.stage, rotation.since) = (after(200), Stage::Promoted, after(201));
        assert_eq!(rotation.due(SCHEDULE, after(201), true), None);
        assert_eq!(rotation.due(SCHEDULE, after(202), true), Some(Step::Retire));
        assert_eq!(rotation.due(SCHEDULE, after(500), false), Some(Step::Replace));
    }

    proptest! {
        /// A clock that jumps back delays a step, and never causes one.
        #[test]
        fn clock_before_the_last_step_causes_no_step(created in 0..1000_i64, back in 1..1000_i64) {
            for stage in [Stage::Stable, Stage::Published, Stage::Promoted] {
                let rotation = Rotation { created: after(created), stage, since: after(created) };
                prop_assert_eq!(rotation.due(SCHEDULE, after(created - back), true), None);
            }
        }
    }
}
