//! Times in seconds (in metadata) and in microseconds (in leases and events). They are stored in UTC.

use jiff::{Timestamp, civil::DateTime, tz::Offset};

/// Returns the stored form of a time, or an error message. Fractions of a second are dropped.
pub(crate) fn time(text: &str) -> Result<String, String> {
    let time = read(text, "2006-01-02T15:04:05Z07:00")?;
    // No other valid time has this length.
    if text.len() == "2006-01-02T15:04:05Z".len() {
        return Ok(text.into());
    }
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Returns the stored form of a time with microseconds, or an error message. The text must contain six
/// digits of a fraction.
pub(crate) fn micro_time(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    let time = read(text, LAYOUT)?;
    let fraction = text.get(19..).and_then(|rest| rest.strip_prefix('.')).unwrap_or("");
    if fraction.bytes().take_while(u8::is_ascii_digit).count() != 6 {
        return Err(format!("parsing time {text:?} as {LAYOUT:?}: expected six digits of a fraction"));
    }
    if text.ends_with('Z') {
        return Ok(text.into());
    }
    Ok(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
}

/// Parses a time of RFC 3339, and returns it in UTC. The layout is part of the error message.
fn read(text: &str, layout: &str) -> Result<DateTime, String> {
    let is_strict = text.get(10..11) == Some("T");
    let time = match text.strip_suffix('Z') {
        // The last day of the year 9999 is no `Timestamp`, but programs use it as "never".
        Some(local) if text.get(11..).is_some_and(|rest| !rest.contains(['+', '-'])) => local.parse().ok(),
        Some(_) => None,
        None => text.parse::<Timestamp>().ok().map(|time| Offset::UTC.to_datetime(time)),
    };
    let is_complete = text.trim_end_matches('Z').ends_with(|c: char| c.is_ascii_digit());
    time.filter(|_| is_strict && is_complete && text.len() >= "2006-01-02T15:04:05Z".len())
        .ok_or_else(|| format!("parsing time {text:?} as {layout:?}: cannot parse the time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_time_requires_six_fraction_digits() {
        assert_eq!(micro_time("2026-01-01T00:00:00.000000Z").as_deref(), Ok("2026-01-01T00:00:00.000000Z"));
        assert_eq!(
            micro_time("2026-01-01T02:00:00.123456+02:00").as_deref(),
            Ok("2026-01-01T00:00:00.123456Z")
        );
        for text in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:01.5Z", "2026-01-01T00:00:00.123456789Z", ""] {
            assert!(micro_time(text).unwrap_err().starts_with("parsing time "), "{text}");
        }
    }

    #[test]
    fn time_is_stored_in_utc() {
        for (text, stored) in [
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
            ("2026-01-01T02:00:00.999+02:30", "2025-12-31T23:30:00Z"),
            ("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
            ("2026-02-28T23:00:00-01:00", "2026-03-01T00:00:00Z"),
        ] {
            assert_eq!(time(text).as_deref(), Ok(stored));
        }
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in [
            "",
            "x",
            "20200101",
            "2020-1-01T00:00:00Z",
            "2020-01-01",
            "2020-01-01T00:00:00",
            "2020-01-01 00:00:00Z",
            "2020-01-01T00:00:\u{fc}\u{fc}",
            "2020-02-30T00:00:00Z",
            "2020-01-01T25:00:00Z",
            "2020-01-01T00:00:00Zx",
            "2020-01-01T00:00:00ZZ",
            "2020-01-01T00:00:00+02:00Z",
            "2020-01-01T00:00Z",
        ] {
            assert!(time(text).unwrap_err().starts_with("parsing time "), "{text}");
        }
    }
}
