//! `Repairs`: finds objects whose applied fields another client changes again and again.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use super::applied::ApplyTarget;
use crate::log_throttle::LogThrottle;

/// The repairs of one object are counted within this time.
const WINDOW: Duration = Duration::from_secs(60);

/// A program that takes over an object repairs it once or twice.
const MAX_USUAL_REPAIRS: u32 = 2;

/// The maximum number of observed objects. Further objects are not observed until old repairs are forgotten.
const MAX_OBJECTS: usize = 1024;

/// The number of recent repairs by object.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    recent: HashMap<ApplyTarget, RecentRepairs>,
    next_sweep: Option<Instant>,
    log: LogThrottle,
}

#[derive(Debug)]
struct RecentRepairs {
    first: Instant,
    count: u32,
}

/// The repairs of an object that must be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnusualRepairs {
    /// The number of recent repairs of the object.
    pub(super) repairs: u32,
    /// The number of other objects with unusual repairs that were not logged.
    pub(super) suppressed: u64,
}

impl Repairs {
    /// Records that an apply restored fields of an object. Returns the repairs if they are now unusual, at
    /// most once per object and window, and once per interval of the log.
    pub(super) fn record(&mut self, target: ApplyTarget, now: Instant) -> Option<UnusualRepairs> {
        if self.next_sweep.is_none_or(|sweep| now >= sweep) {
            self.recent.retain(|_, repairs| now - repairs.first < WINDOW);
            self.next_sweep = Some(now + WINDOW);
        }
        if self.recent.len() >= MAX_OBJECTS && !self.recent.contains_key(&target) {
            return None;
        }
        let repairs = self.recent.entry(target).or_insert(RecentRepairs { first: now, count: 0 });
        if now - repairs.first >= WINDOW {
            *repairs = RecentRepairs { first: now, count: 0 };
        }
        repairs.count += 1;
        if repairs.count != MAX_USUAL_REPAIRS + 1 {
            return None;
        }
        let suppressed = self.log.allow(now)?;
        Some(UnusualRepairs { repairs: repairs.count, suppressed })
    }
}

#[cfg(test)]
mod tests {
    use kube_informer::ObjectKey;

    use super::*;
    use crate::write::requests::ObjectPart;

    fn target(name: &str) -> ApplyTarget {
        ApplyTarget::new("/api/v1/configmaps", ObjectPart::Main, &ObjectKey::new(Some("shop"), name))
    }

    fn repairs(repairs: u32, suppressed: u64) -> Option<UnusualRepairs> {
        Some(UnusualRepairs { repairs, suppressed })
    }

    #[test]
    fn third_repair_within_a_minute_is_reported_once() {
        let (mut recent, now) = (Repairs::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        let first = [0, 10, 20, 30].map(|time| recent.record(target("a"), at(time)));
        assert_eq!(first, [None, None, repairs(3, 0), None]);
        assert_eq!(recent.record(target("b"), at(40)), None, "another object");
        let later = [60, 61, 62].map(|time| recent.record(target("a"), at(time)));
        assert_eq!(later, [None, None, repairs(3, 0)]);
    }

    #[test]
    fn many_objects_are_reported_with_few_lines() {
        let (mut recent, now) = (Repairs::default(), Instant::now());
        let mut reported = Vec::new();
        for _ in 0..3 {
            let objects = 0..2 * MAX_OBJECTS;
            reported.extend(objects.filter_map(|number| recent.record(target(&number.to_string()), now)));
        }
        assert_eq!((reported, recent.recent.len()), (Vec::from_iter(repairs(3, 0)), MAX_OBJECTS));
        let later = now + Duration::from_secs(30);
        assert_eq!(recent.record(target("0"), later), None);
    }

    #[test]
    fn rare_repairs_are_not_reported_and_are_forgotten() {
        let (mut recent, now) = (Repairs::default(), Instant::now());
        for minute in 0..10 {
            assert_eq!(recent.record(target("a"), now + minute * WINDOW), None);
            assert_eq!(recent.record(target(&format!("b-{minute}")), now + minute * WINDOW), None);
        }
        assert_eq!(recent.recent.len(), 2);
    }
}
