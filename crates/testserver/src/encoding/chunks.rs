//! Splits a body into small chunks that are sent separately.

use std::task::{Context, Poll};

use bytes::Bytes;

/// The unsent rest of a part of a body, and the size of its chunks.
pub(crate) struct Chunks {
    size: usize,
    left: Bytes,
    /// A chunk was returned, and must be flushed before the next chunk.
    flushing: bool,
}

impl Chunks {
    pub(crate) fn new(size: usize) -> Self {
        Self { size: size.max(1), left: Bytes::new(), flushing: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Returns the first chunk of `bytes` and stores the other bytes.
    pub(crate) fn split(&mut self, bytes: Bytes) -> Bytes {
        self.left = bytes;
        self.next()
    }

    fn next(&mut self) -> Bytes {
        self.flushing = true;
        self.left.split_to(self.size.min(self.left.len()))
    }

    /// Returns the next stored chunk, if any. Between two chunks, one poll is pending and wakes the task,
    /// so that the connection flushes the previous chunk.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Option<Poll<Bytes>> {
        if std::mem::take(&mut self.flushing) {
            cx.waker().wake_by_ref();
            return Some(Poll::Pending);
        }
        (!self.left.is_empty()).then(|| Poll::Ready(self.next()))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn each_chunk_is_returned_separately() {
        let cx = Context::from_waker(Waker::noop());
        let mut chunks = Chunks::new(2);
        assert_eq!(chunks.split("abcde".into()), "ab");
        for expected in ["cd", "e"] {
            assert_eq!(chunks.poll(&cx), Some(Poll::Pending));
            assert_eq!(chunks.poll(&cx), Some(Poll::Ready(expected.into())));
        }
        assert_eq!(chunks.poll(&cx), Some(Poll::Pending));
        assert_eq!(chunks.poll(&cx), None);
    }
}
