//! The formats of single values.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use serde_json::Value;

use crate::wire::names::{self, NameRule, SUBDOMAIN};
use crate::wire::qualified::name_complaints;

/// A format of texts, and the range of numbers if the value can also be a number.
#[derive(Debug)]
pub(super) struct Format {
    word: &'static str,
    is_text: fn(&str) -> bool,
    numbers: RangeInclusive<i64>,
    pub text: &'static str,
}

const fn format(word: &'static str, is_text: fn(&str) -> bool, text: &'static str) -> Format {
    Format { word, is_text, numbers: i64::MIN..=i64::MAX, text }
}

const PERCENT: &str = "must be a number that is not negative, or a percentage such as '25%'";

static FORMATS: [Format; 14] = [
    format("subdomain", names::is_subdomain, SUBDOMAIN),
    format("label", names::is_label, "a lowercase RFC 1123 label is required"),
    // A subdomain that can start with `*.`.
    format("wildcard", |text| names::is_subdomain(text.strip_prefix("*.").unwrap_or(text)), SUBDOMAIN),
    format("qualified", |text| name_complaints(text).is_empty(), "must be a qualified name"),
    format("portname", is_port_name, "must be the name of a port"),
    Format { numbers: 1..=65_535, ..format("port", is_port_name, "must be the number or name of a port") },
    format("ip", |text| text.parse::<IpAddr>().is_ok(), "must be a valid IP address"),
    format("cidr", is_cidr, "must be a valid CIDR value"),
    // A part of a URL path.
    format("segment", |text| NameRule::Segment.complaints(text).is_empty(), "must not contain '/' or '%'"),
    // A key of a ConfigMap or Secret.
    format("key", is_key, "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"),
    format("cron", is_cron, "expected exactly 5 fields"),
    format("domainpath", is_domain_path, "must be a domain-prefixed path"),
    Format { numbers: 0..=i64::MAX, ..format("percent", is_percent, PERCENT) },
    // A quantity.
    format("positive", |text| !text.starts_with('-') && text != "0", "must be greater than zero"),
];

impl Format {
    pub(super) fn of(word: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.word == word)
    }

    /// Returns whether a value has the format. Values of other types are valid.
    pub(super) fn matches(&self, value: &Value) -> bool {
        match value {
            Value::Number(number) => number.as_i64().is_some_and(|number| self.numbers.contains(&number)),
            Value::String(text) => (self.is_text)(text),
            _ => true,
        }
    }
}

fn is_port_name(text: &str) -> bool {
    let has_letter = text.bytes().any(|byte| byte.is_ascii_lowercase());
    names::is_label(text) && text.len() <= 15 && !text.contains("--") && has_letter
}

pub(crate) fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        let max = if address.parse::<Ipv4Addr>().is_ok() { 32 } else { 128 };
        address.parse::<IpAddr>().is_ok() && bits.parse::<u8>().is_ok_and(|bits| bits <= max)
    })
}

fn is_key(text: &str) -> bool {
    let is_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.chars().all(is_char) && !text.starts_with("..")
}

fn is_domain_path(text: &str) -> bool {
    text.split_once('/').is_some_and(|(domain, path)| !path.is_empty() && names::is_subdomain(domain))
}

fn is_percent(text: &str) -> bool {
    text.strip_suffix('%').is_some_and(|digits| digits.parse::<u64>().is_ok())
}

/// Checks a schedule in the standard format, without the ranges of its numbers.
fn is_cron(text: &str) -> bool {
    if let Some(name) = text.strip_prefix('@') {
        let names = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        return names.contains(&name) || name.starts_with("every ");
    }
    let is_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '*' | '/' | ',' | '-' | '?');
    let fields: Vec<&str> = text.split_whitespace().collect();
    fields.len() == 5 && fields.iter().all(|field| field.chars().all(is_char))
}
