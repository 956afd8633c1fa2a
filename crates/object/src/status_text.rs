//! `StatusText`: displays an error response of a server, without the contents of sensitive objects.
//!
//! This is the only function of the workspace that turns a `Status` into text. A server includes parts of an
//! object in its messages, for example the invalid value of a field. The message is therefore shown only
//! if the kind of the object is known and not sensitive.

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

/// Masks values in double quotes in all messages of servers, for the entire process. By default, they
/// are shown, except for sensitive kinds.
///
/// Names of users, resources, namespaces, API groups and webhooks stay visible.
pub fn mask_quoted_values(masks: bool) {
    MASKS_QUOTED_VALUES.store(masks, Ordering::Relaxed);
}

/// Displays a `Status`: its code, reason and message on one line, without control characters.
///
/// The message is truncated to 1,024 characters. It is replaced in two cases: the object has a sensitive
/// kind, or the kind is unknown. The text then contains the kind and name of the object, the names of
/// invalid fields, and sentences that contain no object: a missing permission, an exceeded quota, or
/// the webhook that rejected the object or did not respond.
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

/// Sets the kind in the details of a status that has no kind, for example of a decode error.
///
/// `resource` is the requested kind or its plural name. With a kind, [`StatusText`] can decide whether
/// to show the message.
pub fn set_missing_kind(status: &mut Status, resource: &str) {
    let details = status.details.get_or_insert_with(|| StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    });
    if details.kind.is_empty() {
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
            reason => reason,
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
        if let Some(details) = &self.0.details {
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

fn is_sensitive(kind: &str) -> bool {
    let kind = kind.to_lowercase();
    matches!(kind.as_str(), "secret" | "secrets")
        || MARKED.read().unwrap_or_else(PoisonError::into_inner).contains(&kind)
}

/// Returns the part of a message that explains a rejection, and contains no part of an object.
fn safe_sentence(message: &str) -> Option<&str> {
    const FORBIDDEN: &str = " is forbidden: ";
    if let Some(at) = message.find(FORBIDDEN) {
        let reason = &message[at + FORBIDDEN.len()..];
        let is_safe = reason.starts_with("User \"") && reason.contains("\" cannot ")
            || reason.starts_with("exceeded quota: ")
            || reason.starts_with("unable to create new content in namespace ");
        return is_safe.then_some(reason);
    }
    if let Some(denied) = sentence_from(message, "admission webhook \"") {
        // The webhook selects the rest of the message.
        let end = denied.find(DENIED)? + DENIED.len();
        return Some(&denied[..end]);
    }
    let failed = sentence_from(message, "failed calling webhook \"")?;
    let name_end = QUOTED_NAME + failed[QUOTED_NAME..].find('"')? + 1;
    // A failed connection has no response, so the text contains no part of an object.
    let has_no_response = failed[name_end..].starts_with(": failed to call webhook: Post \"");
    Some(if has_no_response { failed } else { &failed[..name_end] })
}

const DENIED: &str = "\" denied the request";
/// The start of the name in `failed calling webhook "NAME"`.
const QUOTED_NAME: usize = "failed calling webhook \"".len();

fn sentence_from<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    message.find(start).map(|at| &message[at..])
}

/// Replaces the values in double quotes, except after a word that precedes the name of a user or an API
/// resource. A quote that is preceded by a backslash belongs to the value.
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
