//! The one place where wall-clock time enters: timestamps inside objects. Timers use tokio's time.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The first moment that RFC 3339 can write.
const YEAR_0: Timestamp = Timestamp::constant(-62_167_219_200, 0);

/// Where `creationTimestamp` and `deletionTimestamp` come from.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The computer's clock.
    #[default]
    Wall,
    /// Always the same moment, so that a run can be repeated byte for byte.
    Fixed(Timestamp),
    /// This moment to begin with; it goes on with tokio's time, also where that is paused.
    Tokio(Timestamp),
}

/// A server's clock, which can be set and can jump while timers go on.
#[derive(Debug)]
pub(crate) struct RunningClock(Mutex<Setting>);

#[derive(Clone, Copy, Debug)]
struct Setting {
    clock: Clock,
    since: Instant,
    ahead: SignedDuration,
}

impl From<Clock> for RunningClock {
    fn from(clock: Clock) -> Self {
        Self(Mutex::new(Setting { clock, since: Instant::now(), ahead: SignedDuration::ZERO }))
    }
}

/// The copy runs on its own.
impl Clone for RunningClock {
    fn clone(&self) -> Self {
        Self(Mutex::new(*self.0.lock()))
    }
}

impl RunningClock {
    /// Shows this time from now on.
    pub(crate) fn set(&self, clock: Clock) {
        *self.0.lock() = Setting { clock, since: Instant::now(), ahead: SignedDuration::ZERO };
    }

    /// Jumps; jumps add up.
    pub(crate) fn jump(&self, by: SignedDuration) {
        let mut setting = self.0.lock();
        setting.ahead = setting.ahead.saturating_add(by);
    }

    /// The moment, `after_seconds` from now, as objects carry it: RFC 3339 with whole seconds.
    pub(crate) fn timestamp(&self, after_seconds: i64) -> String {
        let Setting { clock, since, ahead } = *self.0.lock();
        let shown = match clock {
            Clock::Wall => Timestamp::now(),
            Clock::Fixed(at) => at,
            Clock::Tokio(from) => {
                let passed = SignedDuration::try_from(Instant::now().saturating_duration_since(since));
                from.saturating_add(passed.unwrap_or(SignedDuration::MAX)).unwrap_or(Timestamp::MAX)
            }
        };
        let by = ahead.saturating_add(SignedDuration::from_secs(after_seconds));
        // No further back: what is before the year 0 has no timestamp that clients read.
        let then = shown.saturating_add(by).unwrap_or(shown).max(YEAR_0);
        then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_clock_gives_whole_seconds_in_utc() {
        let clock = RunningClock::from(Clock::Fixed(Timestamp::UNIX_EPOCH));
        assert_eq!(clock.timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(clock.timestamp(30), "1970-01-01T00:00:30Z");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_goes_on_with_tokio_and_jumps_without_it() {
        let clock = RunningClock::from(Clock::Tokio(Timestamp::UNIX_EPOCH));
        tokio::time::advance(tokio::time::Duration::from_secs(90)).await;
        assert_eq!(clock.timestamp(0), "1970-01-01T00:01:30Z");
        clock.jump(SignedDuration::from_hours(2));
        clock.jump(SignedDuration::from_hours(-1));
        assert_eq!(clock.timestamp(0), "1970-01-01T01:01:30Z");
        let copy = clock.clone();
        clock.set(Clock::Fixed(Timestamp::UNIX_EPOCH));
        assert_eq!(clock.timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(copy.timestamp(0), "1970-01-01T01:01:30Z");
    }
}
