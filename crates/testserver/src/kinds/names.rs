//! Names: which are valid for what, and how the server makes one up from `generateName`.

use crate::status::{Cause, Named, Status};

/// The rule a kind's names follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Lower case, dots and dashes: nearly everything.
    Subdomain,
    /// No dots: namespaces and services.
    Label,
    /// Anything that can stand in a path: roles and their bindings.
    Segment,
}

/// What is said of a name that is no subdomain of RFC 1123.
pub(crate) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
     '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

impl NameRule {
    fn complaint(self, name: &str) -> Option<String> {
        let (good, limit, text) = match self {
            Self::Subdomain => (is_subdomain(name), 253, SUBDOMAIN),
            Self::Label => (is_label(name), 63, LABEL),
            Self::Segment => {
                let good = !matches!(name, "." | "..") && !name.contains(['/', '%']);
                (good, usize::MAX, "may not be '.' or '..' and may not contain '/' or '%'")
            }
        };
        if name.len() > limit {
            return Some(format!("must be no more than {limit} characters"));
        }
        (!good).then(|| text.to_owned())
    }
}

/// Lower case letters, digits and dashes, at most 63, no dash at an end.
pub(crate) fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.chars().all(inner)
}

/// What is said of a name that is no label of RFC 1035.
pub(crate) const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
     and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
     '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// A label that starts with a letter.
pub(crate) fn is_label_1035(text: &str) -> bool {
    is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Labels joined by dots.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Checks an object's name on creation; `kind` names the object in the message.
pub(crate) fn check(rule: NameRule, kind: Named<'_>, name: &str) -> Result<(), Status> {
    if name.is_empty() {
        let cause = Cause::required("metadata.name", "name or generateName is required");
        return Err(Status::invalid(kind, "", vec![cause]));
    }
    match rule.complaint(name) {
        None => Ok(()),
        Some(text) => {
            let cause = Cause::invalid("metadata.name", &format!("{name:?}"), &text);
            Err(Status::invalid(kind, name, vec![cause]))
        }
    }
}

/// The letters of generated names: no vowels, so that no words come out, and nothing that looks alike.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// `base` with five random letters after it, cut so that the whole fits a label.
pub(crate) fn generate(base: &str, rng: &mut fastrand::Rng) -> String {
    let mut name: String = base.chars().take(63 - 5).collect();
    for _ in 0..5 {
        name.push(char::from(LETTERS[rng.usize(..LETTERS.len())]));
    }
    name
}

/// A random (version 4) uid.
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
    fn uids_are_version_4_and_repeat_with_the_seed() {
        let one = uid(&mut fastrand::Rng::with_seed(1));
        assert_eq!(one, uid(&mut fastrand::Rng::with_seed(1)));
        assert_eq!(one.len(), 36);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&one.as_bytes()[19]));
    }

    #[test]
    fn names_follow_the_rule_of_their_kind() {
        let kind = Named { group: "", resource: "ConfigMap" };
        assert!(check(NameRule::Subdomain, kind, "a.b-c").is_ok());
        for bad in ["", "Bad_Name", "-a", "a..b", "a/b"] {
            assert_eq!(check(NameRule::Subdomain, kind, bad).unwrap_err().code(), 422, "{bad}");
        }
        assert!(check(NameRule::Label, kind, "a.b").is_err());
        assert!(check(NameRule::Segment, kind, "system:node").is_ok());
    }
}
