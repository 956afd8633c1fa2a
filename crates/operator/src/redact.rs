//! `redact`: the only function that turns an error into text for logs, debug pages and
//! [`Failure`](crate::Failure)s. The text contains enough to find the cause, and no contents of
//! sensitive objects.
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
/// Returns the messages of an error and its sources on one line, without contents of sensitive objects.
pub(crate) fn redact(error: &(dyn Error + 'static)) -> String {
    let mut messages: Vec<String> = Vec::new();
    let mut add = |message: String| {
        // Some errors repeat the message of their source.
        if !message.is_empty() && !messages.last().is_some_and(|outer| outer.contains(&message)) {
            messages.push(message);
        }
    };
    let chain = || successors(Some(error), |error| (**error).source()).take(MAX_CAUSES);
    let sensitive = chain().enumerate().find_map(|(depth, error)| Some((depth, SensitiveError::new(error)?)));
    let depth = sensitive.as_ref().map_or(MAX_CAUSES, |(depth, _)| *depth);
    for outer in chain().take(depth) {
        let mut message = outer.to_string();
        if let Some((_, sensitive)) = &sensitive {
            for text in &sensitive.texts {
                message = message.replace(text, &sensitive.redacted);
            }
            if sensitive.quotes.iter().any(|quote| message.contains(quote)) {
                continue;
            }
        }
        add(without_json(message));
    }
    if let Some((_, sensitive)) = sensitive {
        add(sensitive.redacted);
    }
    let lines = messages.iter().map(|message| single_line(message, MAX_ERROR_CHARS));
    lines.collect::<Vec<_>>().join(": ")
}

/// Replaces a message that looks like a message of serde_json. `anyhow::Error` and other types hide the
/// type of an error, so its message is the only sign.
fn without_json(message: String) -> String {
    let position =
        [(" at line ", " column "), (", line: ", ", column: ")].iter().find_map(|(line, column)| {
            let (_, after) = message.split_once(line)?;
            let (line, after) = after.split_once(column)?;
            let column = &after[..after.bytes().take_while(u8::is_ascii_digit).count()];
            Some((line.parse::<usize>().ok()?, column.parse::<usize>().ok()?))
        });
    match position {
        Some((line, column)) => format!("unexpected JSON (line {line}, column {column})"),
        None => message,
    }
}

/// An error whose message may contain parts of an object. The sources repeat the message.
struct SensitiveError {
    /// The forms of the message that outer errors may contain, the longest first.
    texts: Vec<String>,
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
        let debug = format!("{status:?}");
        Self {
            texts: vec![
                format!("ApiError: {status} ({debug})"),
                debug,
                error.to_string(),
                status.to_string(),
            ],
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
        let message = json.to_string();
        // `Debug` omits the position at the end.
        let without_position = message.rsplit_once(" at line ").map_or("", |(message, _)| message);
        Self {
            texts: vec![error.to_string()],
            quotes: quotes([message.as_str(), without_position]),
            redacted,
        }
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
            "failed to create the Secret, the server responded with 422 Invalid: Secret a (a)"
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
    fn hidden_or_formatted_decode_error_is_reduced_to_the_position() {
        #[derive(Debug, thiserror::Error)]
        #[error("bad config: {0:?}")]
        struct Debugged(#[source] serde_json::Error);

        let position = "unexpected JSON (line 2, column 9)";
        assert_eq!(Failure::from(anyhow::Error::new(undecoded())).to_string(), position);
        assert_eq!(redact(&std::io::Error::from(undecoded())), position);
        assert_eq!(redact(&Arc::new(undecoded())), position);
        assert_eq!(redact(&Debugged(undecoded())), "unexpected JSON (data, line 2, column 9)");
        let text = format!("bad config: {:?}", undecoded());
        assert_eq!(Failure::from(text).to_string(), position);
    }

    #[test]
    fn status_is_shown_once_and_without_debug_output() {
        #[derive(Debug, thiserror::Error)]
        enum Outer {
            #[error(transparent)]
            Kube(#[from] kube_client::Error),
        }
        let forbidden = || {
            let mut status = status(&[]);
            status.details.as_mut().unwrap().kind = "Site".to_owned();
            status.message = "x".repeat(400);
            kube_client::Error::Api(Box::new(status))
        };
        let expected = format!("the server responded with 422 Invalid: {}", "x".repeat(400));
        assert_eq!(redact(&forbidden()), expected);
        assert_eq!(redact(&Outer::from(forbidden())), expected);
        assert_eq!(Failure::from(anyhow::Error::new(forbidden())).to_string(), expected);
        assert_eq!(Failure::from(anyhow::Error::new(rejected())).to_string(), REJECTED);
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
