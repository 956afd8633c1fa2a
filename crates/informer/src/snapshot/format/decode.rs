//! Reads a snapshot.

use std::{
    hash::Hasher as _,
    io::{self, Read},
    time::{Duration, SystemTime},
};

use kube_object::{Digest, DigestSeed, ObjectId, ObjectKey, ResourceVersion, Uid};
use siphasher::sip::SipHasher13;
use zstd::bulk::Decompressor;

use super::{FORMAT_VERSION, Header, Identity, MAGIC, MAX_BLOCK_BYTES, MAX_RATIO, Unusable, flag, tag};
use crate::files::{HASH_BYTES, HEAD_BYTES, Reader, hash, parse_head, read_key};

/// Reads the parts of a file in order. Its memory is limited by the length of the file, and by the size of
/// the largest block.
pub(crate) struct FileReader<R> {
    input: R,
    /// The number of bytes that are not read.
    left: u64,
    /// Hashes the hashes of all frames.
    hasher: SipHasher13,
    frame: Vec<u8>,
}

impl<R: Read> FileReader<R> {
    /// Reads the beginning of a file with this length.
    ///
    /// # Errors
    /// Returns an error if it is not the beginning of a snapshot with the format of this program.
    pub(crate) fn new(input: R, len: u64) -> Result<(Self, Header), Unusable> {
        let mut reader = Self { input, left: len, hasher: SipHasher13::new(), frame: Vec::new() };
        if reader.array()? != MAGIC {
            return Err(Unusable::Magic("snapshot"));
        }
        let version = u32::from_le_bytes(reader.array()?);
        if version != FORMAT_VERSION {
            return Err(Unusable::FormatVersion { found: version, supported: FORMAT_VERSION });
        }
        match reader.take_frame()? {
            (tag::HEADER, payload) => {
                let header = read_header(Reader(payload))?;
                Ok((reader, header))
            }
            _ => Err(Unusable::Damaged("the header is missing")),
        }
    }

    /// Reads all objects, and the end of the file. Calls `object` with each object, in the order of their
    /// keys. Do not use the objects if the method fails.
    ///
    /// # Errors
    /// Returns an error if the file differs from the output of a [`FileWriter`](super::FileWriter), and the
    /// error of `object`.
    pub(crate) fn read(
        mut self,
        mut object: impl FnMut(ObjectId, Option<Digest>, &[u8]) -> Result<(), Unusable>,
    ) -> Result<(), Unusable> {
        let damaged = |_| Unusable::Damaged("zstd failed");
        let mut decompressor = Decompressor::new().map_err(damaged)?;
        let (mut blocks, mut entries, mut last, mut plain) = (0, 0, None, Vec::new());
        loop {
            let hash = self.hasher.finish();
            match self.take_frame()? {
                (tag::BLOCK, payload) => {
                    let block = unpack(&mut decompressor, payload, &mut plain)?;
                    entries += read_block(Reader(block), &mut last, &mut object)?;
                }
                (tag::FOOTER, payload) => {
                    check_footer(Reader(payload), blocks, entries, hash)?;
                    break;
                }
                _ => return Err(Unusable::Damaged("a frame has an unexpected tag")),
            }
            blocks += 1;
        }
        if self.left > 0 { Err(Unusable::Damaged("bytes follow the footer")) } else { Ok(()) }
    }

    /// Reads a frame. Returns its tag and its payload.
    fn take_frame(&mut self) -> Result<(u8, &[u8]), Unusable> {
        let head = self.array::<HEAD_BYTES>()?;
        let (tag, len) = parse_head(&head)?;
        let rest = len.saturating_add(HASH_BYTES);
        if rest as u64 > self.left {
            return Err(Unusable::Truncated);
        }
        self.frame.clear();
        self.frame.extend_from_slice(&head);
        self.frame.resize(HEAD_BYTES + rest, 0);
        self.input.read_exact(&mut self.frame[HEAD_BYTES..]).map_err(|error| unreadable(&error))?;
        self.left -= rest as u64;
        let (hashed, stored) = self.frame.split_at(HEAD_BYTES + len);
        if stored != hash(hashed).to_le_bytes() {
            return Err(Unusable::Damaged("a frame has another checksum"));
        }
        self.hasher.write(stored);
        Ok((tag, &hashed[HEAD_BYTES..]))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unusable> {
        let mut array = [0; N];
        self.left = self.left.checked_sub(N as u64).ok_or(Unusable::Truncated)?;
        self.input.read_exact(&mut array).map_err(|error| unreadable(&error))?;
        Ok(array)
    }
}

fn unreadable(error: &io::Error) -> Unusable {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Unusable::Truncated,
        _ => Unusable::Damaged("the file cannot be read"),
    }
}

