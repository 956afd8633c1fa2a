//! The formats that kube-apiserver checks. The server ignores other formats.

use std::sync::LazyLock;

use regex::Regex;

use crate::wire::names::{is_label, is_subdomain};

/// The name of a text format without dashes, with its check.
type Format = (&'static str, fn(&str) -> bool);

/// The text formats.
const TEXTS: [Format; 25] = [
    ("bsonobjectid", |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit())),
    ("uri", is_uri),
    ("email", is_email),
    ("hostname", |text| text.len() <= 255 && fits(&HOSTNAME, text) && text.split('.').all(|p| p.len() <= 63)),
    ("ipv4", is_ipv4),
    ("ipv6", |text| text.parse::<std::net::Ipv6Addr>().is_ok()),
    ("cidr", is_cidr),
    ("mac", is_mac),
    ("uuid", |text| is_uuid(text, "", "")),
    ("uuid3", |text| is_uuid(text, "3", "")),
    ("uuid4", |text| is_uuid(text, "4", "89abAB")),
    ("uuid5", |text| is_uuid(text, "5", "89abAB")),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("creditcard", is_credit_card),
    ("ssn", |text| fits(&SSN, text)),
    ("hexcolor", |text| fits(&HEX_COLOR, text)),
    ("rgbcolor", |text| fits(&RGB_COLOR, text)),
    ("byte", |text| fits(&BASE64, text)),
    ("date", is_date),
    ("duration", is_duration),
    ("datetime", is_date_time),
    ("k8sshortname", is_label),
    ("k8slongname", is_subdomain_of_any_labels),
];

/// Returns whether the server checks this format of a text.
pub(crate) fn is_known(format: &str) -> bool {
    let plain = format.replace('-', "");
    plain == "password" || TEXTS.iter().any(|(name, _)| *name == plain)
}

/// Returns whether a text has a format. A text has each format that the server does not check.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    let plain = format.replace('-', "");
    TEXTS.iter().find(|(name, _)| *name == plain).is_none_or(|(_, check)| check(text))
}

/// A compiled pattern. A test compiles all patterns, so none is missing.
type Pattern = LazyLock<Option<Regex>>;

