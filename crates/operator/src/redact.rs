//! What is shown of errors in logs, on pages and in the words of a [`Failure`](crate::Failure): enough to find the cause,
//! and nothing of an object.
//!
//! A server quotes what it refuses, and serde_json what it does not understand. Of a refusal its code, its reason and the
//! names of the fields are shown; of what is not understood, where it stands. Everything else has its own words, cut.

use std::{error::Error, iter::successors};

use http::StatusCode;
use kube_client::core::Status;
use serde_json::error::Category;

/// So many characters of the words of one error are shown, and so many causes of it.
const WORDS: usize = 512;
const CAUSES: usize = 32;
/// So many fields of a refusal are named, each with so many characters.
const FIELDS: usize = 8;
const FIELD: usize = 64;

/// kube-client's reason where an answer is no Status, as of a proxy.
const NO_STATUS: &str = "Failed to parse error data";

/// What may be said of this error and its causes, on one line.
pub(crate) fn redact(error: &(dyn Error + 'static)) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut say = |words: &str| {
        let words = line(words, WORDS);
        // Some errors say what their cause says.
        if !words.is_empty() && !said.last().is_some_and(|before| before.contains(&words)) {
            said.push(words);
        }
    };
    let chain = || successors(Some(error), |error| (**error).source()).take(CAUSES);
    let Some((at, quoting)) = chain().enumerate().find_map(|(at, error)| Some((at, Quoting::of(error)?)))
    else {
        chain().for_each(|error| say(&error.to_string()));
        return said.join(": ");
    };
    for outer in chain().take(at) {
        let words = outer.to_string().replace(&quoting.in_full, &quoting.shown);
        if !quoting.quotes.iter().any(|quote| words.contains(quote)) {
            say(&words);
        }
    }
    say(&quoting.shown);
    said.join(": ")
}

/// An error whose own words may quote an object. Its causes are the same in other words.
struct Quoting {
    /// Its own words, which those around it may repeat.
    in_full: String,
    /// Those of them that quote, as they are and as `Debug` shows them.
    quotes: Vec<String>,
    shown: String,
}

impl Quoting {
    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let status = match error.downcast_ref::<kube_client::Error>() {
            Some(kube_client::Error::Api(status)) => Some(&**status),
            Some(kube_client::Error::SerdeError(undecoded)) => {
                return Some(Self::undecoded(error, undecoded));
            }
            // The cause of an `Api` is the box itself.
            _ => error
                .downcast_ref::<Status>()
                .or_else(|| error.downcast_ref::<Box<Status>>().map(|boxed| &**boxed)),
        };
        match status {
            Some(status) => Some(Self::refusal(error, status)),
            None => Some(Self::undecoded(error, error.downcast_ref()?)),
        }
    }

    fn refusal(error: &dyn Error, status: &Status) -> Self {
        let causes = || status.details.iter().flat_map(|details| &details.causes);
        let messages = [&status.message].into_iter().chain(causes().map(|cause| &cause.message));
        let code = StatusCode::from_u16(status.code).ok();
        let reason = match status.reason.as_str() {
            "" | NO_STATUS => code.and_then(|code| code.canonical_reason()).unwrap_or("without a reason"),
            reason => reason,
        };
        let fields = causes().map(|cause| line(&cause.field, FIELD)).filter(|field| !field.is_empty());
        let fields: Vec<String> = fields.take(FIELDS).collect();
        let about = if fields.is_empty() { String::new() } else { format!(" ({})", fields.join(", ")) };
        let shown = format!("the server answered {} {}{about}", status.code, line(reason, FIELD));
        Self { in_full: error.to_string(), quotes: quotes(messages.map(String::as_str)), shown }
    }

    fn undecoded(error: &dyn Error, json: &serde_json::Error) -> Self {
        let category = match json.classify() {
            Category::Io => "I/O",
            Category::Syntax => "syntax",
            Category::Data => "data",
            Category::Eof => "end of input",
        };
        let (line, column) = (json.line(), json.column());
        let shown = format!("JSON that is not as expected ({category}, line {line}, column {column})");
        Self { in_full: error.to_string(), quotes: quotes([json.to_string().as_str()]), shown }
    }
}

fn quotes<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let debugged = |words: &str| {
        let quoted = format!("{words:?}");
        quoted[1..quoted.len() - 1].to_owned()
    };
    let words = words.into_iter().filter(|words| !words.is_empty());
    words.flat_map(|words| [words.to_owned(), debugged(words)]).collect()
}