/// Returns the entries of a block. `plain` is a buffer.
fn unpack<'a>(
    decompressor: &mut Decompressor<'_>,
    payload: &'a [u8],
    plain: &'a mut Vec<u8>,
) -> Result<&'a [u8], Unusable> {
    let mut reader = Reader(payload);
    let len = usize::try_from(reader.number()?).unwrap_or(usize::MAX);
    if len == 0 {
        return Ok(reader.0);
    }
    if len > MAX_BLOCK_BYTES || len / MAX_RATIO > reader.0.len() {
        return Err(Unusable::Damaged("a block has an implausible size"));
    }
    plain.clear();
    plain.try_reserve_exact(len).map_err(|_| Unusable::Damaged("a block does not fit into the memory"))?;
    match decompressor.decompress_to_buffer(reader.0, plain) {
        Ok(unpacked) if unpacked == len => Ok(plain),
        Ok(_) | Err(_) => Err(Unusable::Damaged("a block cannot be decompressed")),
    }
}

fn read_header(mut reader: Reader<'_>) -> Result<Header, Unusable> {
    let mut texts = Vec::new();
    for _ in 0..reader.number()? {
        texts.push(reader.text()?.to_owned());
    }
    let identity = Identity::from_texts(texts).ok_or(Unusable::Damaged("the identity is incomplete"))?;
    let seed = match reader.byte()? {
        0 => None,
        _ => {
            let (seed, fingerprint) = (reader.u64()?, reader.u64()?);
            Some(seed).filter(|seed| DigestSeed::new(*seed).fingerprint() == fingerprint)
        }
    };
    let version = ResourceVersion::new(reader.text()?);
    let saved_at = SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_millis(reader.number()?))
        .ok_or(Unusable::Damaged("the time is too large"))?;
    let complete = reader.byte()? != 0;
    reader.finish()?;
    Ok(Header { identity, seed, version, saved_at, complete })
}

/// Reads the entries of a block. `last` is the last key of the blocks before. Returns the number of entries.
fn read_block(
    mut reader: Reader<'_>,
    last: &mut Option<ObjectKey>,
    object: &mut impl FnMut(ObjectId, Option<Digest>, &[u8]) -> Result<(), Unusable>,
) -> Result<u64, Unusable> {
    let mut entries = 0;
    while !reader.is_empty() {
        let key = read_key(&mut reader, last.as_ref().filter(|_| entries > 0))?;
        if last.as_ref().is_some_and(|last| *last >= key) {
            return Err(Unusable::Damaged("the keys have another order"));
        }
        let flags = reader.byte()?;
        if flags & !flag::ALL != 0 {
            return Err(Unusable::Damaged("an entry has unknown flags"));
        }
        let is_set = |flag| flags & flag != 0;
        let uid =
            if is_set(flag::UUID) { Uid::from(reader.array::<16>()?) } else { Uid::new(reader.text()?) };
        let version = match is_set(flag::NUMBER) {
            true => ResourceVersion::from(reader.number()?),
            false => ResourceVersion::new(reader.text()?),
        };
        let digest = if is_set(flag::DIGEST) { Some(Digest::new(reader.u64()?)) } else { None };
        let bytes = reader.bytes()?;
        *last = Some(key.clone());
        object(ObjectId { key, uid, version }, digest, bytes)?;
        entries += 1;
    }
    Ok(entries)
}

fn check_footer(mut reader: Reader<'_>, blocks: u64, entries: u64, hash: u64) -> Result<(), Unusable> {
    if (reader.number()?, reader.number()?) != (blocks, entries) {
        return Err(Unusable::Damaged("the footer has other counts"));
    }
    if reader.u64()? != hash {
        return Err(Unusable::Damaged("the file has another checksum"));
    }
    reader.finish()
}
