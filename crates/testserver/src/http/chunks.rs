//! A body that arrives in small chunks, each of which is sent before the next one is made.

use std::task::{Context, Poll};

use bytes::Bytes;

/// What is left of a part of a body, and how large its chunks are.
pub(crate) struct Chunks {
    size: usize,
    left: Bytes,
    /// A chunk was given; it must go out before the next one.
    gave: bool,
}

impl Chunks {
    /// Chunks of `size` bytes, at least one.
    pub(crate) fn new(size: usize) -> Self {
        Self { size: size.max(1), left: Bytes::new(), gave: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Gives the first chunk of `bytes` and keeps the rest.
    pub(crate) fn begin(&mut self, bytes: Bytes) -> Bytes {
        self.left = bytes;
        self.next()
    }

    fn next(&mut self) -> Bytes {
        self.gave = true;
        self.left.split_to(self.size.min(self.left.len()))
    }

    /// The next chunk of what was kept, if any; in between the reader is told to look again, so that what was given
    /// goes out.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Option<Poll<Bytes>> {
        if std::mem::take(&mut self.gave) {
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
    fn each_piece_is_given_on_its_own() {
        let cx = Context::from_waker(Waker::noop());
        let mut chunks = Chunks::new(2);
        assert_eq!(chunks.begin("abcde".into()), "ab");
        for expected in ["cd", "e"] {
            assert_eq!(chunks.poll(&cx), Some(Poll::Pending));
            assert_eq!(chunks.poll(&cx), Some(Poll::Ready(expected.into())));
        }
        assert_eq!(chunks.poll(&cx), Some(Poll::Pending));
        assert_eq!(chunks.poll(&cx), None);
    }
}
