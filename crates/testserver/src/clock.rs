//! The clock for timestamps in objects and for ages in tables. This is the only use of the wall clock.
//! Timers use tokio's time.

use std::sync::{Arc, mpsc};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

/// The earliest time in RFC 3339.
const YEAR_0: Timestamp = Timestamp::constant(-62_167_219_200, 0);

/// Selects the source of `creationTimestamp` and `deletionTimestamp`.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The system clock.
    #[default]
    Wall,
    /// A constant time. Two executions of a test then produce identical bytes.
    Fixed(Timestamp),
    /// A clock that starts at this time and advances with tokio's time. Tests can pause tokio's time.
    Tokio(Timestamp),
}

/// The clock of a server. Changes do not affect timers.
#[derive(Debug)]
pub(crate) struct RunningClock(Arc<Mutex<ClockSetting>>);

#[derive(Clone, Copy, Debug)]
struct ClockSetting {
    clock: Clock,
    since: Instant,
    ahead: SignedDuration,
}

impl From<Clock> for RunningClock {
    fn from(clock: Clock) -> Self {
        let setting = ClockSetting { clock, since: Instant::now(), ahead: SignedDuration::ZERO };
        Self(Arc::new(Mutex::new(setting)))
    }
}

/// The copy is independent of the original.
impl Clone for RunningClock {
    fn clone(&self) -> Self {
        Self(Arc::new(Mutex::new(*self.0.lock())))
    }
}

impl RunningClock {
    /// Returns another reference to this clock, which follows its changes.
    pub(crate) fn share(&self) -> Self {
        Self(self.0.clone())
    }

    /// Replaces the clock, and removes all jumps.
    pub(crate) fn set(&self, clock: Clock) {
        *self.0.lock() = ClockSetting { clock, since: Instant::now(), ahead: SignedDuration::ZERO };
    }

    /// Moves the clock. Several jumps add up.
    pub(crate) fn jump(&self, by: SignedDuration) {
        let mut setting = self.0.lock();
        setting.ahead = setting.ahead.saturating_add(by);
    }

    /// Returns the time in `after_seconds` as a timestamp of an object: RFC 3339 without fractions of a
    /// second.
    pub(crate) fn timestamp(&self, after_seconds: i64) -> String {
        self.after(SignedDuration::from_secs(after_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.after(SignedDuration::ZERO)
    }

    fn after(&self, by: SignedDuration) -> Timestamp {
        let ClockSetting { clock, since, ahead } = *self.0.lock();
        let now = match clock {
            Clock::Wall => Timestamp::now(),
            Clock::Fixed(at) => at,
            Clock::Tokio(from) => {
                let elapsed = SignedDuration::try_from(Instant::now().saturating_duration_since(since));
                from.saturating_add(elapsed.unwrap_or(SignedDuration::MAX)).unwrap_or(Timestamp::MAX)
            }
        };
        let by = ahead.saturating_add(by);
        // Clients cannot parse timestamps before the year 0.
        now.saturating_add(by).unwrap_or(now).max(YEAR_0)
    }
}

/// Prevents a paused clock of tokio from advancing by itself, until this value is dropped.
#[derive(Debug)]
pub(crate) struct HeldClock {
    held: mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl HeldClock {
    pub(crate) fn new() -> Self {
        let (held, released) = mpsc::channel();
        // tokio does not advance a paused clock while a blocking task runs.
        Self { held, task: spawn_blocking(move || released.recv().unwrap_or_default()) }
    }

    pub(crate) async fn release(self) {
        drop(self.held);
        // The task does not panic.
        let _ = self.task.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_clock_returns_seconds_in_utc() {
        let clock = RunningClock::from(Clock::Fixed(Timestamp::UNIX_EPOCH));
        assert_eq!(clock.timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(clock.timestamp(30), "1970-01-01T00:00:30Z");
    }

    #[tokio::test(start_paused = true)]
    async fn tokio_clock_follows_tokio_time_and_jumps() {
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
