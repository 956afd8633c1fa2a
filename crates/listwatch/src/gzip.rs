//! Decompresses the body of a response. This module has no I/O.

use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};

/// The maximum size of a decompressed chunk. A chunk contains several objects of a typical size, and fits
/// into the caches of a CPU.
const CHUNK_BYTES: usize = 64 << 10;

/// The maximum of decompressed bytes per compressed byte, beyond the allowance.
///
/// Deflate reaches a ratio of 1032. The JSON of Pods reaches about 7. Objects that differ only in name, uid
/// and resourceVersion reach about 100.
const MAX_RATIO: u64 = 200;

/// The window of gzip: 2^15 bytes.
const WINDOW_BITS: u8 = 15;

/// Describes the failure to decompress a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GzipError {
    /// The data is not gzip, or its checksum or length is wrong.
    #[error("the gzip data is corrupt")]
    Corrupt,
    /// The response ends in the middle of the gzip data.
    #[error("the gzip data is truncated")]
    CutOff,
    /// The data expands too much (a decompression bomb). Without a limit, a small response could occupy
    /// the memory and the CPU of the client.
    #[error("the gzip data expands more than {MAX_RATIO} times")]
    Bomb,
}

/// Decompresses gzip, piece by piece. Holds one compressed chunk and the gzip window of 32 KiB.
///
/// The data can consist of several gzip members.
pub(crate) struct Gunzip {
    /// The state of the current member, or `None` between two members.
    member: Option<Decompress>,
    /// The rest of the current compressed chunk.
    input: Bytes,
    /// Whether the last call filled its chunk. The current member may then have more output without
    /// further input.
    has_output: bool,
    received: u64,
    produced: u64,
    /// The number of decompressed bytes that the ratio does not limit.
    allowance: u64,
}

impl Gunzip {
    /// Creates a decompressor. Its first `allowance` bytes may have any ratio.
    pub(crate) fn new(allowance: usize) -> Self {
        Self {
            member: None,
            input: Bytes::new(),
            has_output: false,
            received: 0,
            produced: 0,
            allowance: allowance as u64,
        }
    }

    /// Sets the next compressed chunk. [`Gunzip::next`] must have returned `None` for the previous chunk.
    pub(crate) fn add(&mut self, chunk: Bytes) {
        self.received += chunk.len() as u64;
        self.input = chunk;
    }

