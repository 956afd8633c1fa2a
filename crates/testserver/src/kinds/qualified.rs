//! Keys and values of labels and annotations: what is wrong with one, in the words of the real server.

use crate::kinds::names::{SUBDOMAIN, is_subdomain};

const KEY_RULE: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start \
     and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
     is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
     'example.com/MyName')";
const NAME_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
     with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
     '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
     used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with a key; nothing if it is valid.
pub(crate) fn key_complaints(key: &str) -> Vec<String> {
    let (prefix, name) = match key.split('/').collect::<Vec<_>>().as_slice() {
        [name] => (None, *name),
        [prefix, name] => (Some(*prefix), *name),
        _ => return vec![KEY_RULE.to_owned()],
    };
    let mut complaints = Vec::new();
    match prefix {
        Some("") => complaints.push("prefix part must be non-empty".to_owned()),
        Some(prefix) if prefix.len() > 253 => {
            complaints.push("prefix part must be no more than 253 bytes".to_owned());
        }
        Some(prefix) if !is_subdomain(prefix) => complaints.push(format!("prefix part {SUBDOMAIN}")),
        _ => {}
    }
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        complaints.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_made_well(name) {
        complaints.push(NAME_RULE.to_owned());
    }
    complaints
}

/// What is wrong with a label's value; nothing if it is valid.
pub(crate) fn value_complaints(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.len() > 63 {
        complaints.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_made_well(value) {
        complaints.push(VALUE_RULE.to_owned());
    }
    complaints
}

/// Alphanumeric at both ends, and little else between.
fn is_made_well(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    edge(text.chars().next())
        && edge(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_a_name_and_perhaps_a_prefix() {
        for good in ["app", "example.com/app", "A.b_c-1"] {
            assert!(key_complaints(good).is_empty(), "{good}");
        }
        assert_eq!(key_complaints("a/b/c"), [KEY_RULE]);
        assert_eq!(key_complaints("/c"), ["prefix part must be non-empty"]);
        assert_eq!(key_complaints("a b"), [NAME_RULE]);
        assert_eq!(key_complaints("a/"), ["name part must be non-empty", NAME_RULE]);
        assert_eq!(key_complaints("A_B/c"), [format!("prefix part {SUBDOMAIN}")]);
        assert_eq!(key_complaints(&"x".repeat(64)), ["name part must be no more than 63 bytes"]);
    }

    #[test]
    fn values_may_be_empty() {
        assert!(value_complaints("").is_empty());
        assert_eq!(value_complaints("a/b"), [VALUE_RULE]);
    }
}