static HOSTNAME: Pattern = LazyLock::new(|| {
    Regex::new(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$",
    )
    .ok()
});
static CREDIT_CARD: Pattern = LazyLock::new(|| {
    Regex::new(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
    .ok()
});
static SSN: Pattern = LazyLock::new(|| Regex::new(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$").ok());
static HEX_COLOR: Pattern = LazyLock::new(|| Regex::new(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").ok());
static RGB_COLOR: Pattern = LazyLock::new(|| {
    let part = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*";
    Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
});
static BASE64: Pattern = LazyLock::new(|| {
    Regex::new(r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$").ok()
});
static CLOCK: Pattern = LazyLock::new(|| {
    Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok()
});
/// A duration of Go, such as `1h30m`.
static DURATION: Pattern =
    LazyLock::new(|| Regex::new(r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$").ok());
/// A duration of Scala, such as `2 days`. The check requires only one valid part.
static LONG_DURATION: Pattern = LazyLock::new(|| {
    let units = "ns|nano[a-z]*|us|µs|micro[a-z]*|ms|milli[a-z]*|s|sec[a-z]*|m|min[a-z]*|h|hr|hour[a-z]*|d|day[a-z]*|w|wk|week[a-z]*";
    Regex::new(&format!("(?i)[0-9]+ *({units})([^a-zµ]|$)")).ok()
});

fn fits(pattern: &Pattern, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

/// A URI of a request line: absolute, or a path.
fn is_uri(text: &str) -> bool {
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return false;
    }
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    let good = |scheme: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(inner)
    };
    text.starts_with('/') || scheme.is_some_and(good)
}

/// `a@b`, alone or as `Name <a@b>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(start), Some(open)) => open.get(start + 1..).unwrap_or(""),
        _ => text,
    };
    let word = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| !c.is_whitespace() && !matches!(c, '@' | '<' | '>' | ',' | '"'))
    };
    let dots = |part: &str| !part.starts_with('.') && !part.ends_with('.') && !part.contains("..");
    address
        .rsplit_once('@')
        .is_some_and(|(local, domain)| [local, domain].into_iter().all(|p| word(p) && dots(p)))
}

/// Four numbers. Leading zeros are permitted.
fn is_ipv4(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.len() <= 3 && part.parse::<u8>().is_ok();
    text.split('.').count() == 4 && text.split('.').all(number)
        || (text.contains('.') && text.parse::<std::net::Ipv6Addr>().is_ok())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let bits = if address.contains(':') { 128 } else { 32 };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let known = is_ipv4(address) || address.parse::<std::net::Ipv6Addr>().is_ok();
    known && digits && length.parse::<u16>().is_ok_and(|length| length <= bits)
}

/// 6, 8 or 20 bytes in hexadecimal, joined by colons, dashes, or in fours by dots.
fn is_mac(text: &str) -> bool {
    let hex =
        |size: usize| move |part: &str| part.len() == size && part.bytes().all(|b| b.is_ascii_hexdigit());
    let sizes = |by: char, size: usize| {
        let parts: Vec<&str> = text.split(by).collect();
        parts.iter().copied().all(hex(size)) && [6, 8, 20].contains(&(parts.len() * size / 2))
    };
    sizes(':', 2) || sizes('-', 2) || sizes('.', 4)
}

fn is_uuid(text: &str, version: &str, variants: &str) -> bool {
    let bytes = text.as_bytes();
    let (mut digits, mut at) = (Vec::new(), 0);
    for size in [8, 4, 4, 4, 12] {
        if !digits.is_empty() && bytes.get(at) == Some(&b'-') {
            at += 1;
        }
        let Some(part) = bytes.get(at..at + size) else { return false };
        digits.extend_from_slice(part);
        at += size;
    }
    let is = |place: usize, set: &str| {
        set.is_empty() || digits.get(place).is_some_and(|digit| set.as_bytes().contains(digit))
    };
    at == bytes.len() && digits.iter().all(u8::is_ascii_hexdigit) && is(12, version) && is(16, variants)
}

fn digits_of(text: &str) -> Vec<u32> {
    text.chars().filter_map(|c| c.to_digit(10)).collect()
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect()
}

fn is_isbn10(text: &str) -> bool {
    let plain = without_separators(text);
    let (body, last) = plain.split_at_checked(9).unwrap_or(("", ""));
    let check = if last == "X" { Some(10) } else { last.parse::<u32>().ok().filter(|_| last.len() == 1) };
    let body = if body.bytes().all(|byte| byte.is_ascii_digit()) { digits_of(body) } else { Vec::new() };
    let sum: u32 = body.iter().zip(1..).map(|(digit, weight)| digit * weight).sum();
    body.len() == 9 && check.is_some_and(|check| (sum + 10 * check).is_multiple_of(11))
}

fn is_isbn13(text: &str) -> bool {
    let plain = without_separators(text);
    let digits = digits_of(&plain);
    let weighted: u32 =
        digits.iter().zip([1, 3].into_iter().cycle()).map(|(digit, weight)| digit * weight).sum();
    plain.len() == 13 && digits.len() == 13 && weighted.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let plain: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let digits = digits_of(&plain).into_iter().rev().enumerate();
    let sum: u32 = digits.map(|(place, digit)| if place % 2 == 1 { doubled(digit) } else { digit }).sum();
    fits(&CREDIT_CARD, &plain) && sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    shape && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    let number = |range: std::ops::Range<usize>| time.get(range).and_then(|part| part.parse::<u8>().ok());
    let below = |range, limit| number(range).is_some_and(|number| number <= limit);
    is_date(date) && fits(&CLOCK, time) && below(0..2, 23) && below(3..5, 59) && below(6..8, 59)
}

fn is_duration(text: &str) -> bool {
    fits(&DURATION, text) || fits(&LONG_DURATION, text)
}

/// A subdomain whose labels may have any length.
fn is_subdomain_of_any_labels(text: &str) -> bool {
    let label = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && !part.starts_with('-') && !part.ends_with('-') && part.chars().all(inner)
    };
    is_subdomain(text) || (text.len() <= 253 && text.split('.').all(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        let all = [
            &HOSTNAME,
            &CREDIT_CARD,
            &SSN,
            &HEX_COLOR,
            &RGB_COLOR,
            &BASE64,
            &CLOCK,
            &DURATION,
            &LONG_DURATION,
        ];
        assert!(all.iter().all(|pattern| pattern.is_some()));
    }

    #[test]
    fn each_format_accepts_valid_and_rejects_invalid_texts() {
        for (format, good, bad) in [
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
            ("uri", "https://example.com/a?b", "no uri"),
            ("email", "Ann <ann@example.com>", "ann@"),
            ("hostname", "www.example.com", "a..b"),
            ("ipv4", "10.0.0.01", "10.0.0.256"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:1b:44:11:3a:b7", "00:1b:44"),
            ("uuid", "6BA7B810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
            ("uuid3", "6ba7b8109dad31d180b400c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            ("uuid4", "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "6ba7b810-9dad-41d1-00b4-00c04fd430c8"),
            ("uuid5", "6ba7b810-9dad-51d1-80b4-00c04fd430c8", "x"),
            ("isbn", "978-0321751041", "978-0321751042"),
            ("isbn10", "0321751043", "0321751044"),
            ("isbn13", "9780321751041", "0321751043"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("ssn", "078-05-1120", "078-05"),
            ("hexcolor", "#FFF", "#FFFF"),
            ("rgbcolor", "rgb(0, 128,255)", "rgb(0,128,256)"),
            ("byte", "aGk=", "aGk"),
            ("date", "2024-02-29", "2023-02-29"),
            ("duration", "1h30m", "soon"),
            ("duration", "2 days", "days"),
            ("date-time", "2024-02-29T23:59:59.5+01:00", "2024-02-29 23:59:59Z"),
            ("k8s-short-name", "a-1", "a.b"),
            ("k8s-long-name", "a-1.b", "A"),
        ] {
            assert!(is_known(format) && matches(format, good), "{format} {good}");
            assert!(!matches(format, bad), "{format} {bad}");
        }
        assert!(matches("password", "") && !is_known("semver"));
    }
}
