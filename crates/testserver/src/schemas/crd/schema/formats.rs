//! The formats that the server checks. It ignores other formats.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::schemas::rules::formats::is_cidr;
use crate::wire::names::{is_label, is_subdomain};

type Check = fn(&str) -> bool;

const FUNCTIONS: [(&str, Check); 7] = [
    ("cidr", is_cidr),
    ("date", is_date),
    ("datetime", is_date_time),
    ("ipv4", |text| text.parse::<Ipv4Addr>().is_ok()),
    ("ipv6", |text| text.parse::<Ipv6Addr>().is_ok()),
    ("k8slongname", is_subdomain),
    ("k8sshortname", is_label),
];

const PATTERNS: [(&str, &str); 7] = [
    ("uri", r"^(/|[A-Za-z][A-Za-z0-9+.-]*:)[^\s\x00-\x1f\x7f]*$"),
    ("email", r#"^\s*([^<>]*<)?[^\s@<>,"]+@[^\s@<>,"]+>?\s*$"#),
    (
        "hostname",
        r"^[a-zA-Z0-9\p{S}\p{L}]([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?(\.[a-zA-Z0-9\p{S}\p{L}]([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)*$",
    ),
    ("mac", r"^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$"),
    ("uuid", r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
    ("byte", r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"),
    // A duration of Go, such as `1h30m`, or words such as `2 days`.
    (
        "duration",
        r"(?i)^([-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)|([0-9]+ *((nano|micro|milli|sec|min|hour|day|week)[a-z]*|hr|d|w|wk) *)+)$",
    ),
];

/// The time of a date with a time, in lower case.
const CLOCK: &str = r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$";

/// The compiled patterns by format. A test compiles all patterns, so none is missing.
static COMPILED: LazyLock<HashMap<&str, Regex>> = LazyLock::new(|| {
    let all = PATTERNS.into_iter().chain([("clock", CLOCK)]);
    all.filter_map(|(format, pattern)| Some((format, Regex::new(pattern).ok()?))).collect()
});

/// Returns whether a text has a format. A text has each format that the server does not check.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    let plain = format.replace('-', "");
    match FUNCTIONS.iter().find(|(name, _)| *name == plain) {
        Some((_, check)) => check(text),
        None => !PATTERNS.iter().any(|(name, _)| *name == plain) || fits(&plain, text),
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    COMPILED.get(pattern).is_some_and(|pattern| pattern.is_match(text))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    lower.split_once('t').is_some_and(|(date, time)| is_date(date) && fits("clock", time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(COMPILED.len(), PATTERNS.len() + 1);
    }

    #[test]
    fn each_format_accepts_valid_and_rejects_invalid_texts() {
        for (format, good, bad) in [
            ("uri", "https://example.com/a?b", "no uri"),
            ("email", "Ann <ann@example.com>", "ann@"),
            ("hostname", "www.example.com", "a..b"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:1b:44:11:3a:b7", "00:1b:44"),
            ("uuid", "6BA7B810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
            ("byte", "aGk=", "aGk"),
            ("date", "2024-02-29", "2023-02-29"),
            ("duration", "1h30m", "soon"),
            ("duration", "2 days", "days"),
            ("date-time", "2024-02-29T23:59:59.5+01:00", "2024-02-29 23:59:59Z"),
            ("k8s-short-name", "a-1", "a.b"),
            ("k8s-long-name", "a-1.b", "A"),
        ] {
            assert!(matches(format, good), "{format} {good}");
            assert!(!matches(format, bad), "{format} {bad}");
        }
        assert!(matches("password", "") && matches("semver", "x"));
    }
}
