//! `StatusText`: displays an error response of a server, without the contents of sensitive objects.
//!
//! Only this type turns a `Status` into text. A server includes parts of an object in its messages, for
//! example the invalid value of a field. The text therefore contains the message only if the kind of the
//! object is known and not sensitive.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use http::StatusCode;
use kube_core::{Status, response::StatusDetails};

use crate::Escaped;

/// The length of a message, in characters.
const MAX_MESSAGE_CHARS: usize = 1024;
/// The length of a name, a reason or a field name, in characters.
const MAX_NAME_CHARS: usize = 128;
/// The number of field names.
const MAX_FIELDS: usize = 8;

/// The reason that kube-client sets if the response is not a `Status`, for example from a proxy.
const UNPARSED_REASON: &str = "Failed to parse error data";

/// The kinds and plural names that [`mark_sensitive`] added, in lower case.
static MARKED: RwLock<BTreeSet<String>> = RwLock::new(BTreeSet::new());
static MASKS_QUOTED_VALUES: AtomicBool = AtomicBool::new(false);

/// Marks kinds as sensitive, for the entire process. Errors, logs and pages then contain no messages of
/// the server about objects of these kinds. `Secret` is always sensitive.
///
/// Pass each kind and its plural name, for example `mark_sensitive(["Password", "passwords"])`, because
/// some responses contain the kind, and others contain the plural name.
pub fn mark_sensitive<'a>(names: impl IntoIterator<Item = &'a str>) {
    let mut marked = MARKED.write().unwrap_or_else(PoisonError::into_inner);
    marked.extend(names.into_iter().map(str::to_lowercase));
}

/// Replaces values in quotation marks with `…` in all messages of servers, for the entire process. The
/// default is `false`.
///
/// The values include the names of objects. Names of users, API resources, API groups, namespaces and
/// webhooks stay visible.
pub fn mask_quoted_values(masks: bool) {
    MASKS_QUOTED_VALUES.store(masks, Ordering::Relaxed);
}

/// Displays the code, the reason and the message of a `Status` on one line, without control characters.
///
/// The message is truncated to 1,024 characters. If the kind of the object is sensitive or unknown, the
/// message is omitted. The text then contains the kind and name, if known, and the names of the invalid
/// fields. It also contains the following causes, because they contain no part of an object:
/// - a missing permission, an exceeded quota, or a terminating namespace
/// - the webhook that rejected the request or did not respond
///
/// ```
/// use kube_core::Status;
/// use kube_object::StatusText;
///
/// let status = Status::failure("data.password: Invalid value: \"hunter2\"", "Invalid").with_code(422);
/// assert_eq!(StatusText(&status).to_string(), "422 Invalid");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StatusText<'a>(pub &'a Status);

/// The reasons of kube-apiserver. A webhook can set another reason, which may contain parts of an object.
const KNOWN_REASONS: [&str; 19] = [
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "Expired",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "RequestEntityTooLarge",
    "ServerTimeout",
    "ServiceUnavailable",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    "UnsupportedMediaType",
];

/// Sets the kind in the details of a response to a request for `resource`, which is a kind or a plural
/// name.
///
/// If the response contains a kind, and the requested kind is not sensitive, the kind does not change. With
/// a kind, [`StatusText`] can decide whether the text contains the message.
pub fn set_requested_kind(status: &mut Status, resource: &str) {
    let details = status.details.get_or_insert_with(|| StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    });
    if details.kind.is_empty() || is_sensitive(resource) {
        resource.clone_into(&mut details.kind);
    }
}

impl StatusText<'_> {
    /// Returns whether the text contains the complete message of the server.
    pub fn is_complete(&self) -> bool {
        self.shows_message() && !MASKS_QUOTED_VALUES.load(Ordering::Relaxed)
    }

    fn shows_message(&self) -> bool {
        self.0
            .details
            .as_ref()
            .is_some_and(|details| !details.kind.is_empty() && !is_sensitive(&details.kind))
    }
}

impl fmt::Display for StatusText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { code, reason, message, .. } = self.0;
        let reason = match reason.as_str() {
            "" | UNPARSED_REASON => canonical_reason(*code),
            reason if self.shows_message() || KNOWN_REASONS.contains(&reason) => reason,
            _ => canonical_reason(*code),
        };
        write!(f, "{code} {}", Truncated(reason, MAX_NAME_CHARS))?;
        if !self.shows_message() {
            return self.fmt_without_message(f);
        }
        if message.is_empty() || message == reason {
            return Ok(());
        }
        if MASKS_QUOTED_VALUES.load(Ordering::Relaxed) {
            return write!(f, ": {}", Truncated(&masked(message), MAX_MESSAGE_CHARS));
        }
        write!(f, ": {}", Truncated(message, MAX_MESSAGE_CHARS))
    }
}

