//! Splits the body of a watch into lines. This module has no I/O.
//!
//! A watch is a sequence of JSON documents, and a newline follows each document. A document contains no
//! newline, because JSON strings escape it and API servers write compact JSON.

use bytes::{Bytes, BytesMut};

/// Splits a body into lines. Holds one chunk, and at most one incomplete line.
#[derive(Debug)]
pub(crate) struct Frames {
    /// The rest of the current chunk.
    chunk: Bytes,
    /// The beginning of a line that the current chunk continues. Contains no newline.
    partial: BytesMut,
    limit: usize,
}

/// A line is longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Frames {
    /// Creates a splitter for lines of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { chunk: Bytes::new(), partial: BytesMut::new(), limit }
    }

    /// Sets the next chunk. [`Frames::next`] must have returned `None` for the previous chunk.
    pub(crate) fn add(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// Returns the next line that the chunk completes. Skips lines that contain only white space. Returns
    /// `None` if the rest of the chunk is an incomplete line.
    ///
    /// A line within the chunk is not copied.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        while let Some(end) = memchr::memchr(b'\n', &self.chunk) {
            let mut line = self.chunk.split_to(end + 1);
            line.truncate(end);
            if self.partial.len() + line.len() > self.limit {
                return Err(TooLong);
            }
            if !self.partial.is_empty() {
                self.partial.extend_from_slice(&line);
                line = self.partial.split().freeze();
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
        if self.partial.len() + self.chunk.len() > self.limit {
            return Err(TooLong);
        }
        self.partial.extend_from_slice(&std::mem::take(&mut self.chunk));
        Ok(None)
    }

    /// Returns whether the last line is incomplete.
    pub(crate) fn is_cut_off(&self) -> bool {
        !self.partial.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(frames: &mut Frames, chunk: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut lines = Vec::new();
        frames.add(Bytes::copy_from_slice(chunk));
        while let Some(line) = frames.next()? {
            lines.push(line.to_vec());
        }
        Ok(lines)
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_chunks(
            body in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..20),
        ) {
            let expected: Vec<Vec<u8>> = body
                .split_inclusive(|&byte| byte == b'\n')
                .filter(|line| line.ends_with(b"\n") && !line.trim_ascii().is_empty())
                .map(|line| line[..line.len() - 1].to_vec())
                .collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let mut frames = Frames::new(1000);
            let mut found = Vec::new();
            for pair in cuts.windows(2) {
                found.extend(lines(&mut frames, &body[pair[0]..pair[1]]).unwrap());
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!(frames.is_cut_off(), !body.is_empty() && !body.ends_with(b"\n"));
        }
    }

    #[test]
    fn line_longer_than_limit_is_error() {
        assert_eq!(lines(&mut Frames::new(3), b"abc\nd\n"), Ok(vec![b"abc".to_vec(), b"d".to_vec()]));
        assert_eq!(lines(&mut Frames::new(3), b"abcd\n"), Err(TooLong));
        assert_eq!(lines(&mut Frames::new(3), b"abcd"), Err(TooLong));
        let mut frames = Frames::new(3);
        assert_eq!(lines(&mut frames, b"ab"), Ok(vec![]));
        assert_eq!(lines(&mut frames, b"cd\n"), Err(TooLong));
    }
}
