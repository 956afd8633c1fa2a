//! `Paged`: a queued batch whose events are created when they are delivered.

use std::sync::Arc;

use kube_object::{Event, ObjectKey};

use super::coalesced::is_initial;

/// The maximum number of events of a page.
const PAGE: usize = 256;

/// Creates events from an immutable state, for example the initial Adds of a new handler.
pub trait EventPages<T>: Send + Sync {
    /// Returns the number of events of all pages.
    fn len(&self) -> usize;

    /// Returns whether there are no events.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether all events are initial Adds. Otherwise, none is.
    fn is_initial(&self) -> bool;

    /// Returns at most `limit` events from the cursor on, and the cursor of the next page. The first
    /// cursor is zero. The last page has no next cursor. A page may be empty.
    fn page(&self, cursor: usize, limit: usize) -> (Arc<[Event<T>]>, Option<usize>);
}

/// Holds the events of a large write, which all handlers share.
///
/// Each page has the maximum length of a page, so that a delivery clones no event.
pub struct EventList<T> {
    pages: Vec<Arc<[Event<T>]>>,
    len: usize,
    is_initial: bool,
}

impl<T> EventList<T> {
    /// Creates a list of these events. Either all events are initial Adds, or none is.
    pub fn new(events: Vec<Event<T>>) -> Self {
        let (len, is_initial) = (events.len(), events.first().is_some_and(is_initial));
        let (mut events, mut pages) = (events.into_iter(), Vec::with_capacity(len.div_ceil(PAGE)));
        while events.len() > 0 {
            pages.push(events.by_ref().take(PAGE).collect());
        }
        Self { pages, len, is_initial }
    }
}

impl<T: Send + Sync> EventPages<T> for EventList<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn is_initial(&self) -> bool {
        self.is_initial
    }

    fn page(&self, cursor: usize, _: usize) -> (Arc<[Event<T>]>, Option<usize>) {
        let page = self.pages.get(cursor).map_or_else(|| Arc::from([]), Arc::clone);
        (page, Some(cursor + 1).filter(|next| *next < self.pages.len()))
    }
}

/// The remaining pages.
pub(super) struct Paged<T> {
    pages: Arc<dyn EventPages<T>>,
    /// The cursor of the next page. `None` after the last page.
    cursor: Option<usize>,
    remaining: usize,
}

impl<T> Clone for Paged<T> {
    fn clone(&self) -> Self {
        Self { pages: Arc::clone(&self.pages), ..*self }
    }
}

impl<T> Paged<T> {
    pub(super) fn new(pages: Arc<dyn EventPages<T>>) -> Self {
        let remaining = pages.len();
        Self { pages, cursor: Some(0), remaining }
    }

    /// Returns the number of remaining events.
    pub(super) fn len(&self) -> usize {
        self.remaining
    }

    pub(super) fn initial(&self) -> usize {
        if self.pages.is_initial() { self.remaining } else { 0 }
    }

    /// Returns the next page that is not empty. After the last event, returns an empty page.
    pub(super) fn next_page(&mut self) -> Arc<[Event<T>]> {
        while let Some(cursor) = self.cursor {
            let (events, next) = self.pages.page(cursor, PAGE);
            self.cursor = next;
            self.remaining = self.remaining.saturating_sub(events.len());
            if !events.is_empty() {
                return events;
            }
        }
        self.remaining = 0;
        Arc::new([])
    }

    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        let (mut rest, mut keys) = (self.clone(), Vec::with_capacity(self.remaining));
        loop {
            let page = rest.next_page();
            if page.is_empty() {
                return keys;
            }
            keys.extend(page.iter().map(|event| event.key().clone()));
        }
    }
}
