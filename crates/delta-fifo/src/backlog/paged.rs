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

    /// Returns true if all events are initial Adds, and false if no event is an initial Add. A mix of
    /// initial Adds and other events is not permitted.
    fn is_initial(&self) -> bool;

    /// Returns the page at `cursor`, with at most `limit` events, and the cursor of the next page.
    /// The cursor of the first page is zero. After the last page, the next cursor is `None`. A page
    /// may be empty.
    fn page(&self, cursor: usize, limit: usize) -> (Arc<[Event<T>]>, Option<usize>);
}

/// Holds the events of a large write, which all handlers share.
///
/// The list consists of pages. A page is freed when the last handler has received it.
pub struct EventList<T> {
    first: Option<Arc<ListedPage<T>>>,
    len: usize,
    is_initial: bool,
}

struct ListedPage<T> {
    events: Arc<[Event<T>]>,
    next: Option<Arc<ListedPage<T>>>,
}

/// Frees the following pages one after the other. A recursive drop would need a stack frame for each page.
impl<T> Drop for ListedPage<T> {
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut page) = next.and_then(Arc::into_inner) {
            next = page.next.take();
        }
    }
}

impl<T> EventList<T> {
    /// Creates a list of these events. Either all events or none of the events must be initial Adds.
    pub fn new(events: Vec<Event<T>>) -> Self {
        let (len, is_initial) = (events.len(), events.first().is_some_and(is_initial));
        let (mut events, mut pages) = (events.into_iter(), Vec::with_capacity(len.div_ceil(PAGE)));
        while events.len() > 0 {
            pages.push(events.by_ref().take(PAGE).collect());
        }
        let link = |next, events| Some(Arc::new(ListedPage { events, next }));
        Self { first: pages.into_iter().rev().fold(None, link), len, is_initial }
    }

    /// Returns whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The remaining pages.
pub(super) struct Paged<T> {
    next: NextPage<T>,
    remaining: usize,
    is_initial: bool,
}

/// The source of the next page.
enum NextPage<T> {
    /// The page at this cursor. No page follows the cursor `None`.
    Created(Arc<dyn EventPages<T>>, Option<usize>),
    Listed(Option<Arc<ListedPage<T>>>),
}

impl<T> Clone for Paged<T> {
    fn clone(&self) -> Self {
        let next = match &self.next {
            NextPage::Created(pages, cursor) => NextPage::Created(Arc::clone(pages), *cursor),
            NextPage::Listed(page) => NextPage::Listed(page.clone()),
        };
        Self { next, ..*self }
    }
}

impl<T> Paged<T> {
    pub(super) fn new(pages: Arc<dyn EventPages<T>>) -> Self {
        let (remaining, is_initial) = (pages.len(), pages.is_initial());
        Self { next: NextPage::Created(pages, Some(0)), remaining, is_initial }
    }

    pub(super) fn of_list(list: &EventList<T>) -> Self {
        let EventList { first, len, is_initial } = list;
        Self { next: NextPage::Listed(first.clone()), remaining: *len, is_initial: *is_initial }
    }

    /// Returns the number of remaining events.
    pub(super) fn len(&self) -> usize {
        self.remaining
    }

    pub(super) fn initial(&self) -> usize {
        if self.is_initial { self.remaining } else { 0 }
    }

    /// Returns the next page that is not empty. After the last event, returns an empty page.
    pub(super) fn next_page(&mut self) -> Arc<[Event<T>]> {
        while let Some(events) = self.next.take() {
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

impl<T> NextPage<T> {
    /// Returns the next page, which can be empty. Returns `None` after the last page.
    fn take(&mut self) -> Option<Arc<[Event<T>]>> {
        match self {
            NextPage::Created(pages, cursor) => {
                let (events, next) = pages.page((*cursor)?, PAGE);
                *cursor = next;
                Some(events)
            }
            NextPage::Listed(next) => {
                let page = next.take()?;
                next.clone_from(&page.next);
                Some(Arc::clone(&page.events))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_of_long_list_does_not_overflow_stack() {
        let link = |next, _| Some(Arc::new(ListedPage::<()> { events: Arc::new([]), next }));
        let first = (0..500_000).fold(None, link);
        drop(EventList { first, len: 0, is_initial: false });
    }
}
