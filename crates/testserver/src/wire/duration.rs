//! Parses durations in Go's format, such as `1m30s`, with the error messages of Go.

use std::time::Duration;

/// The maximum of a Go duration, in nanoseconds.
const MAX_NANOSECONDS: u128 = i64::MAX as u128;

/// The number of used digits of a fraction. Further digits are less than a nanosecond, even of an hour.
const MAX_FRACTION_DIGITS: usize = 18;

/// Parses a duration. Returns `None` if the duration is not positive.
///
/// # Errors
/// Returns the error message of Go's parser.
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
        total += scaled(whole, fraction, unit).ok_or_else(invalid)?;
        if total > MAX_NANOSECONDS + u128::from(negative) {
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
        // The micro sign and the Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Multiplies a number by its unit in nanoseconds. Returns `None` if the number is too large.
fn scaled(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    let number = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u64>().ok() };
    let fraction = fraction.get(..MAX_FRACTION_DIGITS).unwrap_or(fraction);
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some(u128::from(number(whole)?) * unit + u128::from(number(fraction)?) * unit / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_durations_have_the_value_of_go() {
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
    fn invalid_durations_return_the_error_message_of_go() {
        for (text, message) in [
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
            assert_eq!(parse(text), Err(message.to_owned()), "{text}");
        }
    }
}
