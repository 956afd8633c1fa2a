//! Checks of watches: streaming lists and bookmarks.

use std::{collections::BTreeMap, time::Duration};

use http::StatusCode;
use kube_client::Client;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::{
    lists::Listed,
    report::{Finding, Verdict},
    requests::{Accept, Opened, ProbeError, open},
};

/// The maximum size of one event. The server limits objects to about 3 MiB.
const MAX_EVENT_BYTES: usize = 8 << 20;
/// The maximum number of bytes of a streaming list. Only metadata is transferred.
const MAX_STREAM_BYTES: usize = 256 << 20;
/// The annotation of the bookmark at the end of the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Object,
    Bookmark { ends_initial_events: bool },
    Error { code: u16, message: String },
}

#[derive(Deserialize)]
struct EventLine {
    r#type: String,
    object: EventObject,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EventObject {
    metadata: EventMetadata,
    code: u16,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EventMetadata {
    annotations: BTreeMap<String, String>,
}

/// The events of a watch.
struct Events {
    response: Opened,
    buffer: Vec<u8>,
    total: usize,
}

impl Events {
    async fn open(client: &Client, uri: &str) -> Result<Self, ProbeError> {
        let response = open(client, uri, Accept::MetadataEvents).await?;
        Ok(Self { response, buffer: Vec::new(), total: 0 })
    }

    /// Returns the next event. `None` if the server closed the watch.
    async fn next(&mut self) -> Result<Option<Event>, ProbeError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return event(&line).map(Some);
            }
            if self.buffer.len() > MAX_EVENT_BYTES || self.total > MAX_STREAM_BYTES {
                return Err(ProbeError::Failed("the watch sent too many bytes".to_owned()));
            }
            let Some(chunk) = self.response.chunk().await? else { return Ok(None) };
            self.total += chunk.len();
            self.buffer.extend_from_slice(&chunk);
        }
    }
}

fn event(line: &[u8]) -> Result<Event, ProbeError> {
    let line: EventLine = serde_json::from_slice(line)
        .map_err(|error| ProbeError::Failed(format!("the watch sent no valid event: {error}")))?;
    Ok(match line.r#type.as_str() {
        "BOOKMARK" => {
            let mark = line.object.metadata.annotations.get(INITIAL_EVENTS_END);
            Event::Bookmark { ends_initial_events: mark.is_some_and(|value| value == "true") }
        }
        "ERROR" => Event::Error { code: line.object.code, message: line.object.message },
        _ => Event::Object,
    })
}

/// The result of a search for an event.
enum Search {
    Found { objects: usize },
    Closed { objects: usize },
    TimedOut { objects: usize },
}

/// Reads a watch until an event is the wanted one, at most until the deadline.
async fn search(
    events: &mut Events,
    deadline: Instant,
    is_wanted: impl Fn(&Event) -> bool,
) -> Result<Search, ProbeError> {
    let mut objects = 0;
    let found = async {
        loop {
            match events.next().await? {
                None => return Ok(false),
                Some(Event::Error { code, message }) => {
                    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                    return Err(ProbeError::Rejected { code, message });
                }
                Some(event) if is_wanted(&event) => return Ok(true),
                Some(Event::Object) => objects += 1,
                Some(Event::Bookmark { .. }) => {}
            }
        }
    };
    let found = timeout_at(deadline, found).await;
    Ok(match found {
        Ok(Ok(true)) => Search::Found { objects },
        Ok(Ok(false)) => Search::Closed { objects },
        Ok(Err(error)) => return Err(error),
        Err(_) => Search::TimedOut { objects },
    })
}

