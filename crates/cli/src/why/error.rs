//! `WhyError`: the reasons why a page cannot be read.

use std::time::Duration;

/// The maximum size of a page.
pub(super) const MAX_PAGE_BYTES: usize = 16 << 20;

/// Describes why a page of a program cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum WhyError {
    /// The connection fails.
    #[error(
        "cannot connect to {program}: {problem}; check that the program runs, and serves its pages at this address and port"
    )]
    NoAnswer { program: String, problem: String },
    /// The program requires a token.
    #[error("{program} requires a valid token for {page} (401); use --token-file FILE or --kubeconfig-token")]
    Unauthorized { program: String, page: String },
    /// The account of the token may not read the page.
    #[error(
        "the account of the token may not read {page} of {program} (403); grant the verb get for the nonResourceURL {}",
        right(page)
    )]
    Forbidden { program: String, page: String },
    /// The program does not serve the page.
    #[error(
        "{program} does not serve {page} (404); use the bind_address of a kube-operator program of this version, not its probe address"
    )]
    NoPage { program: String, page: String },
    /// The program does not know the controller or the key.
    #[error("{0}")]
    UnknownKey(String),
    /// The Deployment has no running Pod.
    #[error("the Deployment {namespace}/{name} has no running Pod; check the events of its Pods")]
    NoRunningPod { namespace: String, name: String },
    /// The operator of the demo has no failed key in time.
    #[error("the operator of the demo did not start in time; repeat the command")]
    LateDemo,
    /// The response has another status code.
    #[error("{program} responded to {page} with the status {code}: {text}; see the log of the program")]
    Status { program: String, page: String, code: u16, text: String },
    /// The response is not the JSON of the page.
    #[error("{page} of {program} is not a page of a kube-operator program; check the address and the port")]
    Malformed { program: String, page: String, source: serde_json::Error },
    /// The response is too long.
    #[error("{page} of {program} has more than {} MiB; check the address and the port", MAX_PAGE_BYTES >> 20)]
    TooLarge { program: String, page: String },
    /// The response takes too long.
    #[error("{program} did not send {page} within {:.1} s; use a longer --timeout", timeout.as_secs_f64())]
    TimedOut { program: String, page: String, timeout: Duration },
}

/// Returns the nonResourceURL that contains the page.
fn right(page: &str) -> &str {
    if page.starts_with("/debug/") { "/debug/*" } else { page }
}
