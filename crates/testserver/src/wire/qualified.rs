//! Qualified names, such as `example.com/name`: the keys of labels and annotations, and finalizers.

use crate::wire::names::{SUBDOMAIN, is_subdomain};

const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SLASHES: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start \
     and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
     is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
     'example.com/MyName')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
     for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns whether the text starts and ends with an alphanumeric character. Between them, `-`, `_` and
/// `.` are also permitted.
fn is_word(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    edge(text.chars().next())
        && edge(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

pub(crate) fn name_complaints(text: &str) -> Vec<String> {
    let mut complaints: Vec<String> = Vec::new();
    let name = match text.split('/').collect::<Vec<&str>>().as_slice() {
        [name] => *name,
        ["", name] => {
            complaints.push("prefix part must be non-empty".into());
            name
        }
        [prefix, name] => {
            if prefix.len() > 253 {
                complaints.push("prefix part must be no more than 253 bytes".into());
            }
            if !is_subdomain(prefix) {
                complaints.push(format!("prefix part {SUBDOMAIN}"));
            }
            name
        }
        _ => return vec![SLASHES.into()],
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        complaints.push("name part must be no more than 63 bytes".into());
    }
    if !is_word(name) {
        complaints.push(NAME.into());
    }
    complaints
}

pub(crate) fn value_complaints(value: &str) -> Vec<String> {
    let mut complaints: Vec<String> = Vec::new();
    if value.len() > 63 {
        complaints.push("must be no more than 63 bytes".into());
    }
    if !value.is_empty() && !is_word(value) {
        complaints.push(VALUE.into());
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_name_has_at_most_one_prefix() {
        for good in ["a", "A.b_c-1", "example.com/Name", &"a".repeat(63)] {
            assert!(name_complaints(good).is_empty(), "{good}");
        }
        assert_eq!(name_complaints("/x"), ["prefix part must be non-empty"]);
        assert_eq!(name_complaints("a/b/c"), [SLASHES]);
        assert_eq!(name_complaints(""), ["name part must be non-empty", NAME]);
        assert_eq!(name_complaints(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert_eq!(name_complaints("UP.com/x"), [format!("prefix part {SUBDOMAIN}")]);
    }

    #[test]
    fn label_value_may_be_empty() {
        assert!(value_complaints("").is_empty() && value_complaints("a_B.c").is_empty());
        assert_eq!(value_complaints("-"), [VALUE]);
        assert_eq!(value_complaints(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }
}
