//! Validation and truncation of texts for the API server.

/// The length of a DNS subdomain.
const MAX_SUBDOMAIN_BYTES: usize = 253;
/// The length of a qualified name without its prefix.
const MAX_NAME_BYTES: usize = 63;

/// Returns whether the text is a qualified name, such as `website-operator` or
/// `example.com/website-operator`.
pub(crate) fn is_qualified_name(text: &str) -> bool {
    let (prefix_fits, name) = match text.split_once('/') {
        Some((prefix, name)) => (is_subdomain(prefix), name),
        None => (true, text),
    };
    let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    prefix_fits && name.len() <= MAX_NAME_BYTES && name.bytes().all(fits) && has_alphanumeric_ends(name)
}

/// Returns whether the text is a DNS subdomain, such as `kube-system` or `web.example.com`.
pub(crate) fn is_subdomain(text: &str) -> bool {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_label = |label: &str| label.bytes().all(fits) && has_alphanumeric_ends(label);
    text.len() <= MAX_SUBDOMAIN_BYTES && text.split('.').all(is_label)
}

fn has_alphanumeric_ends(text: &str) -> bool {
    let fits = |end: Option<&u8>| end.is_some_and(u8::is_ascii_alphanumeric);
    fits(text.as_bytes().first()) && fits(text.as_bytes().last())
}

/// Truncates the text to at most `limit` bytes at a character boundary, and releases unused memory.
pub(crate) fn truncate(mut text: String, limit: usize) -> String {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.shrink_to_fit();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_rules_match_the_api_server() {
        for good in ["a", "A", "website-operator", "k8s.io/job_controller", "a.b/C.d-e", &"a".repeat(63)] {
            assert!(is_qualified_name(good), "{good}");
        }
        for bad in ["", "/", "a/", "/a", "a/b/c", "-a", "a-", "a b", "A.b/c", "ä", &"a".repeat(64)] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
        for good in ["a", "0", "web.example.com", "a-b.c", &"a".repeat(253)] {
            assert!(is_subdomain(good), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "A", "-a", "a-.b", "system:node", "a_b", &"a".repeat(254)] {
            assert!(!is_subdomain(bad), "{bad}");
        }
    }

    #[test]
    fn truncate_respects_char_boundaries() {
        assert_eq!(truncate("aä€".to_owned(), 6), "aä€");
        assert_eq!(truncate("aä€".to_owned(), 5), "aä");
        assert_eq!(truncate("aä€".to_owned(), 2), "a");
        assert_eq!(truncate("€".to_owned(), 0), "");
    }

    #[test]
    fn truncate_releases_memory() {
        let mut roomy = String::with_capacity(1 << 20);
        roomy.push('a');
        for text in ["a".repeat(1 << 20), roomy] {
            assert!(truncate(text, 128).capacity() < 1024);
        }
    }
}
