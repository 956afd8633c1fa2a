//! Times with microseconds, as leases and events carry them. They are stored in UTC.

use jiff::Timestamp;

const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// The time as it is stored, or why it is none, in the words of Go's parser.
pub(crate) fn micro_time(text: &str) -> Result<String, String> {
    let refused = |rest: &str, part: &str| {
        Err(format!("parsing time {text:?} as {LAYOUT:?}: cannot parse {rest:?} as {part:?}"))
    };
    let seconds = "2006-01-02T15:04:05".len();
    let Some((_, rest)) = text.split_at_checked(seconds) else { return refused(text, "2006") };
    let fraction = rest.strip_prefix('.').unwrap_or("");
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    if digits < 6 {
        return refused(rest, ".000000");
    }
    if digits > 6 {
        return refused(fraction.get(6..).unwrap_or(""), "Z07:00");
    }
    match text.parse::<Timestamp>() {
        Ok(time) => Ok(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()),
        Err(_) => refused(text, "2006"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_exactly_six_digits_after_its_seconds() {
        assert_eq!(micro_time("2026-01-01T00:00:00.000000Z").as_deref(), Ok("2026-01-01T00:00:00.000000Z"));
        assert_eq!(
            micro_time("2026-01-01T02:00:00.123456+02:00").as_deref(),
            Ok("2026-01-01T00:00:00.123456Z")
        );
        let why = |text: &str| micro_time(text).unwrap_err();
        assert!(why("2026-01-01T00:00:00Z").ends_with("cannot parse \"Z\" as \".000000\""));
        assert!(why("2026-01-01T00:00:01.5Z").ends_with("cannot parse \".5Z\" as \".000000\""));
        assert!(why("2026-01-01T00:00:00.123456789Z").ends_with("cannot parse \"789Z\" as \"Z07:00\""));
        assert!(why("").ends_with("cannot parse \"\" as \"2006\""));
    }
}
