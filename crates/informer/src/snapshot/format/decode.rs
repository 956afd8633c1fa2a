//! Reads a snapshot.

use std::{
    hash::Hasher as _,
    io::{self, Read},
    time::{Duration, SystemTime},
};

use kube_object::{Digest, ObjectId, ObjectKey, ResourceVersion, Uid};
use lz4_flex::block::decompress_into;
use siphasher::sip::SipHasher13;

use super::{FORMAT_VERSION, Header, Identity, MAGIC, MAX_BLOCK_BYTES, MAX_RATIO, Unusable, flag, tag};
use crate::files::{
    HASH_BYTES, HEAD_BYTES, HeaderStart, Reader, parse_head, read_footer, read_header_start, read_key,
};

/// Reads the frames of a file in order, and verifies their checksums. Its memory is limited by the length of
/// the file.
pub(crate) struct FileReader<R> {
    input: R,
    /// The number of bytes that are not read.
    left: u64,
    /// Hashes the hashes of all frames.
    hasher: SipHasher13,
    /// The number of read blocks.
    blocks: u64,
}

/// A frame after the header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The payload of a block. A [`BlockReader`] reads it.
    Block(Vec<u8>),
    /// The file is complete, and its blocks must contain this number of entries.
    End { entries: u64 },
}

impl<R: Read> FileReader<R> {
    /// Reads the beginning of a file with this length.
    ///
    /// # Errors
    /// Returns an error if it is not the beginning of a snapshot with the format of this program.
    pub(crate) fn new(input: R, len: u64) -> Result<(Self, Header), Unusable> {
        let mut reader = Self { input, left: len, hasher: SipHasher13::new(), blocks: 0 };
        if reader.array()? != MAGIC {
            return Err(Unusable::Magic("snapshot"));
        }
        let version = u32::from_le_bytes(reader.array()?);
        if version != FORMAT_VERSION {
            return Err(Unusable::FormatVersion { found: version, supported: FORMAT_VERSION });
        }
        match reader.take_frame()? {
            (tag::HEADER, payload) => Ok((reader, read_header(Reader(&payload))?)),
            _ => Err(Unusable::Damaged("the header is missing")),
        }
    }

    /// Reads the next frame. Do not call this method after [`Frame::End`] or an error.
    ///
    /// # Errors
    /// Returns an error if the file differs from the output of a [`FileWriter`](super::FileWriter). Do not
    /// use the blocks before.
    pub(crate) fn next(&mut self) -> Result<Frame, Unusable> {
        let hash = self.hasher.finish();
        match self.take_frame()? {
            (tag::BLOCK, payload) => {
                self.blocks += 1;
                Ok(Frame::Block(payload))
            }
            (tag::FOOTER, payload) => {
                let entries = read_footer(Reader(&payload), self.blocks, hash)?;
                match self.left {
                    0 => Ok(Frame::End { entries }),
                    _ => Err(Unusable::Damaged("bytes follow the footer")),
                }
            }
            _ => Err(Unusable::Damaged("a frame has an unexpected tag")),
        }
    }

    /// Reads a frame. Returns its tag and its payload.
    fn take_frame(&mut self) -> Result<(u8, Vec<u8>), Unusable> {
        let head = self.array::<HEAD_BYTES>()?;
        let (tag, len) = parse_head(&head)?;
        if len.saturating_add(HASH_BYTES) as u64 > self.left {
            return Err(Unusable::Truncated);
        }
        let mut payload = vec![0; len];
        self.fill(&mut payload)?;
        let stored = self.array::<HASH_BYTES>()?;
        let mut hasher = SipHasher13::new();
        hasher.write(&head);
        hasher.write(&payload);
        if stored != hasher.finish().to_le_bytes() {
            return Err(Unusable::Damaged("a frame has another checksum"));
        }
        self.hasher.write(&stored);
        Ok((tag, payload))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unusable> {
        let mut array = [0; N];
        self.fill(&mut array)?;
        Ok(array)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Unusable> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(Unusable::Truncated)?;
        self.input.read_exact(bytes).map_err(|error| unreadable(&error))
    }
}

fn unreadable(error: &io::Error) -> Unusable {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Unusable::Truncated,
        _ => Unusable::Damaged("the file cannot be read"),
    }
}