/// As much as so many characters of it, on one line, without characters that a terminal would obey.
pub(crate) fn line(words: &str, limit: usize) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = words.chars().take(limit).map(printable).collect();
    if words.chars().nth(limit).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_client::core::response::{StatusCause, StatusDetails};
    use kube_informer::ObjectKey;

    use super::*;
    use crate::{Failure, WriteError};

    /// What must not be shown.
    const CONTENTS: &str = "hunter2";

    fn status(fields: &[&str]) -> Status {
        let cause = |field: &&str| StatusCause {
            reason: "FieldValueInvalid".to_owned(),
            message: format!("Invalid value: \"{CONTENTS}\": must be \"longer\""),
            field: (*field).to_owned(),
        };
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: fields.iter().map(cause).collect(),
            retry_after_seconds: 0,
        };
        let message = format!("Secret \"a\" is invalid: data.password: Invalid value: \"{CONTENTS}\"");
        Status::failure(&message, "Invalid").with_code(422).with_details(details)
    }

    fn refused() -> kube_client::Error {
        kube_client::Error::Api(Box::new(status(&["data.password", "", "metadata.name"])))
    }

    fn undecoded() -> serde_json::Error {
        serde_json::from_str::<Vec<u8>>(&format!("\n\"{CONTENTS}\"")).unwrap_err()
    }

    /// As many programs have one.
    #[derive(Debug, thiserror::Error)]
    enum Own {
        #[error("can't make the Secret: {0}")]
        Said(#[source] kube_client::Error),
        #[error("can't make the Secret")]
        Silent(#[source] Arc<kube_client::Error>),
        #[error("can't make the Secret, {0:?}")]
        Debugged(#[source] Box<Status>),
    }

    const REFUSED: &str = "the server answered 422 Invalid (data.password, metadata.name)";

    #[test]
    fn status_error_shows_code_reason_and_fields() {
        assert_eq!(redact(&refused()), REFUSED);
        assert_eq!(redact(&status(&[])), "the server answered 422 Invalid");
        for reason in ["", NO_STATUS] {
            let bare = Status::failure(CONTENTS, reason).with_code(503);
            assert_eq!(redact(&bare), "the server answered 503 Service Unavailable");
        }
        let many = redact(&status(&["spec"; 1000]));
        assert!(many.len() < 200, "{many}");
    }

    #[test]
    fn outer_errors_do_not_quote_the_status() {
        let key = ObjectKey::new(Some("shop"), "a");
        let failed = WriteError::Request { key, source: refused() };
        assert_eq!(redact(&failed), format!("can't write shop/a: {REFUSED}"));
        assert_eq!(redact(&Own::Said(refused())), format!("can't make the Secret: {REFUSED}"));
        assert_eq!(redact(&Own::Debugged(Box::new(status(&["a"])))), "the server answered 422 Invalid (a)");
        let shared = Own::Silent(Arc::new(refused()));
        assert_eq!(redact(&shared), format!("can't make the Secret: {REFUSED}"));
        let failure = Failure::terminal(Box::new(refused()) as Box<dyn Error + Send + Sync>);
        assert_eq!(
            (failure.to_string(), format!("{failure:?}")),
            (REFUSED.to_owned(), format!("Failure(terminal: {REFUSED})"))
        );
    }

    #[test]
    fn decode_error_shows_only_the_position() {
        let expected = "JSON that is not as expected (data, line 2, column 9)";
        assert_eq!(redact(&undecoded()), expected);
        assert_eq!(redact(&kube_client::Error::SerdeError(undecoded())), expected);
        let body = kube_client::core::request::Error::SerializeBody(undecoded());
        let unsent = redact(&kube_client::Error::BuildRequest(body));
        assert!(unsent.contains(expected) && !unsent.contains(CONTENTS), "{unsent}");
    }

    #[test]
    fn other_errors_are_shown_on_one_line_and_truncated() {
        let broken = std::io::Error::other("the \x1b[31mpipe\nis broken");
        let service = kube_client::Error::Service(Box::new(broken));
        assert_eq!(redact(&service), "ServiceError: the  [31mpipe is broken");
        let long = redact(&std::io::Error::other("ä".repeat(10_000)));
        assert_eq!(long, format!("{}…", "ä".repeat(WORDS)));
    }
}
