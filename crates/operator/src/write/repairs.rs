//! `Repairs`: finds objects whose applied fields another client changes again and again.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use super::applied::ApplyTarget;

/// The repairs of one object are counted within this time.
const WINDOW: Duration = Duration::from_secs(60);

/// A program that takes over an object repairs it once or twice.
const MAX_USUAL_REPAIRS: u32 = 2;

/// The number of recent repairs by object. It contains only objects of the last two windows.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    recent: HashMap<ApplyTarget, RecentRepairs>,
    next_sweep: Option<Instant>,
}

#[derive(Debug)]
struct RecentRepairs {
    first: Instant,
    count: u32,
}

impl Repairs {
    /// Records that an apply restored fields of an object. Returns the number of recent repairs if it is
    /// now unusual. This happens at most once per object and window.
    pub(super) fn record(&mut self, target: ApplyTarget, now: Instant) -> Option<u32> {
        if self.next_sweep.is_none_or(|sweep| now >= sweep) {
            self.recent.retain(|_, repairs| now - repairs.first < WINDOW);
            self.next_sweep = Some(now + WINDOW);
        }
        let repairs = self.recent.entry(target).or_insert(RecentRepairs { first: now, count: 0 });
        if now - repairs.first >= WINDOW {
            *repairs = RecentRepairs { first: now, count: 0 };
        }
        repairs.count += 1;
        (repairs.count == MAX_USUAL_REPAIRS + 1).then_some(repairs.count)
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

    #[test]
    fn third_repair_within_a_minute_is_reported_once() {
        let (mut repairs, now) = (Repairs::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(
            [0, 10, 20, 30].map(|time| repairs.record(target("a"), at(time))),
            [None, None, Some(3), None]
        );
        assert_eq!(repairs.record(target("b"), at(40)), None, "another object");
        assert_eq!([60, 61, 62].map(|time| repairs.record(target("a"), at(time))), [None, None, Some(3)]);
    }

    #[test]
    fn rare_repairs_are_not_reported_and_are_forgotten() {
        let (mut repairs, now) = (Repairs::default(), Instant::now());
        for minute in 0..10 {
            assert_eq!(repairs.record(target("a"), now + minute * WINDOW), None);
            assert_eq!(repairs.record(target(&format!("b-{minute}")), now + minute * WINDOW), None);
        }
        assert_eq!(repairs.recent.len(), 2);
    }
}
