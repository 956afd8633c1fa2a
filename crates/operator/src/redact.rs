//! `redact`: the only function that turns an error into text for logs, debug pages and
//! [`Failure`](crate::Failure)s. The text contains enough to find the cause, and no contents of
//! objects.
//!
//! Servers include parts of the objects that they reject, and serde_json includes the value that it
//! cannot decode. `StatusText` decides which part of an error response is shown. The text of a decode
//! error contains only the position. Other error messages are truncated.

use std::{error::Error, iter::successors};

use kube_client::core::Status;
use kube_informer::{Escaped, StatusText};
use serde_json::error::Category;

/// The length of one error message, in characters.
const MAX_ERROR_CHARS: usize = 512;
/// The number of sources of an error in the text.
pub(crate) const MAX_CAUSES: usize = 32;
/// Returns the messages of an error and its sources on one line, without contents of objects.
pub(crate) fn redact(error: &(dyn Error + 'static)) -> String {
    let mut messages: Vec<String> = Vec::new();
    let mut add = |message: &str| {
        let message = single_line(message, MAX_ERROR_CHARS);
        // Some errors repeat the message of their source.
        if !message.is_empty() && !messages.last().is_some_and(|outer| outer.contains(&message)) {
            messages.push(message);
        }
    };
    let chain = || successors(Some(error), |error| (**error).source()).take(MAX_CAUSES);
    let Some((depth, sensitive)) =
        chain().enumerate().find_map(|(depth, error)| Some((depth, SensitiveError::new(error)?)))
    else {
        chain().for_each(|error| add(&error.to_string()));
        return messages.join(": ");
    };
    for outer in chain().take(depth) {
        let message = outer.to_string().replace(&sensitive.full_text, &sensitive.redacted);
        if !sensitive.quotes.iter().any(|quote| message.contains(quote)) {
            add(&message);
        }
    }
    add(&sensitive.redacted);
    messages.join(": ")
}

/// An error whose message may contain parts of an object. The sources repeat the message.
struct SensitiveError {
    /// The message. Outer errors may contain it.
    full_text: String,
    /// The parts that may contain an object, plain and as formatted by `Debug`.
    quotes: Vec<String>,
    /// The replacement for the message.
    redacted: String,
}

impl SensitiveError {
    fn new(error: &(dyn Error + 'static)) -> Option<Self> {
        let status = match error.downcast_ref::<kube_client::Error>() {
            Some(kube_client::Error::Api(status)) => Some(&**status),
            Some(kube_client::Error::SerdeError(undecoded)) => {
                return Some(Self::from_json(error, undecoded));
            }
            // The source of an `Api` is the box itself.
            _ => error
                .downcast_ref::<Status>()
                .or_else(|| error.downcast_ref::<Box<Status>>().map(|boxed| &**boxed)),
        };
        match status {
            Some(status) => Some(Self::from_status(error, status)),
            None => Some(Self::from_json(error, error.downcast_ref()?)),
        }
    }

    fn from_status(error: &dyn Error, status: &Status) -> Self {
        let text = StatusText(status);
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let messages = [&status.message].into_iter().chain(causes.map(|cause| &cause.message));
        let hidden = messages.filter(|_| !text.is_complete());
        Self {
            full_text: error.to_string(),
            quotes: quotes(hidden.map(String::as_str)),
            redacted: format!("the server responded with {text}"),
        }
    }

    fn from_json(error: &dyn Error, json: &serde_json::Error) -> Self {
        let category = match json.classify() {
            Category::Io => "I/O",
            Category::Syntax => "syntax",
            Category::Data => "data",
            Category::Eof => "end of input",
        };
        let (line, column) = (json.line(), json.column());
        let redacted = format!("unexpected JSON ({category}, line {line}, column {column})");
        Self { full_text: error.to_string(), quotes: quotes([json.to_string().as_str()]), redacted }
    }
}

fn quotes<'a>(messages: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let escaped = |message: &str| {
        let quoted = format!("{message:?}");
        quoted[1..quoted.len() - 1].to_owned()
    };
    let messages = messages.into_iter().filter(|message| !message.is_empty());
    messages.flat_map(|message| [message.to_owned(), escaped(message)]).collect()
}

