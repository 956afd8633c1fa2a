//! The entries of a recording.

use serde::{Deserialize, Serialize};

/// An entry. All times are microseconds since the start of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Entry {
    /// The recording started. This is the first entry.
    Start { default_namespace: String },
    /// The program sent a request.
    Request { number: u64, method: String, path: String },
    /// The head of a response arrived.
    Response { number: u64, at: u64, status: u16, content_type: String },
    /// The program received a part of a response: an event of a watch, or an entire body.
    Chunk { number: u64, at: u64, text: String },
    /// The response is complete.
    End { number: u64, at: u64 },
    /// The connection broke before the response, or within it.
    Broken { number: u64, at: u64 },
}

/// Returns the part of a URL that identifies a request in a recording. Removes the timeout of a watch, which
/// is random, and the names of Events, which contain the time.
pub(super) fn route(path_and_query: &str) -> String {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    let path = path.find("/events/").map_or(path, |end| &path[..end + "/events".len()]);
    let kept: Vec<&str> =
        query.split('&').filter(|part| !part.is_empty() && !part.starts_with("timeoutSeconds=")).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}
