//! The formats of single values.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;

use crate::wire::names::{self, NameRule};
use crate::wire::qualified::name_complaints;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Subdomain,
    Label,
    /// A subdomain that can start with `*.`.
    Wildcard,
    Qualified,
    /// A number from 1 to 65535, or the name of a port.
    Port,
    PortName,
    Ip,
    Cidr,
    /// A text of a URL path, without `/` and `%`.
    Segment,
    /// A key of a ConfigMap or Secret.
    Key,
    Cron,
    /// A domain, `/` and a path.
    DomainPath,
    /// A whole number that is not negative, or a percentage.
    IntOrPercent,
    /// A quantity greater than zero.
    Positive,
}

impl Format {
    pub(super) fn of(word: &str) -> Option<Self> {
        Some(match word {
            "subdomain" => Self::Subdomain,
            "label" => Self::Label,
            "wildcard" => Self::Wildcard,
            "qualified" => Self::Qualified,
            "port" => Self::Port,
            "portname" => Self::PortName,
            "ip" => Self::Ip,
            "cidr" => Self::Cidr,
            "segment" => Self::Segment,
            "key" => Self::Key,
            "cron" => Self::Cron,
            "domainpath" => Self::DomainPath,
            "percent" => Self::IntOrPercent,
            "positive" => Self::Positive,
            _ => return None,
        })
    }

    /// Returns the violations. Values of other types are valid.
    pub(super) fn complaints(self, value: &Value) -> Vec<String> {
        match (self, value) {
            (Self::Port, Value::Number(number)) => {
                let is_port = number.as_i64().is_some_and(|number| (1..=65535).contains(&number));
                complain(is_port, "must be between 1 and 65535, inclusive")
            }
            (Self::IntOrPercent, Value::Number(number)) => complain(
                number.as_i64().is_some_and(|number| number >= 0),
                "must be greater than or equal to 0",
            ),
            (_, Value::String(text)) => self.of_text(text),
            _ => Vec::new(),
        }
    }

    fn of_text(self, text: &str) -> Vec<String> {
        match self {
            Self::Subdomain => NameRule::Subdomain.complaints(text),
            Self::Wildcard => NameRule::Subdomain.complaints(text.strip_prefix("*.").unwrap_or(text)),
            Self::Label => complain(names::is_label(text), "a lowercase RFC 1123 label is required"),
            Self::Qualified => name_complaints(text),
            Self::Port | Self::PortName => complain(is_port_name(text), "must be the name of a port"),
            Self::Ip => complain(text.parse::<IpAddr>().is_ok(), "must be a valid IP address"),
            Self::Cidr => complain(is_cidr(text), "must be a valid CIDR value"),
            Self::Positive => complain(!text.starts_with('-') && text != "0", "must be greater than zero"),
            Self::Segment => NameRule::Segment.complaints(text),
            Self::Key => complain(is_key(text), "a valid config key must consist of alphanumeric characters"),
            Self::Cron => complain(is_cron(text), "expected exactly 5 fields"),
            Self::DomainPath => {
                let domain =
                    text.split_once('/').filter(|(_, path)| !path.is_empty()).map(|(domain, _)| domain);
                complain(domain.is_some_and(names::is_subdomain), "must be a domain-prefixed path")
            }
            Self::IntOrPercent => {
                let digits = text.strip_suffix('%').unwrap_or("");
                let is_percent = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                complain(
                    is_percent,
                    "a valid percent string must be a numeric string followed by an ending '%'",
                )
            }
        }
    }
}

fn complain(is_valid: bool, text: &str) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![text.to_owned()] }
}

fn is_port_name(text: &str) -> bool {
    names::is_label(text)
        && text.len() <= 15
        && !text.contains("--")
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
}

pub(super) fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        let max = if address.parse::<Ipv4Addr>().is_ok() { 32 } else { 128 };
        address.parse::<IpAddr>().is_ok() && bits.parse::<u8>().is_ok_and(|bits| bits <= max)
    })
}

fn is_key(text: &str) -> bool {
    let is_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.chars().all(is_char) && !text.starts_with("..")
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