/// Requests a streaming list, and waits for a bookmark of its watch. Without streaming lists, opens another
/// watch for the bookmark.
pub(super) async fn streaming(client: &Client, listed: &Listed<'_>, wait: Duration) -> [Finding; 2] {
    let start = Instant::now();
    let uri = listed.target.uri(&[
        ("watch", "true"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", &watch_seconds(wait)),
    ]);
    let result = async {
        let mut events = Events::open(client, &uri).await?;
        let is_end = |event: &Event| matches!(event, Event::Bookmark { ends_initial_events: true });
        let search = search(&mut events, start + wait, is_end).await?;
        Ok((events, search))
    };
    let result = result.await;
    let name = listed.target.name();
    let streaming = streaming_finding(&name, &result, start.elapsed(), wait);
    let bookmarks = match result {
        Ok((mut events, Search::Found { .. })) => {
            let search = search(&mut events, start + wait, is_bookmark).await;
            bookmarks_finding(&name, search, start.elapsed())
        }
        _ => bookmarks(client, listed, wait).await,
    };
    [streaming, bookmarks]
}

fn streaming_finding(
    name: &str,
    result: &Result<(Events, Search), ProbeError>,
    elapsed: Duration,
    wait: Duration,
) -> Finding {
    const CHECK: &str = "streaming lists";
    let remedy =
        "informers list in pages, which needs more memory in the server; enable the feature gate WatchList";
    let amber = |detail: String, remedy: &str| Finding::new(CHECK, Verdict::Amber, detail, remedy);
    match result {
        Ok((_, Search::Found { objects })) => {
            let detail = format!("the server streams lists: {objects} {name} in {} ms", elapsed.as_millis());
            Finding::green(CHECK, detail)
        }
        Ok((_, Search::Closed { objects })) => amber(
            format!("the server closed a watch after {objects} {name}, without the end of the list"),
            remedy,
        ),
        Ok((_, Search::TimedOut { objects })) => amber(
            format!("{objects} {name}, and no end of the list in {:.1} s", wait.as_secs_f64()),
            "repeat the check with a longer --wait; if the result is the same, enable the feature gate WatchList",
        ),
        Err(error) if error.has_code(StatusCode::FORBIDDEN) => not_allowed(CHECK, error),
        Err(error) => amber(format!("the server does not stream lists of {name}: {error}"), remedy),
    }
}

/// Opens a watch with a short timeout, and waits for a bookmark. kube-apiserver sends a bookmark about each
/// minute, and two seconds before the timeout of the watch.
async fn bookmarks(client: &Client, listed: &Listed<'_>, wait: Duration) -> Finding {
    let start = Instant::now();
    let uri = listed.target.uri(&[
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", &listed.page.metadata.resource_version),
        ("timeoutSeconds", &watch_seconds(wait)),
    ]);
    let result = async {
        let mut events = Events::open(client, &uri).await?;
        search(&mut events, start + wait, is_bookmark).await
    };
    bookmarks_finding(&listed.target.name(), result.await, start.elapsed())
}

fn is_bookmark(event: &Event) -> bool {
    matches!(event, Event::Bookmark { .. })
}

fn bookmarks_finding(name: &str, search: Result<Search, ProbeError>, elapsed: Duration) -> Finding {
    const CHECK: &str = "bookmarks";
    let elapsed = elapsed.as_secs_f64();
    match search {
        Ok(Search::Found { .. }) => {
            Finding::green(CHECK, format!("a watch of {name} received a bookmark after {elapsed:.1} s"))
        }
        Ok(search @ (Search::Closed { .. } | Search::TimedOut { .. })) => Finding::new(
            CHECK,
            Verdict::Amber,
            if matches!(search, Search::Closed { .. }) {
                format!("the server closed a watch of {name} after {elapsed:.1} s, without a bookmark")
            } else {
                format!("a watch of {name} received no bookmark within {elapsed:.1} s")
            },
            "repeat the check with --wait 70s; without bookmarks, informers list again after a pause of the watch",
        ),
        Err(error) if error.has_code(StatusCode::FORBIDDEN) => not_allowed(CHECK, &error),
        Err(error) => Finding::new(
            CHECK,
            Verdict::Red,
            format!("a watch of {name} failed: {error}"),
            "check the API server, and proxies that do not support long requests",
        ),
    }
}

fn not_allowed(check: &'static str, error: &ProbeError) -> Finding {
    let detail = format!("not measured: {error}");
    Finding::new(
        check,
        Verdict::Amber,
        detail,
        "repeat the check with an account that may watch the resource",
    )
}

/// Returns the duration of a watch in seconds. The server sends the last bookmark two seconds before the end.
fn watch_seconds(wait: Duration) -> String {
    wait.as_secs_f64().ceil().max(3.0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_classified() {
        let parsed = |line: &str| event(line.as_bytes()).ok();
        assert_eq!(parsed(r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#), Some(Event::Object));
        assert_eq!(
            parsed(
                r#"{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}"#
            ),
            Some(Event::Bookmark { ends_initial_events: true })
        );
        assert_eq!(
            parsed(r#"{"type":"BOOKMARK","object":{}}"#),
            Some(Event::Bookmark { ends_initial_events: false })
        );
        assert_eq!(
            parsed(r#"{"type":"ERROR","object":{"code":410,"message":"old"}}"#),
            Some(Event::Error { code: 410, message: "old".to_owned() })
        );
        assert_eq!(parsed("<html>"), None);
    }

    #[test]
    fn watch_is_long_enough_for_its_last_bookmark() {
        assert_eq!(watch_seconds(Duration::from_millis(100)), "3");
        assert_eq!(watch_seconds(Duration::from_millis(5100)), "6");
    }
}
