//! Checks selectors and namespaces before the first request.

use kube_store::LabelSelector;

/// Returns whether a text can be the name of a namespace: a DNS label of at most 63 characters.
pub(super) fn is_namespace(name: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| is_alphanumeric(byte) || *byte == b'-')
        && [bytes.first(), bytes.last()].into_iter().flatten().all(is_alphanumeric)
}

/// Checks the syntax of a label selector.
pub(super) fn check_labels(selector: &str) -> Result<(), String> {
    selector.parse::<LabelSelector>().map(drop).map_err(|error| error.to_string())
}

/// Checks the syntax of the key of a label.
pub(super) fn check_label_key(key: &str) -> Result<(), String> {
    if key.contains(',') {
        return Err("the key of a label contains no comma".to_owned());
    }
    check_labels(&format!("{key} in (0)"))
}

/// Checks the syntax of a field selector: `path=value`, `path==value` and `path!=value`, separated by
/// commas. In a value, a backslash precedes a comma, an equals sign and a backslash. The server decides
/// which paths exist.
///
/// Source: `k8s.io/apimachinery/pkg/fields/selector.go`.
pub(super) fn check_fields(selector: &str) -> Result<(), String> {
    terms(selector).into_iter().filter(|term| !term.is_empty()).try_for_each(check_term)
}

/// Splits at commas without a preceding backslash.
fn terms(selector: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, byte) in selector.bytes().enumerate() {
        if byte == b',' && !escaped {
            terms.push(&selector[start..at]);
            start = at + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    terms.push(&selector[start..]);
    terms
}

fn check_term(term: &str) -> Result<(), String> {
    let Some((path, value)) = term.split_once('=') else {
        return Err(format!("invalid field selector: expected `=` or `!=` in {term:?}"));
    };
    if path.trim_end_matches('!').is_empty() {
        return Err(format!("invalid field selector: expected a field before `=` in {term:?}"));
    }
    let value = value.strip_prefix('=').unwrap_or(value);
    let mut escaped = false;
    for character in value.chars() {
        let valid = match (escaped, character) {
            (true, character) => matches!(character, '\\' | ',' | '='),
            (false, character) => character != '=',
        };
        if !valid {
            return Err(format!("invalid field selector: unexpected {character:?} in the value of {term:?}"));
        }
        escaped = character == '\\' && !escaped;
    }
    if escaped { Err(format!("invalid field selector: {term:?} ends with a backslash")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_is_a_dns_label() {
        for valid in ["a", "shop", "a-1", "0", &"a".repeat(63)] {
            assert!(is_namespace(valid), "{valid}");
        }
        for invalid in ["", "a/b", "A", "-a", "a-", "a.b", "a b", "ä", &"a".repeat(64)] {
            assert!(!is_namespace(invalid), "{invalid}");
        }
    }

    #[test]
    fn label_selector_syntax_is_that_of_the_server() {
        for valid in ["", "a", "a=b", "a>1", "a<1", "a > 1, b=c", "a in ()", "a notin ()", "a in (,b)"] {
            assert_eq!(check_labels(valid), Ok(()), "{valid}");
        }
        for invalid in ["a>", "a>b", "a>-1", "a>=1", "a gt 1", "a in", "a=b c"] {
            assert!(check_labels(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn label_key_is_no_selector() {
        assert_eq!(check_label_key("example.com/slot"), Ok(()));
        for invalid in ["", "a=b", "a,b", "a in (1)", "a b"] {
            assert!(check_label_key(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn field_selector_syntax_is_that_of_the_server() {
        for valid in ["", "metadata.name=a", "a==b", "a!=b", "a=", "a=b,c!=d", "a=b,", r"a=\\,\=", r"a=b\,c"]
        {
            assert_eq!(check_fields(valid), Ok(()), "{valid}");
        }
        for invalid in ["a", "=a", "!=a", "a=b=c", r"a=\n", r"a=b\", "a=b,c", "a>b"] {
            assert!(check_fields(invalid).is_err(), "{invalid}");
        }
        let error = check_fields("metadata.name").unwrap_err();
        assert_eq!(error, "invalid field selector: expected `=` or `!=` in \"metadata.name\"");
    }
}
