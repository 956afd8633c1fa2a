//! Names: validation rules, and generated names for `generateName`.

/// The rule for the names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Lower case letters, digits, dots and dashes. Nearly all kinds have this rule.
    Subdomain,
    /// Names without dots, for namespaces and services.
    Label,
    /// Any valid path segment, for roles, role bindings and events.
    Segment,
    /// A subdomain that is short enough for the names of the jobs of a cron job.
    CronJob,
}

/// The error message for an invalid RFC 1123 subdomain.
pub(crate) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
     '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

impl NameRule {
    pub(crate) fn complaints(self, name: &str) -> Vec<String> {
        let (good, limit, text) = match self {
            Self::Subdomain => (is_subdomain_of_any_length(name), 253, SUBDOMAIN),
            Self::Label if !is_label(name) && is_subdomain(name) => (false, 63, "must not contain dots"),
            Self::Label => (is_label(name), 63, LABEL),
            Self::CronJob => (is_subdomain_of_any_length(name), 253, SUBDOMAIN),
            Self::Segment => return segment_complaints(name),
        };
        let mut complaints = Vec::new();
        if name.len() > limit {
            complaints.push(format!("must be no more than {limit} characters"));
        }
        if !good {
            complaints.push(text.to_owned());
        }
        if complaints.is_empty() && self == Self::CronJob && name.len() > CRON_JOB_LIMIT {
            complaints.push(format!("must be no more than {CRON_JOB_LIMIT} characters"));
        }
        complaints
    }

    /// Returns the violations of a `generateName`. As in the real server, a trailing dash hides the
    /// preceding letter.
    pub(crate) fn prefix_complaints(self, base: &str) -> Vec<String> {
        let mut letters = base.chars();
        match (self, letters.next_back(), letters.next_back()) {
            (Self::Segment, _, _) | (_, _, None) => self.complaints(base),
            (_, Some('-'), Some(_)) => self.complaints(&format!("{}a", letters.as_str())),
            _ => self.complaints(base),
        }
    }
}

/// The maximum length of the name of a cron job. Its jobs append eleven characters to this name.
const CRON_JOB_LIMIT: usize = 52;

fn segment_complaints(name: &str) -> Vec<String> {
    let mut complaints: Vec<String> = Vec::new();
    if matches!(name, "." | "..") {
        complaints.push(format!("may not be '{name}'"));
    }
    for c in ['/', '%'] {
        if name.contains(c) {
            complaints.push(format!("may not contain '{c}'"));
        }
    }
    complaints
}

fn is_subdomain_of_any_length(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// Returns whether the text is a label: lower case letters, digits and dashes, at most 63 characters,
/// without a dash at its start and end.
pub(crate) fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.chars().all(inner)
}

/// The error message for an invalid RFC 1035 label.
pub(crate) const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
     and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
     '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Returns whether the text is a label that starts with a letter.
pub(crate) fn is_label_1035(text: &str) -> bool {
    is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Returns whether the text consists of labels that are joined by dots.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// The letters of generated names: vowels and similar characters are excluded, so that names do not
/// contain words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Appends five random letters to `base`, truncated to the length of a label.
pub(crate) fn generate(base: &str, rng: &mut fastrand::Rng) -> String {
    let mut name: String = base.chars().take(63 - 5).collect();
    for _ in 0..5 {
        name.push(char::from(LETTERS[rng.usize(..LETTERS.len())]));
    }
    name
}

pub(crate) fn uid(rng: &mut fastrand::Rng) -> String {
    let bits = (rng.u128(..) & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_version_4_and_repeat_with_seed() {
        let one = uid(&mut fastrand::Rng::with_seed(1));
        assert_eq!(one, uid(&mut fastrand::Rng::with_seed(1)));
        assert_eq!(one.len(), 36);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&one.as_bytes()[19]));
    }

    #[test]
    fn names_follow_rule_of_kind() {
        let good = |rule: NameRule, name: &str| rule.complaints(name).is_empty();
        assert!(good(NameRule::Subdomain, "a.b-c"));
        for bad in ["Bad_Name", "-a", "a..b", "a/b", &"a".repeat(254)] {
            assert!(!good(NameRule::Subdomain, bad), "{bad}");
        }
        assert_eq!(NameRule::Label.complaints("a.b"), ["must not contain dots"]);
        assert_eq!(NameRule::Label.complaints(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert!(
            good(NameRule::Segment, "system:node")
                && !good(NameRule::Segment, "..")
                && !good(NameRule::Segment, "%")
        );
        assert!(good(NameRule::CronJob, &"a".repeat(52)) && !good(NameRule::CronJob, &"a".repeat(53)));
    }

    #[test]
    fn generate_name_may_end_with_dash() {
        assert!(NameRule::Subdomain.prefix_complaints("a-").is_empty());
        assert!(NameRule::Subdomain.prefix_complaints("a--").is_empty());
        assert!(NameRule::Subdomain.prefix_complaints("A-").is_empty());
        for bad in ["a.", "-a", "A", "-"] {
            assert_eq!(NameRule::Subdomain.prefix_complaints(bad), [SUBDOMAIN], "{bad}");
        }
    }
}
