//! Writes a snapshot.

use std::{
    hash::Hasher as _,
    io::{self, Write},
    time::SystemTime,
};

use kube_object::{Digest, ObjectId, ObjectKey};
use lz4_flex::block::compress;
use siphasher::sip::SipHasher13;

use super::{BLOCK_BYTES, FORMAT_VERSION, Header, MAGIC, MAX_BLOCK_BYTES, flag, tag};
use crate::files::{HASH_BYTES, as_number, footer, header_start, put_frame, put_key, put_number, put_text};

/// Writes the parts of a file in order.
pub(crate) struct FileWriter<W> {
    out: W,
    /// Hashes the hashes of all frames.
    hasher: SipHasher13,
    /// False if the objects are already compressed.
    is_compressing: bool,
    block: Vec<u8>,
    blocks: u64,
    entries: u64,
    before: Option<ObjectKey>,
}

impl<W: Write> FileWriter<W> {
    /// Writes the beginning of a file.
    ///
    /// # Errors
    /// Returns the error of `out`.
    pub(crate) fn new(mut out: W, header: &Header, is_compressing: bool) -> Result<Self, io::Error> {
        out.write_all(&MAGIC)?;
        out.write_all(&FORMAT_VERSION.to_le_bytes())?;
        let hasher = SipHasher13::new();
        let mut writer =
            Self { out, hasher, is_compressing, block: Vec::new(), blocks: 0, entries: 0, before: None };
        writer.put(tag::HEADER, &header_payload(header))?;
        Ok(writer)
    }

    /// Adds an object. The caller must add the objects in the order of their keys, without duplicates.
    ///
    /// # Errors
    /// Returns the error of the output, and an error if the object is too large.
    pub(crate) fn add(
        &mut self,
        id: &ObjectId,
        digest: Option<Digest>,
        object: &[u8],
    ) -> Result<(), io::Error> {
        let start = self.block.len();
        put_entry(&mut self.block, id, digest, self.before.as_ref(), object);
        if start > 0 && self.block.len() > BLOCK_BYTES {
            self.block.truncate(start);
            self.put_block()?;
            put_entry(&mut self.block, id, digest, None, object);
        }
        if self.block.len() > MAX_BLOCK_BYTES {
            return Err(io::Error::other(format!("{} has more than 64 MiB", id.key)));
        }
        self.entries += 1;
        self.before = Some(id.key.clone());
        Ok(())
    }

    /// Writes the end of the file.
    ///
    /// # Errors
    /// Returns the error of the output.
    pub(crate) fn finish(mut self) -> Result<(), io::Error> {
        if !self.block.is_empty() {
            self.put_block()?;
        }
        let footer = footer(self.blocks, self.entries, self.hasher.finish());
        self.put(tag::FOOTER, &footer)
    }

    fn put_block(&mut self) -> Result<(), io::Error> {
        let block = std::mem::take(&mut self.block);
        let mut payload = Vec::new();
        match self.compress(&block) {
            Some(compressed) => {
                put_number(&mut payload, block.len() as u64);
                payload.extend_from_slice(&compressed);
            }
            None => {
                put_number(&mut payload, 0);
                payload.extend_from_slice(&block);
            }
        }
        self.put(tag::BLOCK, &payload)?;
        self.blocks += 1;
        self.before = None;
        self.block = block;
        self.block.clear();
        self.block.shrink_to(2 * BLOCK_BYTES);
        Ok(())
    }

    /// Returns the compressed block if the compression is useful.
    fn compress(&self, block: &[u8]) -> Option<Vec<u8>> {
        let compressed = self.is_compressing.then(|| compress(block))?;
        (compressed.len() < block.len()).then_some(compressed)
    }

    fn put(&mut self, tag: u8, payload: &[u8]) -> Result<(), io::Error> {
        let mut frame = Vec::with_capacity(payload.len() + 32);
        put_frame(&mut frame, tag, payload);
        self.hasher.write(&frame[frame.len() - HASH_BYTES..]);
        self.out.write_all(&frame)
    }
}

fn header_payload(header: &Header) -> Vec<u8> {
    let mut out = header_start(&header.identity.texts(), header.seed, &header.version);
    let saved_at = header.saved_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    put_number(&mut out, u64::try_from(saved_at.as_millis()).unwrap_or(u64::MAX));
    out.push(u8::from(header.complete));
    out
}

fn put_entry(
    out: &mut Vec<u8>,
    id: &ObjectId,
    digest: Option<Digest>,
    before: Option<&ObjectKey>,
    object: &[u8],
) {
    put_key(out, &id.key, before);
    let (uuid, number) = (id.uid.as_uuid(), as_number(&id.version));
    let flags =
        [(uuid.is_some(), flag::UUID), (number.is_some(), flag::NUMBER), (digest.is_some(), flag::DIGEST)];
    out.push(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    match uuid {
        Some(uuid) => out.extend_from_slice(&uuid),
        None => put_text(out, &id.uid.as_str()),
    }
    match number {
        Some(number) => put_number(out, number),
        None => put_text(out, &id.version.as_str()),
    }
    if let Some(digest) = digest {
        out.extend_from_slice(&digest.get().to_le_bytes());
    }
    put_number(out, object.len() as u64);
    out.extend_from_slice(object);
}
