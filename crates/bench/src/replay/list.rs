//! Lists, generated item by item while they are sent.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;

use super::request::{ListParameters, Token};
use super::{Body, Replay};
use crate::wire::Wire;

/// A page: a range of items after an event.
struct Page {
    wire: Wire,
    event: u64,
    first: usize,
    end: usize,
}

impl Replay {
    /// Returns a page or the complete list.
    pub(super) fn list(self: &Arc<Self>, request: &ListParameters) -> Body {
        self.counts.send_modify(|counts| counts.pages += 1);
        let objects = self.history.objects();
        let begin = Token { event: self.released.borrow().last, item: 0 };
        let Token { event, item: first } = request.token.unwrap_or(begin);
        let first = first.min(objects);
        let end = request.limit.map_or(objects, |limit| objects.min(first.saturating_add(limit)));
        let page = Arc::new(Page { wire: request.wire, event, first, end });
        let replay = Arc::clone(self);
        let chunks = (0..page.end - page.first + 2).map(move |chunk| replay.chunk(&page, chunk));
        let frames = chunks.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
        StreamBody::new(stream::iter(frames)).boxed_unsync()
    }

    /// Returns a part of a page: the head, an item or the tail.
    fn chunk(&self, page: &Page, chunk: usize) -> Bytes {
        let items = page.end - page.first;
        match chunk {
            0 => self.head(page),
            _ if chunk > items => {
                if page.end == self.history.objects() {
                    self.counts.send_modify(|counts| counts.lists += 1);
                }
                Bytes::from_static(page.wire.list_tail())
            }
            _ => {
                let mut bytes = Vec::with_capacity(16 << 10);
                let (object, stamp) = self.object(page.wire, page.first + chunk - 1, page.event);
                page.wire.item(&mut bytes, object, stamp, chunk == 1);
                bytes.into()
            }
        }
    }

    fn head(&self, page: &Page) -> Bytes {
        let &Page { wire, event, first, end } = page;
        let length = (first..end).map(|index| wire.item_length(self.object(wire, index, event).0)).sum();
        let token = Token { event, item: end }.text();
        let left = (self.history.objects() - end) as u64;
        let next = (left > 0).then_some((token.as_str(), left));
        wire.list_head(self.recording.manifest.kind, self.history.version(event), next, length).into()
    }
}
