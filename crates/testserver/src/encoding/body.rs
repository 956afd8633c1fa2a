//! Response bodies: bytes, a list that is serialised while it is read, or the frames of a watch.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Frame, SizeHint};

use crate::encoding::chunks::Chunks;
use crate::encoding::gzip;
use crate::encoding::object_encoder::ObjectEncoder;
use crate::faults::CutAfter;
use crate::faults::open_watches::OpenWatch;
use crate::journal::WatchEnd;
use crate::storage::entry::Entry;

/// Reports that a fault or an outage broke the connection during the response.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("connection closed by a fault of the test server")]
pub struct BodyError;

type Frames = Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

/// Contains the body of a response. The server serialises a list or a watch only while the client reads
/// the body. An unread body holds only references to stored objects.
pub struct Body {
    source: Source,
    cut: Option<CutState>,
    chunks: Option<Chunks>,
    /// The watch that produces the frames. It records its result in the journal.
    watch: Option<Arc<OpenWatch>>,
    /// Compresses each frame separately.
    gzip: bool,
}

#[derive(Clone, Copy)]
enum CutState {
    /// The body breaks after this amount of data.
    Pending(CutAfter),
    /// The previous data must be flushed before the body breaks.
    Flushing,
    /// The next poll breaks the body.
    Due,
}

enum Source {
    Bytes(Option<Bytes>),
    List(ListBody),
    Frames(Frames),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.source {
            Source::Bytes(_) => "Body(bytes)",
            Source::List(_) => "Body(list)",
            Source::Frames(_) => "Body(watch)",
        })
    }
}

impl From<Source> for Body {
    fn from(source: Source) -> Self {
        Self { source, cut: None, chunks: None, watch: None, gzip: false }
    }
}

impl Source {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        match self {
            Self::Bytes(bytes) => Poll::Ready(bytes.take().map(Ok)),
            Self::List(list) => Poll::Ready(list.chunk().map(Ok)),
            Self::Frames(frames) => frames.as_mut().poll_next(cx),
        }
    }
}

impl CutState {
    /// Returns the part of `bytes` that is still sent, and the next state.
    fn pass(self, bytes: &Bytes) -> (Bytes, Self) {
        let Self::Pending(cut) = self else { return (Bytes::new(), self) };
        let (passed, left) = match cut {
            CutAfter::Frames(left) => (bytes.clone(), CutAfter::Frames(left.saturating_sub(1))),
            CutAfter::Bytes(left) => {
                (bytes.slice(..left.min(bytes.len())), CutAfter::Bytes(left.saturating_sub(bytes.len())))
            }
        };
        (passed, Self::start(left))
    }

    fn start(cut: CutAfter) -> Self {
        if matches!(cut, CutAfter::Frames(0) | CutAfter::Bytes(0)) {
            Self::Flushing
        } else {
            Self::Pending(cut)
        }
    }
}

impl Body {
    /// Breaks this body after the given amount of data.
    pub(crate) fn cut(self, cut: CutAfter) -> Self {
        Self { cut: Some(CutState::start(cut)), ..self }
    }

    pub(crate) fn chunks(self, size: usize) -> Self {
        Self { chunks: Some(Chunks::new(size)), ..self }
    }

    pub(crate) fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self::from(Source::Bytes(Some(bytes.into()).filter(|b| !b.is_empty())))
    }

    pub(crate) fn list(list: ListBody) -> Self {
        Self::from(Source::List(list))
    }

    pub(crate) fn stream(chunks: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static) -> Self {
        Self::from(Source::Frames(Box::pin(chunks)))
    }

    pub(crate) fn frames(
        frames: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
        watch: Arc<OpenWatch>,
        gzip: bool,
    ) -> Self {
        Self { watch: Some(watch), gzip, ..Self::stream(frames) }
    }

    /// Returns the part of the source's bytes that is sent now.
    fn pass(&mut self, bytes: Bytes) -> Bytes {
        let bytes = if self.gzip { gzip::member(&bytes) } else { bytes };
        let passed = match self.cut {
            None => bytes.clone(),
            Some(cut) => {
                let (passed, left) = cut.pass(&bytes);
                self.cut = Some(left);
                passed
            }
        };
        if let Some(watch) = &self.watch {
            if passed.len() == bytes.len() {
                watch.sent();
            }
            if matches!(self.cut, Some(CutState::Flushing)) {
                watch.record_effect();
                watch.end(WatchEnd::Cut);
            }
        }
        match &mut self.chunks {
            Some(chunks) => chunks.split(passed),
            None => passed,
        }
    }

    /// Breaks the body after the permitted data. The first poll flushes the previous data, and the next
    /// poll returns the error.
    fn poll_cut(&mut self, cx: &Context<'_>) -> Option<Poll<BodyError>> {
        match self.cut {
            Some(CutState::Due) => Some(Poll::Ready(BodyError)),
            Some(CutState::Flushing) => {
                if let Some(watch) = self.watch.take() {
                    watch.record_effect();
                    watch.end(WatchEnd::Cut);
                }
                self.cut = Some(CutState::Due);
                cx.waker().wake_by_ref();
                Some(Poll::Pending)
            }
            Some(CutState::Pending(_)) | None => None,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(chunk) = self.chunks.as_mut().and_then(|chunks| chunks.poll(cx)) {
            return chunk.map(|chunk| Some(Ok(Frame::data(chunk))));
        }
        if let Some(cut) = self.poll_cut(cx) {
            return cut.map(|error| Some(Err(error)));
        }
        let Poll::Ready(polled) = self.source.poll(cx) else { return Poll::Pending };
        if !matches!(polled, Some(Ok(_))) {
            // The watch is closed, even if the caller still holds the body.
            self.watch = None;
        }
        Poll::Ready(polled.map(|frame| frame.map(|bytes| Frame::data(self.pass(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        if self.cut.is_some() || self.chunks.as_ref().is_some_and(|chunks| !chunks.is_empty()) {
            return false;
        }
        match &self.source {
            Source::Bytes(bytes) => bytes.is_none(),
            Source::List(list) => list.tail.is_empty(),
            Source::Frames(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Bytes(bytes) if self.cut.is_none() && self.chunks.is_none() => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            _ => SizeHint::default(),
        }
    }
}

const LIST_CHUNK_BYTES: usize = 64 * 1024;

pub(crate) struct ListBody {
    head: Vec<u8>,
    items: VecDeque<Arc<Entry>>,
    tail: Vec<u8>,
    encoder: ObjectEncoder,
}

impl ListBody {
    pub(crate) fn new(
        head: Vec<u8>,
        items: VecDeque<Arc<Entry>>,
        tail: Vec<u8>,
        encoder: ObjectEncoder,
    ) -> Self {
        Self { head, items, tail, encoder }
    }

    /// Returns the next chunk. The last chunk contains the tail. An empty tail marks the end of the list.
    fn chunk(&mut self) -> Option<Bytes> {
        if self.tail.is_empty() {
            return None;
        }
        let mut out = std::mem::take(&mut self.head);
        while out.len() < LIST_CHUNK_BYTES {
            let Some(entry) = self.items.pop_front() else {
                out.append(&mut self.tail);
                break;
            };
            self.encoder.item(&entry, &mut out);
            if !self.items.is_empty() {
                out.push(b',');
            }
        }
        Some(out.into())
    }
}
