//! Durations and ages in the short form of Kubernetes, such as `3d4h`.

use jiff::{SignedDuration, Timestamp};

use crate::schemas::kinds::times;

/// The longest duration of Go in seconds, about 292 years.
const MAX_SECONDS: i64 = i64::MAX / 1_000_000_000;

/// Parses a time. Returns `None` for an invalid time and for the zero time of Go.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let time = times::time(text).ok()?;
    time.parse().ok().filter(|_| time != ZERO)
}

pub(super) const ZERO: &str = "0001-01-01T00:00:00Z";

pub(super) fn since(then: Timestamp, now: Timestamp) -> String {
    short(now.duration_since(then))
}

/// Formats a duration. Only the two largest units are shown, and only while the larger unit is small.
pub(super) fn short(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().clamp(-MAX_SECONDS, MAX_SECONDS);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match seconds {
        ..=-2 => "<invalid>".into(),
        _ if duration.is_negative() => "0s".into(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => pair(days, "d", hours % 24, "h"),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => pair(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

fn pair(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_as_on_real_server() {
        let (minute, hour, day) = (60, 3600, 86_400);
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (10 * minute - 1, "9m59s"),
            (10 * minute, "10m"),
            (3 * hour - 1, "179m"),
            (3 * hour, "3h"),
            (8 * hour - 1, "7h59m"),
            (8 * hour, "8h"),
            (48 * hour - 1, "47h"),
            (2 * day, "2d"),
            (8 * day - 1, "7d23h"),
            (8 * day, "8d"),
            (730 * day - 1, "729d"),
            (730 * day, "2y"),
            (731 * day, "2y1d"),
            (8 * 365 * day - 1, "7y364d"),
            (8 * 365 * day, "8y"),
            (i64::MAX, "292y"),
        ] {
            assert_eq!(short(SignedDuration::from_secs(seconds)), text, "{seconds} s");
        }
    }

    #[test]
    fn zero_time_and_invalid_text_have_no_age() {
        assert_eq!(parse(ZERO), None);
        assert_eq!(parse("yesterday"), None);
        let then = parse("1970-01-01T00:00:00.5Z").unwrap();
        assert_eq!(since(then, Timestamp::constant(90, 0)), "90s");
        assert_eq!(since(Timestamp::constant(1, 500_000_000), Timestamp::UNIX_EPOCH), "0s");
    }
}
