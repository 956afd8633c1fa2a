//! Durations as Go writes them (`1m30s`), and its complaints about what is none.

use std::time::Duration;

/// The most nanoseconds that Go's durations hold.
const LONGEST: u128 = i64::MAX as u128;

/// Digits of a fraction behind these are less than a nanosecond of an hour.
const FRACTION_DIGITS: usize = 18;

/// Reads a duration; `None` where it is not positive.
///
/// # Errors
/// What Go's parser says.
pub(crate) fn parse(text: &str) -> Result<Option<Duration>, String> {
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(None);
    }
    let invalid = || format!("time: invalid duration {text:?}");
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end).unwrap_or((after, ""));
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let unit =
            nanoseconds(unit).ok_or_else(|| format!("time: unknown unit {unit:?} in duration {text:?}"))?;
        total += part(whole, fraction, unit).ok_or_else(invalid)?;
        if total > LONGEST + u128::from(negative) {
            return Err(invalid());
        }
        rest = after;
    }
    let positive = u64::try_from(total).ok().filter(|nanos| !negative && *nanos > 0);
    Ok(positive.map(Duration::from_nanos))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

fn nanoseconds(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        // With the micro sign and with the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// One number with its unit in nanoseconds; `None` where it is too large.
fn part(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    let number = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u64>().ok() };
    let fraction = fraction.get(..FRACTION_DIGITS).unwrap_or(fraction);
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some(u128::from(number(whole)?) * unit + u128::from(number(fraction)?) * unit / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5ms", 500_000),
            ("1.s", 1_000_000_000),
            ("+2us3ns", 2_003),
            ("1\u{b5}s", 1_000),
            ("9223372036854775807ns", 9_223_372_036_854_775_807),
        ] {
            assert_eq!(parse(text), Ok(Some(Duration::from_nanos(nanos))), "{text}");
        }
        for text in ["0", "-0", "0s", "-5s", "0.1ns", "-9223372036854775808ns"] {
            assert_eq!(parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_in_the_words_of_go() {
        for (text, why) in [
            ("", "time: invalid duration \"\""),
            ("x", "time: invalid duration \"x\""),
            (".s", "time: invalid duration \".s\""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("99999999999h", "time: invalid duration \"99999999999h\""),
            ("1", "time: missing unit in duration \"1\""),
            ("1.5.5s", "time: missing unit in duration \"1.5.5s\""),
            ("1hh", "time: unknown unit \"hh\" in duration \"1hh\""),
            ("1 s", "time: unknown unit \" s\" in duration \"1 s\""),
        ] {
            assert_eq!(parse(text), Err(why.to_owned()), "{text}");
        }
    }
}
