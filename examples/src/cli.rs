//! Runs an example: parses its command line, and prints each failure as one line.

use std::{
    error::Error,
    panic,
    process::{self, ExitCode},
};

use clap::Parser;
use kube_informer::LabelSelector;

/// The maximum length of a server's message in an error. A proxy can send a page of HTML.
const MAX_MESSAGE_CHARS: usize = 200;

/// Parses the command line and runs `example`. Prints a failure as one line on standard error.
///
/// # Cancel safety
///
/// This function is cancel safe if `example` is.
pub async fn run<F: Parser>(example: impl AsyncFnOnce(F) -> anyhow::Result<()>) -> ExitCode {
    exit_if_output_is_closed();
    let flags = match kube_informer_cli::parse() {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    match example(flags).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// Exits without a message when standard output is closed, for example by `| head`. Otherwise, each
/// `println!` would panic.
fn exit_if_output_is_closed() {
    let print_panic = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let is_output = |message: &String| message.starts_with("failed printing to stdout");
        if panic.payload().downcast_ref().is_some_and(is_output) {
            process::exit(0);
        }
        print_panic(panic);
    }));
}

/// Validates a label selector, for `#[arg(value_parser = label_selector)]`.
///
/// # Errors
///
/// Fails if `text` is not a label selector. The error contains the position of the problem.
pub fn label_selector(text: &str) -> Result<String, String> {
    match text.parse::<LabelSelector>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Validates the name of a namespace, for `#[arg(value_parser = namespace)]`. The rule is the same as in
/// `kube-informer`.
///
/// # Errors
///
/// Fails if `text` is not a DNS label.
pub fn namespace(text: &str) -> Result<String, String> {
    let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let has_outer_dash = text.starts_with('-') || text.ends_with('-');
    if (1..=63).contains(&text.len()) && text.chars().all(is_label) && !has_outer_dash {
        Ok(text.to_owned())
    } else {
        Err("a namespace must have 1 to 63 lower-case letters, digits or dashes, without a dash at its start or end"
            .to_owned())
    }
}

/// Validates the identity of a process, for `#[arg(value_parser = identity)]`. The events of the
/// process contain the identity, and the API server limits its length.
///
/// # Errors
///
/// Fails if `text` is empty or longer than 128 bytes.
pub fn identity(text: &str) -> Result<String, String> {
    if (1..=128).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err("an identity must have 1 to 128 bytes".to_owned())
    }
}

/// Joins an error and its causes to one line. Omits a cause that an earlier message contains.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let message = message(cause);
        if !line.contains(&message) {
            line = if line.is_empty() { message } else { format!("{line}: {message}") };
        }
        if is_api_error(cause) {
            break; // the source contains the same message
        }
    }
    line
}

/// Returns the message of an error as one line. Returns the server's message if the API server returned the
/// error.
fn message(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(kube_client::Error::Api(status)) => shorten(&status.message),
        _ => join_lines(&error.to_string()),
    }
}

fn join_lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the start of a server's message as one line.
pub fn shorten(message: &str) -> String {
    let line = join_lines(message);
    match line.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

fn is_api_error(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(kube_client::Error::Api(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterArgs;

    fn problem(arguments: &[&str]) -> String {
        let arguments = ["example"].iter().chain(arguments);
        kube_informer_cli::usage_problem(&ClusterArgs::try_parse_from(arguments).unwrap_err())
    }

    #[test]
    fn usage_problem_is_one_line() {
        let misspelt = problem(&["--clustr"]);
        assert_eq!(misspelt, "unexpected argument '--clustr' found, perhaps you meant '--cluster'");
        let invalid = problem(&["--namespace", "A B"]);
        assert!(
            invalid.starts_with("invalid value 'A B' for '--namespace <NAMESPACE>': a namespace must have")
        );
        let incomplete = problem(&["--duration"]);
        assert!(incomplete.starts_with("a value is required for '--duration <TIME>'"), "{incomplete}");
    }

    #[test]
    fn namespace_is_dns_label() {
        for valid in ["a", "kube-system", "0"] {
            assert_eq!(namespace(valid), Ok(valid.to_owned()));
        }
        for invalid in ["", "-a", "a-", "A", "a.b", "a/b", &"a".repeat(64)] {
            assert!(namespace(invalid).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn long_answer_of_proxy_is_shortened_to_one_line() {
        let page = format!("<html>\n  <body>\n{}</body></html>", "<p>Bad Gateway</p>\n".repeat(100));
        let status = kube_client::core::Status::failure(&page, "Failed to parse error data").with_code(502);
        let error = anyhow::Error::new(kube_client::Error::Api(status.boxed())).context("cannot list pods");
        let line = one_line(&error);
        assert!(line.starts_with("cannot list pods: <html> <body> <p>Bad Gateway</p> <p>Bad"), "{line}");
        assert_eq!(line.chars().count(), "cannot list pods: ".len() + MAX_MESSAGE_CHARS + "...".len());
    }

    #[test]
    fn error_line_contains_each_cause_once() {
        let error = anyhow::anyhow!("disk full").context("write failed: disk full").context("cannot save");
        assert_eq!(one_line(&error), "cannot save: write failed: disk full");
    }

    #[test]
    fn one_line_of_api_error_is_the_servers_message() {
        let status = kube_client::core::Status::failure("pods is forbidden", "Forbidden").with_code(403);
        let error = anyhow::Error::new(kube_client::Error::Api(status.boxed())).context("cannot list pods");
        assert_eq!(one_line(&error), "cannot list pods: pods is forbidden");
    }
}
