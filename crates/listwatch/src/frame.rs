//! Bytes to frames: cuts the body of a watch at its newlines. Pure.
//!
//! A watch is a sequence of JSON documents, each followed by a newline; a newline can't stand
//! inside one, since JSON strings escape it and API servers write compact JSON.

use bytes::{Bytes, BytesMut};

/// Cuts a body into lines, holding at most one unfinished line.
#[derive(Debug)]
pub(crate) struct Frames {
    /// The beginning of a line whose end has not come; contains no newline.
    partial: BytesMut,
    limit: usize,
}

/// A line longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Frames {
    /// Cuts lines of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { partial: BytesMut::new(), limit }
    }

    /// Calls `frame` with each line that `chunk` completes; lines of nothing but white space are passed over.
    ///
    /// A line that lies within the chunk is not copied.
    pub(crate) fn cut(&mut self, mut chunk: Bytes, mut frame: impl FnMut(Bytes)) -> Result<(), TooLong> {
        while let Some(end) = memchr::memchr(b'\n', &chunk) {
            let mut line = chunk.split_to(end + 1);
            line.truncate(end);
            if self.partial.len() + line.len() > self.limit {
                return Err(TooLong);
            }
            if !self.partial.is_empty() {
                self.partial.extend_from_slice(&line);
                line = self.partial.split().freeze();
            }
            if !line.trim_ascii().is_empty() {
                frame(line);
            }
        }
        if self.partial.len() + chunk.len() > self.limit {
            return Err(TooLong);
        }
        self.partial.extend_from_slice(&chunk);
        Ok(())
    }

    /// Whether the body ended in the middle of a line.
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
        frames.cut(Bytes::copy_from_slice(chunk), |line| lines.push(line.to_vec()))?;
        Ok(lines)
    }

    proptest! {
        #[test]
        fn however_a_body_is_split_its_lines_are_the_same(
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
    fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
        assert_eq!(lines(&mut Frames::new(3), b"abc\nd\n"), Ok(vec![b"abc".to_vec(), b"d".to_vec()]));
        assert_eq!(lines(&mut Frames::new(3), b"abcd\n"), Err(TooLong));
        assert_eq!(lines(&mut Frames::new(3), b"abcd"), Err(TooLong));
        let mut frames = Frames::new(3);
        assert_eq!(lines(&mut frames, b"ab"), Ok(vec![]));
        assert_eq!(lines(&mut frames, b"cd\n"), Err(TooLong));
    }
}
