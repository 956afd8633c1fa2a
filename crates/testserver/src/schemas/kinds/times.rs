//! Times in seconds (in metadata) and in microseconds (in leases and events). They are stored in UTC.

use std::ops::RangeInclusive;

use jiff::ToSpan as _;
use jiff::civil::{Date, DateTime, Time};

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROSECONDS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Returns the stored form of a time, or the error message of Go's parser. Fractions of a second are
/// dropped.
pub(crate) fn time(text: &str) -> Result<String, String> {
    let time = read(text, SECONDS)?;
    // No other valid time has this length.
    if text.len() == "2006-01-02T15:04:05Z".len() {
        return Ok(text.into());
    }
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Returns the stored form of a time with microseconds, or the error message of Go's parser. The text
/// must contain six digits of a fraction.
pub(crate) fn micro_time(text: &str) -> Result<String, String> {
    let time = read(text, MICROSECONDS)?;
    if text.len() == "2006-01-02T15:04:05.000000Z".len() && !text.contains(',') {
        return Ok(text.into());
    }
    Ok(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
}

/// A text that is being parsed by its layout.
struct Reading<'a> {
    text: &'a str,
    layout: &'static str,
    rest: &'a str,
}

fn read(text: &str, layout: &'static str) -> Result<DateTime, String> {
    let mut reading = Reading { text, layout, rest: text };
    let year = reading.year()?;
    reading.skip("-")?;
    let month = reading.two_digits("01", "month", 1..=12)?;
    reading.skip("-")?;
    let day = reading.two_digits("02", "day", 0..=99)?;
    reading.skip("T")?;
    let hour = reading.hour()?;
    reading.skip(":")?;
    let minute = reading.two_digits("04", "minute", 0..=59)?;
    reading.skip(":")?;
    let second = reading.two_digits("05", "second", 0..=59)?;
    let nanosecond = reading.fraction()?;
    let offset = reading.offset()?;
    if !reading.rest.is_empty() {
        return Err(format!("parsing time {text:?}: extra text: {:?}", reading.rest));
    }
    let date = Date::new(year, month, day).map_err(|_| reading.out_of_range("day"))?;
    let time = Time::new(hour, minute, second, nanosecond).map_err(|_| reading.out_of_range("second"))?;
    date.to_datetime(time).checked_sub(offset.minutes()).map_err(|_| reading.out_of_range("year"))
}

impl<'a> Reading<'a> {
    fn refused(&self, rest: &str, part: &str) -> String {
        format!("parsing time {:?} as {:?}: cannot parse {rest:?} as {part:?}", self.text, self.layout)
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {:?}: {what} out of range", self.text)
    }

    /// Returns the next `count` bytes if all of them are digits.
    fn digits(&self, count: usize) -> Option<&'a str> {
        self.rest.get(..count).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    }

    fn take(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or("");
    }

    fn skip(&mut self, literal: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.refused(self.rest, literal))?;
        Ok(())
    }

    fn year(&mut self) -> Result<i16, String> {
        let year = self.digits(4).and_then(|digits| digits.parse().ok());
        let year = year.ok_or_else(|| self.refused(self.rest, "2006"))?;
        self.take(4);
        Ok(year)
    }

    fn two_digits(&mut self, part: &str, what: &str, range: RangeInclusive<i8>) -> Result<i8, String> {
        let number = self.digits(2).and_then(|digits| digits.parse().ok());
        let number = number.ok_or_else(|| self.refused(self.rest, part))?;
        if !range.contains(&number) {
            return Err(self.out_of_range(what));
        }
        self.take(2);
        Ok(number)
    }

    /// Reads the hour. Like Go, accepts an hour of one digit.
    fn hour(&mut self) -> Result<i8, String> {
        if self.digits(2).is_some() {
            return self.two_digits("15", "hour", 0..=23);
        }
        let hour = self.digits(1).and_then(|digit| digit.parse().ok());
        let hour = hour.ok_or_else(|| self.refused(self.rest, "15"))?;
        self.take(1);
        Ok(hour)
    }

    /// Reads the nanoseconds after the seconds: six digits if the layout contains them, otherwise any
    /// number.
    fn fraction(&mut self) -> Result<i32, String> {
        let exact = self.layout == MICROSECONDS;
        let digits = self.rest.strip_prefix(['.', ',']).unwrap_or("");
        let given = digits.bytes().take_while(u8::is_ascii_digit).count();
        let count = match (exact, given) {
            (true, 0..6) => return Err(self.refused(self.rest, ".000000")),
            (true, _) => 6,
            (false, 0) => return Ok(0),
            (false, _) => given,
        };
        self.take(1 + count);
        let nanoseconds: String =
            digits.chars().take(count.min(9)).chain("000000000".chars()).take(9).collect();
        // Nine digits fit into the type.
        Ok(nanoseconds.parse().unwrap_or(0))
    }

    /// Returns the offset from UTC in minutes.
    fn offset(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let number = |at: RangeInclusive<usize>| {
            let digits = self.rest.get(at).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            digits.and_then(|digits| digits.parse::<i64>().ok())
        };
        let (sign, colon) = (self.rest.get(..1), self.rest.get(3..4));
        let (Some(sign @ ("+" | "-")), Some(":"), Some(hours), Some(minutes)) =
            (sign, colon, number(1..=2), number(4..=5))
        else {
            return Err(self.refused(self.rest, "Z07:00"));
        };
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        self.take(6);
        let ahead = hours * 60 + minutes;
        Ok(if sign == "-" { -ahead } else { ahead })
    }
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
        assert_eq!(micro_time("2026-01-01T00:00:00,000001Z").as_deref(), Ok("2026-01-01T00:00:00.000001Z"));
        let detail = |text: &str| micro_time(text).unwrap_err();
        assert!(detail("2026-01-01T00:00:00Z").ends_with("cannot parse \"Z\" as \".000000\""));
        assert!(detail("2026-01-01T00:00:01.5Z").ends_with("cannot parse \".5Z\" as \".000000\""));
        assert!(detail("2026-01-01T00:00:00.123456789Z").ends_with("cannot parse \"789Z\" as \"Z07:00\""));
        assert!(detail("").ends_with("cannot parse \"\" as \"2006\""));
    }

    #[test]
    fn time_is_parsed_as_in_go() {
        for (text, stored) in [
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
            ("2026-01-01T02:00:00.999+02:30", "2025-12-31T23:30:00Z"),
            ("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00Z"),
            ("2026-02-28T23:00:00-01:00", "2026-03-01T00:00:00Z"),
            ("2026-01-01T7:00:00,5Z", "2026-01-01T07:00:00Z"),
        ] {
            assert_eq!(time(text).as_deref(), Ok(stored));
        }
    }

    #[test]
    fn time_errors_equal_go() {
        let layout = "2006-01-02T15:04:05Z07:00";
        for (text, rest, part) in [
            ("", "", "2006"),
            ("x", "x", "2006"),
            ("20200101", "0101", "-"),
            ("2020-1-01T00:00:00Z", "1-01T00:00:00Z", "01"),
            ("2020-01-01", "", "T"),
            ("2020-01-01T00:00:00", "", "Z07:00"),
            ("2020-01-01T00:00:00+1:00", "+1:00", "Z07:00"),
            ("2020-01-01T00:00:\u{fc}\u{fc}", "\u{fc}\u{fc}", "05"),
        ] {
            let detail = format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}");
            assert_eq!(time(text), Err(detail));
        }
        for (text, what) in [
            ("2020-13-01T00:00:00Z", "month out of range"),
            ("2020-02-30T00:00:00Z", "day out of range"),
            ("2020-01-01T25:00:00Z", "hour out of range"),
            ("2020-01-01T00:61:00Z", "minute out of range"),
            ("2020-01-01T00:00:00+25:00", "time zone offset hour out of range"),
            ("2020-01-01T00:00:00Zx", "extra text: \"x\""),
        ] {
            assert_eq!(time(text), Err(format!("parsing time {text:?}: {what}")));
        }
    }
}
