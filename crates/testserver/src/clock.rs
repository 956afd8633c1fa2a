//! The one place where wall-clock time enters: timestamps inside objects. Timers use tokio's time.

use jiff::{SignedDuration, Timestamp};

/// Where `creationTimestamp` and `deletionTimestamp` come from.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The computer's clock.
    #[default]
    Wall,
    /// Always the same moment, so that a run can be repeated byte for byte.
    Fixed(Timestamp),
}

impl Clock {
    /// The moment, `after_seconds` from now, as objects carry it: RFC 3339 with whole seconds.
    pub(crate) fn timestamp(self, after_seconds: i64) -> String {
        let now = match self {
            Self::Wall => Timestamp::now(),
            Self::Fixed(at) => at,
        };
        let then = now.saturating_add(SignedDuration::from_secs(after_seconds)).unwrap_or(now);
        then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_clock_gives_whole_seconds_in_utc() {
        let clock = Clock::Fixed(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(clock.timestamp(30), "1970-01-01T00:00:30Z");
    }
}