    /// Returns the next decompressed chunk. Returns `None` if it needs more compressed data.
    ///
    /// # Errors
    /// Fails if the data is corrupt, or if it expands too much.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, GzipError> {
        let mut output = Vec::new();
        while output.len() < CHUNK_BYTES && (self.has_output || !self.input.is_empty()) {
            if output.capacity() == 0 {
                output.reserve_exact(CHUNK_BYTES);
            }
            self.inflate(&mut output)?;
        }
        self.produced += output.len() as u64;
        if self.produced.saturating_sub(self.allowance) > self.received.saturating_mul(MAX_RATIO) {
            return Err(GzipError::Bomb);
        }
        Ok((!output.is_empty()).then(|| output.into()))
    }

    /// Decompresses until the output is full, the input is consumed or a member ends.
    fn inflate(&mut self, output: &mut Vec<u8>) -> Result<(), GzipError> {
        let member = self.member.get_or_insert_with(|| Decompress::new_gzip(WINDOW_BITS));
        let (before, written) = (member.total_in(), output.len());
        let status = member
            .decompress_vec(&self.input, output, FlushDecompress::None)
            .map_err(|_| GzipError::Corrupt)?;
        let consumed = usize::try_from(member.total_in() - before).map_err(|_| GzipError::Corrupt)?;
        self.input.advance(consumed);
        self.has_output = output.len() == output.capacity();
        if status == Status::StreamEnd {
            (self.member, self.has_output) = (None, false);
        } else if consumed == 0 && output.len() == written && !self.input.is_empty() {
            // Without this check, input that makes no progress would be an endless loop.
            return Err(GzipError::Corrupt);
        }
        Ok(())
    }

    /// Checks at the end of the body that the data is complete. An empty body is complete.
    ///
    /// # Errors
    /// Fails if a member is incomplete.
    pub(crate) fn end(&self) -> Result<(), GzipError> {
        if self.member.is_none() { Ok(()) } else { Err(GzipError::CutOff) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// Decompresses chunks. Returns the decompressed bytes, and the result of the decompression.
    fn unpacked(chunks: &[&[u8]], allowance: usize) -> (Vec<u8>, Result<(), GzipError>) {
        let (mut gunzip, mut bytes) = (Gunzip::new(allowance), Vec::new());
        for chunk in chunks {
            gunzip.add(Bytes::copy_from_slice(chunk));
            loop {
                match gunzip.next() {
                    Ok(Some(chunk)) => {
                        assert!(!chunk.is_empty() && chunk.len() <= CHUNK_BYTES);
                        bytes.extend_from_slice(&chunk);
                    }
                    Ok(None) => break,
                    Err(error) => return (bytes, Err(error)),
                }
            }
        }
        let end = gunzip.end();
        (bytes, end)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn output_does_not_depend_on_chunks_and_members(
            texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..4),
            repeated in 1usize..200,
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.repeat(repeated)).collect();
            let body: Vec<u8> = texts.iter().flat_map(|text| packed(text)).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len())).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
            let (bytes, end) = unpacked(&chunks, usize::MAX);
            prop_assert_eq!(end, Ok(()));
            prop_assert_eq!(bytes, texts.concat());
        }

        #[test]
        fn any_bytes_end_with_a_result(bytes in proptest::collection::vec(any::<u8>(), 0..2000), flip in any::<prop::sample::Index>()) {
            let _ = unpacked(&[&bytes], 1 << 20);
            let mut body = packed(&bytes);
            let flip = flip.index(body.len());
            body[flip] ^= 0x10;
            let _ = unpacked(&[&body], 1 << 20);
        }
    }

    #[test]
    fn truncated_data_is_cut_off_at_every_byte() {
        let body = packed(b"{\"items\":[]}");
        for length in 1..body.len() {
            let (_, end) = unpacked(&[&body[..length]], 1000);
            assert_eq!(end, Err(GzipError::CutOff), "{length} bytes");
        }
        assert_eq!(unpacked(&[&body], 1000), (b"{\"items\":[]}".to_vec(), Ok(())));
        assert_eq!(unpacked(&[], 1000), (Vec::new(), Ok(())), "an empty body");
    }

    #[test]
    fn wrong_checksum_is_corrupt() {
        let mut body = packed(b"{\"items\":[]}");
        let checksum = body.len() - 8;
        body[checksum] ^= 1;
        assert_eq!(unpacked(&[&body], 1000).1, Err(GzipError::Corrupt));
        assert_eq!(unpacked(&[b"{\"items\":[]}"], 1000).1, Err(GzipError::Corrupt));
        let trailing = [packed(b"{}"), b"more".to_vec()].concat();
        assert_eq!(unpacked(&[&trailing], 1000).1, Err(GzipError::Corrupt));
    }

    #[test]
    fn decompression_stops_at_the_allowance_of_a_bomb() {
        const ALLOWANCE: usize = 1 << 20;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![b' '; 64 << 20]).unwrap();
        let body = encoder.finish().unwrap();
        let (bytes, end) = unpacked(&[&body[..1000], &body[1000..]], ALLOWANCE);
        assert_eq!(end, Err(GzipError::Bomb));
        let limit = ALLOWANCE + body.len() * MAX_RATIO as usize;
        assert!(bytes.len() <= limit && bytes.len() < 32 << 20, "{} of {limit}", bytes.len());
    }

    #[test]
    fn repetitive_objects_are_not_a_bomb() {
        let spec = "a field of the spec that is the same in all objects".repeat(200);
        let object = |uid: u64| format!("{{\"uid\":\"{uid:x}\",\"spec\":\"{spec}\"}},");
        let mut rng = 1u64;
        let list: String = (0..3000)
            .map(|_| {
                rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                object(rng)
            })
            .collect();
        let body = packed(list.as_bytes());
        let (bytes, end) = unpacked(&[&body], 16 << 20);
        assert_eq!((bytes.len(), end), (list.len(), Ok(())), "ratio {}", list.len() / body.len());
    }
}
