//! The query parameters `fieldManager` and `force` of a write.

use http::{HeaderMap, header};

use crate::journal::Verb;
use crate::status::{Cause, Status};
use crate::wire::object::media_type;
use crate::wire::query::Query;

pub(crate) const APPLY: &str = "application/apply-patch+yaml";

const LIMIT: usize = 128;

/// Rejects an invalid manager, an apply without a manager, and `force` for other patches.
pub(crate) fn check(verb: Verb, query: &Query, headers: &HeaderMap) -> Result<(), Status> {
    let manager = query.get("fieldManager").unwrap_or("");
    let mut causes = Vec::new();
    let kind = match verb {
        Verb::Patch => {
            match media_type(headers) {
                APPLY if manager.is_empty() => {
                    causes.push(Cause::required("fieldManager", "is required for apply patch"));
                }
                APPLY => {}
                _ if query.get("force").is_some() => {
                    causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
                }
                _ => {}
            }
            "PatchOptions"
        }
        Verb::Update => "UpdateOptions",
        _ => "CreateOptions",
    };
    if manager.len() > LIMIT {
        causes.push(Cause::too_long("fieldManager", LIMIT as u64));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let text = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        causes.push(Cause::invalid_text("fieldManager", manager, &text));
    }
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid_options(kind, causes)) }
}

fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace())
}

/// Returns the field manager of the query. Without one, returns the printable prefix of the first part
/// of the user agent.
pub(crate) fn manager(query: &Query, headers: &HeaderMap) -> String {
    if let Some(manager) = query.get("fieldManager").filter(|manager| !manager.is_empty()) {
        return manager.into();
    }
    let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("");
    let mut name = String::new();
    for c in agent.split('/').next().unwrap_or("").chars().filter(|c| is_printable(*c)) {
        if name.len() + c.len_utf8() > LIMIT {
            break;
        }
        name.push(c);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn rejection(verb: Verb, media_type: &'static str, query: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        check(verb, &Query::parse(query), &headers).err().map(|status| status.message().to_owned())
    }

    #[test]
    fn apply_requires_a_manager_and_only_apply_accepts_force() {
        let message = rejection(Verb::Patch, APPLY, "").unwrap();
        assert_eq!(
            message,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
        );
        assert_eq!(rejection(Verb::Patch, APPLY, "fieldManager=m&force=true"), None);
        assert!(rejection(Verb::Patch, "application/merge-patch+json", "force=false").is_some());
        assert_eq!(rejection(Verb::Create, "application/json", ""), None);
    }

    #[test]
    fn manager_must_be_printable_and_short() {
        let message = rejection(Verb::Update, "application/json", "fieldManager=a%09b").unwrap();
        assert_eq!(
            message,
            "UpdateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\tb\": invalid character \
             U+0009 (at position 1)"
        );
        let long = format!("fieldManager={}", "x".repeat(129));
        let message = rejection(Verb::Create, "application/json", &long).unwrap();
        assert!(message.ends_with("fieldManager: Too long: may not be more than 128 bytes"), "{message}");
    }

    #[test]
    fn default_manager_is_the_user_agent() {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static("kubectl/v1.36 (linux)"));
        assert_eq!(manager(&Query::parse(""), &headers), "kubectl");
        assert_eq!(manager(&Query::parse("fieldManager=m"), &headers), "m");
    }
}
