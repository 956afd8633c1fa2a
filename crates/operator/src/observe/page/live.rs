//! The stream of updates of a page: server-sent events with the sections that have changed.

use std::{
    collections::HashMap,
    convert::Infallible,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use axum::{
    body::Body,
    http::{Extensions, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{layout, security::Access, view::View};
use crate::observe::{pages::PageState, serve::ConnectionClosing};

/// The time between two updates.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// The number of intervals without a change until the stream contains a comment. The comment keeps the
/// connection alive in the client and in proxies.
const QUIET_INTERVALS: u32 = 15;

/// The time after which a browser opens a closed stream again, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";

/// The maximum age of a stream if no token is required. The age limit of the connection is lower.
const MAX_STREAM_AGE: Duration = Duration::from_secs(24 * 3600);

/// Returns a stream of server-sent events: first all sections, and then each changed section. The stream
/// stops at its maximum age, or when the server closes the connection.
pub(super) fn stream(state: Arc<PageState>, view: View, access: Access, extensions: &Extensions) -> Response {
    let closing =
        extensions.get::<ConnectionClosing>().map_or_else(CancellationToken::new, |it| it.0.clone());
    let updates = Updates::new(state, view, closing, access.max_stream_age().unwrap_or(MAX_STREAM_AGE));
    let body = stream::unfold(updates, |mut updates| async move {
        let text = updates.next().await?;
        Some((Ok::<_, Infallible>(text), updates))
    });
    ([(CONTENT_TYPE, "text/event-stream; charset=utf-8")], Body::from_stream(body)).into_response()
}

/// The state of one stream.
struct Updates {
    state: Arc<PageState>,
    view: View,
    closing: CancellationToken,
    ends: Instant,
    ticks: Interval,
    hasher: RandomState,
    /// The hash of the latest text of each element.
    sent: HashMap<&'static str, u64>,
    /// The number of intervals without a change.
    quiet: u32,
}

impl Updates {
    fn new(state: Arc<PageState>, view: View, closing: CancellationToken, max_age: Duration) -> Self {
        let mut ticks = interval(UPDATE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ends = Instant::now() + max_age;
        let (hasher, sent) = (RandomState::new(), HashMap::new());
        Self { state, view, closing, ends, ticks, hasher, sent, quiet: 0 }
    }

    /// Waits for the next part of the stream. Returns `None` at its end.
    async fn next(&mut self) -> Option<String> {
        loop {
            let is_first = self.sent.is_empty();
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return None,
                () = sleep_until(self.ends) => return None,
                _ = self.ticks.tick() => {}
            }
            let changes = self.changes();
            if !changes.is_empty() {
                self.quiet = 0;
                return Some(if is_first { format!("{RETRY}{changes}") } else { changes });
            }
            self.quiet += 1;
            if self.quiet == QUIET_INTERVALS {
                self.quiet = 0;
                return Some(": no change\n\n".to_owned());
            }
        }
    }

    /// Returns an event for each element that differs from its latest text.
    fn changes(&mut self) -> String {
        let header = (layout::STATE_ID, layout::manager_state(&self.state));
        let page = self.view.render(&self.state);
        let sections = page.sections.iter().map(|section| (section.id, section.markup()));
        let mut events = String::new();
        for (id, markup) in std::iter::once(header).chain(sections) {
            let text = markup.into_string();
            let hash = self.hasher.hash_one(&text);
            if self.sent.insert(id, hash) != Some(hash) {
                events.push_str(&event(id, &text));
            }
        }
        events
    }
}

/// Returns an event whose first line is the id of an element, and whose further lines are its HTML.
fn event(id: &str, html: &str) -> String {
    let mut event = format!("event: section\ndata: {id}\n");
    for line in html.split(['\n', '\r']) {
        event.push_str("data: ");
        event.push_str(line);
        event.push('\n');
    }
    event.push('\n');
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_html_stay_within_their_event() {
        assert_eq!(event("a", "<p>\nb\r</p>"), "event: section\ndata: a\ndata: <p>\ndata: b\ndata: </p>\n\n");
    }
}
