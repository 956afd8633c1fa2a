//! Label selectors, field selectors and namespaces of the command line. They are checked before the program
//! connects to a server. Equal selectors have equal texts, so a state file can contain them.

use kube_informer::LabelSelector;

/// Parses a label selector, for `#[arg(value_parser = labels)]`. Returns its canonical text.
///
/// # Errors
///
/// Fails if the syntax is invalid.
pub(crate) fn labels(text: &str) -> Result<String, String> {
    let selector: LabelSelector = text.parse().map_err(|error| format!("{error}"))?;
    let text = selector.to_string();
    let mut terms: Vec<String> = split(&text, Nesting::Parentheses).into_iter().map(sorted_values).collect();
    Ok(joined(&mut terms))
}

/// Sorts the values of a term such as `tier in (b,a)`.
fn sorted_values(term: &str) -> String {
    match term.split_once('(') {
        Some((start, values)) => {
            let mut values: Vec<_> = values.trim_end_matches(')').split(',').map(str::to_owned).collect();
            format!("{start}({})", joined(&mut values))
        }
        None => term.to_owned(),
    }
}

/// Parses a field selector: `path=value`, `path==value` and `path!=value`, separated by commas. In a value, a
/// backslash precedes a comma, an equals sign and a backslash. Returns the canonical text.
///
/// Source: `k8s.io/apimachinery/pkg/fields/selector.go`.
///
/// # Errors
///
/// Fails if the syntax is invalid.
pub(crate) fn fields(text: &str) -> Result<String, String> {
    let terms = split(text, Nesting::None).into_iter().filter(|term| !term.is_empty());
    let mut terms = terms.map(field_term).collect::<Result<Vec<_>, _>>()?;
    Ok(joined(&mut terms))
}

fn field_term(term: &str) -> Result<String, String> {
    let (path, value) = term.split_once('=').ok_or_else(|| format!("expected = or != in {term:?}"))?;
    let (path, operator) = match path.strip_suffix('!') {
        Some(path) => (path, "!="),
        None => (path, "="),
    };
    let value = value.strip_prefix('=').filter(|_| operator == "=").unwrap_or(value);
    if path.is_empty() {
        return Err(format!("expected a field before the operator in {term:?}"));
    }
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        let is_valid = match character {
            '\\' => matches!(characters.next(), Some('\\' | ',' | '=')),
            character => character != '=',
        };
        if !is_valid {
            return Err(format!("unexpected {character:?} in the value of {term:?}"));
        }
    }
    Ok(format!("{path}{operator}{value}"))
}

/// Selects whether commas in parentheses separate terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nesting {
    /// Parentheses have no meaning.
    None,
    /// Parentheses enclose the values of one term.
    Parentheses,
}

/// Splits a text at commas without a preceding backslash.
fn split(text: &str, nesting: Nesting) -> Vec<&str> {
    let (mut parts, mut start, mut is_escaped, mut depth) = (Vec::new(), 0, false, 0_usize);
    for (index, character) in text.char_indices() {
        match character {
            '(' if nesting == Nesting::Parentheses => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 && !is_escaped => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    parts.push(&text[start..]);
    parts
}

fn joined(terms: &mut Vec<String>) -> String {
    terms.sort();
    terms.dedup();
    terms.join(",")
}

/// Parses the name of a namespace, for `#[arg(value_parser = namespace)]`.
///
/// # Errors
///
/// Fails if the text is not a DNS label of at most 63 characters. An empty namespace in a URL would select
/// all namespaces.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let is_valid = (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| is_alphanumeric(*byte) || *byte == b'-')
        && [bytes[0], bytes[bytes.len() - 1]].into_iter().all(is_alphanumeric);
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err("a namespace has 1 to 63 lower-case letters, digits and hyphens".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_label_selectors_have_equal_texts() {
        for text in ["a=b,tier in (x,y)", "tier in (y, x), a==b", "a=b,a=b,tier in (y,x,x)"] {
            assert_eq!(labels(text).as_deref(), Ok("a=b,tier in (x,y)"), "{text}");
        }
        assert_eq!(labels("!b,a").as_deref(), Ok("!b,a"));
        assert_eq!(labels("").as_deref(), Ok(""));
    }

    #[test]
    fn canonical_label_selector_has_the_same_meaning() {
        for text in ["a", "!a", "a!=b", "a in (,b)", "a notin (c,b)", "a>1", "a<2,b in (x),c"] {
            let canonical = labels(text).unwrap();
            assert_eq!(labels(&canonical).as_deref(), Ok(&*canonical), "{text}");
            let terms = |text: &str| split(text, Nesting::Parentheses).len();
            assert_eq!(terms(&canonical), terms(text), "{text} became {canonical}");
        }
    }

    #[test]
    fn equal_field_selectors_have_equal_texts() {
        for text in ["a=1,b!=2", "b!=2,a==1", "b!=2,a=1,,a=1"] {
            assert_eq!(fields(text).as_deref(), Ok("a=1,b!=2"), "{text}");
        }
        assert_eq!(fields(r"a=(x\,y,b=").as_deref(), Ok(r"a=(x\,y,b="));
    }

    #[test]
    fn invalid_selectors_are_rejected() {
        for text in ["a in b", "a>", "a=b c", "a in"] {
            assert!(labels(text).is_err(), "{text}");
        }
        for text in ["a", "=a", "!=a", "a=b=c", r"a=\n", r"a=b\", "a=b,c", "a>b", "a!==b"] {
            assert!(fields(text).is_err(), "{text}");
        }
    }

    #[test]
    fn namespace_is_a_dns_label() {
        assert_eq!(namespace("shop-1").as_deref(), Ok("shop-1"));
        for text in ["", "A", "-a", "a-", "a/b", "a.b", &"a".repeat(64)] {
            assert!(namespace(text).is_err(), "{text}");
        }
    }
}