/// Returns at most `limit` characters of the text on one line. Escapes the characters that are not
/// printable.
pub(crate) fn single_line(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", Escaped(&text[..end])),
        None => Escaped(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_client::core::response::{StatusCause, StatusDetails};
    use kube_informer::ObjectKey;

    use super::*;
    use crate::{Failure, WriteError};

    /// Must not appear in the output.
    const CONTENTS: &str = "hunter2";

    fn status(fields: &[&str]) -> Status {
        let cause = |field: &&str| StatusCause {
            reason: "FieldValueInvalid".to_owned(),
            message: format!("Invalid value: \"{CONTENTS}\": must be \"longer\""),
            field: (*field).to_owned(),
        };
        let details = StatusDetails {
            name: "a".to_owned(),
            group: String::new(),
            kind: "Secret".to_owned(),
            uid: String::new(),
            causes: fields.iter().map(cause).collect(),
            retry_after_seconds: 0,
        };
        let message = format!("Secret \"a\" is invalid: data.password: Invalid value: \"{CONTENTS}\"");
        Status::failure(&message, "Invalid").with_code(422).with_details(details)
    }

    fn rejected() -> kube_client::Error {
        kube_client::Error::Api(Box::new(status(&["data.password", "", "metadata.name"])))
    }

    fn undecoded() -> serde_json::Error {
        serde_json::from_str::<Vec<u8>>(&format!("\n\"{CONTENTS}\"")).unwrap_err()
    }

    /// A typical error type of a program.
    #[derive(Debug, thiserror::Error)]
    enum UserError {
        #[error("failed to create the Secret: {0}")]
        WithSource(#[source] kube_client::Error),
        #[error("failed to create the Secret")]
        WithoutSource(#[source] Arc<kube_client::Error>),
        #[error("failed to create the Secret, {0:?}")]
        Debugged(#[source] Box<Status>),
    }

    const REJECTED: &str = "the server responded with 422 Invalid: Secret a (data.password, metadata.name)";

    #[test]
    fn status_of_secret_is_reduced_to_code_reason_and_fields() {
        assert_eq!(redact(&rejected()), REJECTED);
        assert_eq!(redact(&status(&[])), "the server responded with 422 Invalid: Secret a");
    }

    #[test]
    fn status_of_other_kind_is_shown_with_its_outer_errors() {
        let mut status = status(&[]);
        status.details.as_mut().unwrap().kind = "Site".to_owned();
        status.message = "Site \"a\" is invalid".to_owned();
        let expected =
            "failed to create the Secret: the server responded with 422 Invalid: Site \"a\" is invalid";
        assert_eq!(redact(&UserError::WithSource(kube_client::Error::Api(Box::new(status)))), expected);
    }

    #[test]
    fn outer_errors_do_not_repeat_the_status_message() {
        let key = ObjectKey::new(Some("shop"), "a");
        let failed = WriteError::Request { operation: "update secrets".into(), key, source: rejected() };
        assert_eq!(redact(&failed), format!("failed to update secrets shop/a: {REJECTED}"));
        assert_eq!(
            redact(&UserError::WithSource(rejected())),
            format!("failed to create the Secret: {REJECTED}")
        );
        assert_eq!(
            redact(&UserError::Debugged(Box::new(status(&["a"])))),
            "the server responded with 422 Invalid: Secret a (a)"
        );
        let shared = UserError::WithoutSource(Arc::new(rejected()));
        assert_eq!(redact(&shared), format!("failed to create the Secret: {REJECTED}"));
        let failure = Failure::terminal(Box::new(rejected()) as Box<dyn Error + Send + Sync>);
        assert_eq!(
            (failure.to_string(), format!("{failure:?}")),
            (REJECTED.to_owned(), format!("Failure(terminal: {REJECTED})"))
        );
    }

    #[test]
    fn decode_error_is_reduced_to_the_position() {
        let expected = "unexpected JSON (data, line 2, column 9)";
        assert_eq!(redact(&undecoded()), expected);
        assert_eq!(redact(&kube_client::Error::SerdeError(undecoded())), expected);
        let body = kube_client::core::request::Error::SerializeBody(undecoded());
        let unsent = redact(&kube_client::Error::BuildRequest(body));
        assert!(unsent.contains(expected) && !unsent.contains(CONTENTS), "{unsent}");
    }

    #[test]
    fn other_errors_are_truncated_to_one_line() {
        let broken = std::io::Error::other("the \x1b[31mpipe\nis broken");
        let service = kube_client::Error::Service(Box::new(broken));
        assert_eq!(redact(&service), r"ServiceError: the \u{1b}[31mpipe\nis broken");
        let long = redact(&std::io::Error::other("ä".repeat(10_000)));
        assert_eq!(long, format!("{}…", "ä".repeat(MAX_ERROR_CHARS)));
    }
}