/// Returns the entries of a block. `plain` is a buffer.
fn unpack<'a>(payload: &'a [u8], plain: &'a mut Vec<u8>) -> Result<&'a [u8], Unusable> {
    let mut reader = Reader(payload);
    let len = usize::try_from(reader.number()?).unwrap_or(usize::MAX);
    if len == 0 {
        return Ok(reader.0);
    }
    if len > MAX_BLOCK_BYTES || len / MAX_RATIO > reader.0.len() {
        return Err(Unusable::Damaged("a block has an implausible size"));
    }
    let missing = len.saturating_sub(plain.len());
    plain
        .try_reserve_exact(missing)
        .map_err(|_| Unusable::Damaged("a block does not fit into the memory"))?;
    plain.resize(len, 0);
    match decompress_into(reader.0, plain) {
        Ok(unpacked) if unpacked == len => Ok(plain),
        Ok(_) | Err(_) => Err(Unusable::Damaged("a block cannot be decompressed")),
    }
}

fn read_header(mut reader: Reader<'_>) -> Result<Header, Unusable> {
    let HeaderStart { texts, seed, version } = read_header_start(&mut reader)?;
    let identity = Identity::from_texts(texts).ok_or(Unusable::Damaged("the identity is incomplete"))?;
    let saved_at = SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_millis(reader.number()?))
        .ok_or(Unusable::Damaged("the time is too large"))?;
    let complete = reader.byte()? != 0;
    reader.finish()?;
    Ok(Header { identity, seed, version, saved_at, complete })
}

/// Reads the entries of blocks in order.
#[derive(Default)]
pub(crate) struct BlockReader {
    /// The buffer for a decompressed block.
    plain: Vec<u8>,
    /// The last key of the blocks before.
    last: Option<ObjectKey>,
    /// The number of read entries.
    entries: u64,
}

impl BlockReader {
    /// Reads the entries of the next block. Calls `object` with each object, in the order of their keys.
    ///
    /// # Errors
    /// Returns an error if the payload is malformed or the keys have another order, and the error of
    /// `object`.
    pub(crate) fn read(
        &mut self,
        payload: &[u8],
        mut object: impl FnMut(ObjectId, Option<Digest>, &[u8]) -> Result<(), Unusable>,
    ) -> Result<(), Unusable> {
        let mut reader = Reader(unpack(payload, &mut self.plain)?);
        let mut is_first = true;
        while !reader.is_empty() {
            let key = read_key(&mut reader, self.last.as_ref().filter(|_| !is_first))?;
            if self.last.as_ref().is_some_and(|last| *last >= key) {
                return Err(Unusable::Damaged("the keys have another order"));
            }
            self.last = Some(key.clone());
            let (id, digest) = read_identity(&mut reader, key)?;
            object(id, digest, reader.bytes()?)?;
            self.entries += 1;
            is_first = false;
        }
        Ok(())
    }

    /// Verifies that all entries of the file were read.
    ///
    /// # Errors
    /// Returns an error if the blocks contained another number of entries.
    pub(crate) fn end(&self, entries: u64) -> Result<(), Unusable> {
        if self.entries == entries { Ok(()) } else { Err(Unusable::OTHER_COUNTS) }
    }
}

/// Reads the entry of a key, without its object.
fn read_identity(reader: &mut Reader<'_>, key: ObjectKey) -> Result<(ObjectId, Option<Digest>), Unusable> {
    let flags = reader.byte()?;
    if flags & !flag::ALL != 0 {
        return Err(Unusable::Damaged("an entry has unknown flags"));
    }
    let is_set = |flag| flags & flag != 0;
    let uid = if is_set(flag::UUID) { Uid::from(reader.array::<16>()?) } else { Uid::new(reader.text()?) };
    let version = match is_set(flag::NUMBER) {
        true => ResourceVersion::from(reader.number()?),
        false => ResourceVersion::new(reader.text()?),
    };
    let digest = if is_set(flag::DIGEST) { Some(Digest::new(reader.u64()?)) } else { None };
    Ok((ObjectId { key, uid, version }, digest))
}
