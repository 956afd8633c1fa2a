//! `CliError`: the errors that all commands share.

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
};

use kube_client::config::{InClusterError, KubeconfigError};

use crate::output::{printable, shortened};

/// Describes why a command failed. The program prints it as one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The kubeconfig cannot be read, or contains no such context.
    #[error("failed to read the kubeconfig{}; check --kubeconfig and --context", in_file(file))]
    Kubeconfig {
        /// The value of `--kubeconfig`.
        file: Option<PathBuf>,
        source: Box<KubeconfigError>,
    },
    /// The program found no kubeconfig, and does not run in a Pod.
    #[error("found no kubeconfig, and this is not a Pod of a cluster; use --kubeconfig FILE, or try --demo")]
    NoCluster {
        #[source]
        source: Box<InClusterError>,
    },
    /// A request failed.
    #[error("failed to {operation}")]
    Request {
        /// The operation, for example `list the API groups`.
        operation: String,
        source: Box<kube_client::Error>,
    },
    /// The server has no such resource.
    #[error("the server has no resource {name:?}; {}", resource_hint(name))]
    UnknownResource {
        /// The name in the command line.
        name: String,
    },
    /// A file cannot be read or written.
    #[error("failed to {operation} {}", file.display())]
    File {
        /// The operation, for example `write`.
        operation: &'static str,
        file: PathBuf,
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("failed to write to standard output")]
    Output(#[source] io::Error),
    /// The values of flags contradict each other.
    #[error("{0}")]
    Usage(String),
    /// An error of one command.
    #[error(transparent)]
    Command(#[from] Box<dyn Error + Send + Sync>),
}

fn resource_hint(name: &str) -> &'static str {
    if name.contains('/') {
        "use the resource without the name of an object"
    } else {
        "`kubectl api-resources` lists the resources"
    }
}

fn in_file(file: &Option<PathBuf>) -> String {
    file.as_ref().map_or_else(String::new, |file| format!(" {}", file.display()))
}

impl CliError {
    /// Creates an error of a request. `operation` completes the sentence "failed to …".
    pub(crate) fn request(operation: impl Into<String>, source: kube_client::Error) -> Self {
        Self::Request { operation: operation.into(), source: Box::new(source) }
    }

    /// Creates an error of a command line that selects no resource.
    pub(crate) fn no_resource() -> Self {
        Self::Usage("no resource is selected; use for example `pods,deploy`".to_owned())
    }

    /// Returns whether standard output was closed, for example by `| head`.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns the error and its sources as one line. Control characters become spaces. Characters that
    /// change the direction of the text are replaced.
    pub(crate) fn one_line(&self) -> String {
        let text = with_sources(self);
        let is_gap = |c: char| c.is_control() || c.is_whitespace();
        let line = text.split(is_gap).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        shortened(&printable(&line), MAX_LINE_CHARS)
    }
}

/// Checks that the folder of an output file exists, and that the file is not a folder. A command calls this
/// before its work.
///
/// # Errors
///
/// Fails if the folder does not exist or cannot be read, or if the file is a folder.
pub(crate) fn check_folder_of(file: &Path) -> Result<(), CliError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let found = fs::metadata(folder.unwrap_or(Path::new(".")));
    let checked =
        found.and_then(|_| if file.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) });
    checked.map_err(|source| CliError::File { operation: "write", file: file.to_owned(), source })
}

/// Returns an error and its sources. Some errors already contain the text of their source.
pub(crate) fn with_sources(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let response = response(error);
        let part = response.clone().unwrap_or_else(|| error.to_string());
        // The name of a variant of kube-client's error is not useful for users.
        let part = part.strip_prefix("ServiceError: ").map_or(part.clone(), str::to_owned);
        if !text.contains(&part) {
            let separator = if text.is_empty() { "" } else { ": " };
            text.push_str(&format!("{separator}{part}"));
        }
        next = error.source().filter(|_| response.is_none());
    }
    text
}

/// Returns the message of the server, if this is an API error of kube-client. Its own text contains the
/// response in the notation of Rust.
fn response(error: &(dyn Error + 'static)) -> Option<String> {
    let boxed = error.downcast_ref::<Box<kube_client::Error>>().map(|error| &**error);
    match boxed.or_else(|| error.downcast_ref())? {
        kube_client::Error::Api(status) => {
            Some(format!("the server responded with {}: {}", status.code, status.message))
        }
        _ => None,
    }
}

/// The maximum length of an error. A proxy can send a page of HTML.
const MAX_LINE_CHARS: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_with_line_breaks_is_one_line() {
        let error = CliError::Usage("a\nb\t\u{1b}[31mc\u{202e}d".to_owned());
        assert_eq!(error.one_line(), "a b [31mc\u{fffd}d");
    }

    #[test]
    fn error_contains_its_sources_once() {
        let source = io::Error::other("disk is full");
        let error = CliError::File { operation: "write", file: "/a".into(), source };
        assert_eq!(error.one_line(), "failed to write /a: disk is full");
    }

    #[test]
    fn response_of_server_is_its_code_and_message() {
        let status = kube_client::core::Status::failure("pods is forbidden", "Forbidden").with_code(403);
        let error = CliError::request("list pods", kube_client::Error::Api(Box::new(status)));
        let expected = "failed to list pods: the server responded with 403: pods is forbidden";
        assert_eq!(error.one_line(), expected);
    }

    #[test]
    fn folder_is_not_an_output_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.html");
        assert!(check_folder_of(&file).is_ok());
        for unusable in [folder.path(), &*file.join("x")] {
            assert!(matches!(check_folder_of(unusable), Err(CliError::File { .. })), "{unusable:?}");
        }
    }

    #[test]
    fn long_error_is_shortened() {
        let error = CliError::Usage("x".repeat(10_000));
        assert!(error.one_line().chars().count() <= MAX_LINE_CHARS);
    }
}
