//! `Seldom`: how often a log may say the same.

use std::time::Duration;

use tokio::time::Instant;

/// Between two lines.
const BETWEEN: Duration = Duration::from_secs(10);

/// Lets a line pass from time to time, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    next: Option<Instant>,
    held_back: u64,
}

impl Seldom {
    /// Whether there is a line now; if so, how many others there were since the last one.
    pub(crate) fn line(&mut self, now: Instant) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            self.held_back += 1;
            return None;
        }
        self.next = Some(now + BETWEEN);
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttle_allows_one_line_per_ten_seconds() {
        let (mut seldom, now) = (Seldom::default(), Instant::now());
        let mut lines = Vec::new();
        for second in 0..25 {
            lines.extend(seldom.line(now + Duration::from_secs(second)).map(|others| (second, others)));
        }
        lines.extend(seldom.line(now + Duration::from_secs(1000)).map(|others| (1000, others)));
        assert_eq!(lines, [(0, 0), (10, 9), (20, 9), (1000, 4)]);
    }
}