impl StatusText<'_> {
    fn fmt_without_message(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A webhook selects the details of its response.
        let is_of_webhook = self.0.message.starts_with(DENIED_BY);
        if let Some(details) = self.0.details.as_ref().filter(|_| !is_of_webhook) {
            let (kind, name) = (details.kind.as_str(), details.name.as_str());
            if !kind.is_empty() {
                write!(f, ": {}", Truncated(kind, MAX_NAME_CHARS))?;
            }
            if !kind.is_empty() && !name.is_empty() {
                write!(f, " {}", Truncated(name, MAX_NAME_CHARS))?;
            }
            let fields = details.causes.iter().map(|cause| cause.field.as_str());
            let fields: Vec<&str> = fields.filter(|field| !field.is_empty()).take(MAX_FIELDS).collect();
            for (at, field) in fields.iter().enumerate() {
                let before = if at == 0 { " (" } else { ", " };
                write!(f, "{before}{}", Truncated(field, MAX_NAME_CHARS))?;
            }
            if !fields.is_empty() {
                f.write_str(")")?;
            }
        }
        match safe_sentence(&self.0.message) {
            Some(sentence) => write!(f, ": {}", Truncated(sentence, MAX_MESSAGE_CHARS)),
            None => Ok(()),
        }
    }
}

/// Returns whether objects of this kind, or of this plural name of a resource, have contents that no log may
/// contain: Secrets, and the kinds of [`mark_sensitive`].
pub fn is_sensitive(kind: &str) -> bool {
    let kind = kind.to_lowercase();
    matches!(kind.as_str(), "secret" | "secrets")
        || MARKED.read().unwrap_or_else(PoisonError::into_inner).contains(&kind)
}

const DENIED_BY: &str = "admission webhook \"";
const DENIED: &str = "\" denied the request";
const CALL_FAILED: &str = "failed calling webhook \"";

/// Returns the part of a message that explains a rejection, and contains no part of an object.
///
/// The start of the message is compared, because the rest can contain texts of webhooks and values of
/// objects.
fn safe_sentence(message: &str) -> Option<&str> {
    let message = message.strip_prefix("Internal error occurred: ").unwrap_or(message);
    if let Some(denied) = message.strip_prefix(DENIED_BY) {
        let name_end = denied.find('"')?;
        let is_denied = denied[name_end..].starts_with(DENIED);
        return is_denied.then(|| &message[..DENIED_BY.len() + name_end + DENIED.len()]);
    }
    if let Some(failed) = message.strip_prefix(CALL_FAILED) {
        let name_end = failed.find('"')? + 1;
        let is_safe = is_connection_error(&failed[name_end..]);
        return Some(if is_safe { message } else { &message[..CALL_FAILED.len() + name_end] });
    }
    let (object, reason) = message.split_once(" is forbidden: ")?;
    let is_safe = reason.starts_with("User \"") && reason.contains("\" cannot ")
        || reason.starts_with("exceeded quota: ")
        || reason.starts_with("unable to create new content in namespace ");
    (is_safe && is_object_reference(object)).then_some(reason)
}

/// Returns whether a call of a webhook failed without a response. The text then contains no part of an
/// object.
fn is_connection_error(text: &str) -> bool {
    const ENDS: [&str; 7] = [
        "connection refused",
        "context deadline exceeded",
        "i/o timeout",
        "no route to host",
        "no such host",
        "connection reset by peer",
        "certificate signed by unknown authority",
    ];
    text.starts_with(": failed to call webhook: Post \"") && ENDS.iter().any(|end| text.ends_with(end))
        || text.starts_with(": failed to call webhook: service \"") && text.ends_with(" not found")
}

/// Returns whether a text is a plural name, with or without the name of an object, such as `secrets "a"`.
fn is_object_reference(text: &str) -> bool {
    let is_word =
        |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-./:_".contains(&byte));
    match text.split_once(' ') {
        None => is_word(text),
        Some((resource, name)) => {
            let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
            is_word(resource) && name.is_some_and(is_word)
        }
    }
}

/// Replaces the values in quotation marks, except after a word that precedes the name of a user or an API
/// resource. A quotation mark after a backslash belongs to the value.
fn masked(message: &str) -> String {
    const BEFORE_NAMES: [&str; 6] = ["User ", "resource ", "API group ", "namespace ", "webhook ", "quota: "];
    let (mut text, mut rest) = (String::new(), message);
    while let Some(start) = rest.find('"') {
        let (before, quoted) = rest.split_at(start + 1);
        text.push_str(before);
        let end = end_of_quote(quoted).unwrap_or(quoted.len());
        let is_name = BEFORE_NAMES.iter().any(|word| before[..start].ends_with(word));
        text.push_str(if is_name { &quoted[..end] } else { "…" });
        let closing = quoted[end..].chars().next().map_or(0, char::len_utf8);
        text.push_str(&quoted[end..end + closing]);
        rest = &quoted[end + closing..];
    }
    text + rest
}

fn end_of_quote(quoted: &str) -> Option<usize> {
    let mut is_escaped = false;
    quoted.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

/// Displays a text without control characters, truncated to a number of characters.
struct Truncated<'a>(&'a str, usize);

impl fmt::Display for Truncated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text, limit) = *self;
        match text.char_indices().nth(limit) {
            Some((end, _)) => write!(f, "{}…", Escaped(&text[..end])),
            None => write!(f, "{}", Escaped(text)),
        }
    }
}

/// Returns the usual text of an HTTP status.
fn canonical_reason(code: u16) -> &'static str {
    StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason()).unwrap_or("without a reason")
}

#[cfg(test)]
mod tests;
