//! `LogThrottle`: limits how often a message is logged.

use std::time::Duration;

use tokio::time::Instant;

/// The minimum time between two lines.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Allows one line per interval, and counts suppressed lines.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    next: Option<Instant>,
    suppressed: u64,
}

impl LogThrottle {
    /// Allows the next line immediately.
    pub(crate) fn reset(&mut self) {
        self.next = None;
    }

    /// Returns the number of suppressed lines if a line may be logged now, otherwise `None`.
    pub(crate) fn allow(&mut self, now: Instant) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            self.suppressed += 1;
            return None;
        }
        self.next = Some(now + LOG_INTERVAL);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttle_allows_one_line_per_ten_seconds() {
        let (mut throttle, now) = (LogThrottle::default(), Instant::now());
        let mut lines = Vec::new();
        for second in 0..25 {
            lines.extend(
                throttle.allow(now + Duration::from_secs(second)).map(|suppressed| (second, suppressed)),
            );
        }
        lines.extend(throttle.allow(now + Duration::from_secs(1000)).map(|suppressed| (1000, suppressed)));
        assert_eq!(lines, [(0, 0), (10, 9), (20, 9), (1000, 4)]);
    }
}
