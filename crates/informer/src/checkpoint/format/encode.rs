//! Writes a checkpoint.

use std::{
    hash::Hasher as _,
    io::{self, Write},
};

use kube_object::{ObjectKey, Uid};
use siphasher::sip::SipHasher13;

use super::{FORMAT_VERSION, Header, Known, MAGIC, MAX_BLOCK, tag};
use crate::files::{as_number, footer, header_start, put_frame, put_key, put_number, put_text};

pub(super) const UUID: u8 = 1;
pub(super) const FINISHED: u8 = 2;
pub(super) const DIGEST: u8 = 4;
pub(super) const NUMBER: u8 = 8;
pub(super) const UNFINISHED: u8 = 16;

/// Writes a file without a journal. `entries` must be in the order of their keys, without duplicates.
///
/// # Errors
/// Returns the error of `out`, and an error if one entry is larger than a block.
pub(crate) fn encode(
    header: &Header,
    entries: &[(ObjectKey, Known)],
    out: &mut impl Write,
) -> Result<(), io::Error> {
    let mut out = HashingWriter { out, hasher: SipHasher13::new() };
    out.put(&MAGIC)?;
    out.put(&FORMAT_VERSION.to_le_bytes())?;
    out.put_frame(tag::HEADER, &header_start(&header.identity.texts(), header.seed, &header.version))?;
    let (mut blocks, mut block, mut entry, mut before) = (0, Vec::new(), Vec::new(), None);
    for (key, known) in entries {
        put_entry(&mut entry, key, before, known);
        if block.len() + entry.len() > MAX_BLOCK {
            blocks += u64::from(!block.is_empty());
            out.put_block(&mut block)?;
            entry.clear();
            put_entry(&mut entry, key, None, known);
        }
        block.append(&mut entry);
        before = Some(key);
    }
    blocks += u64::from(!block.is_empty());
    out.put_block(&mut block)?;
    let footer = footer(blocks, entries.len() as u64, out.hasher.finish());
    out.put_frame(tag::FOOTER, &footer)
}

/// Returns a frame of the journal.
pub(crate) fn encode_told<'a>(told: impl IntoIterator<Item = (&'a ObjectKey, &'a Uid)>) -> Vec<u8> {
    let (mut payload, mut frame) = (Vec::new(), Vec::new());
    for (key, uid) in told {
        put_entry(&mut payload, key, None, &Known::told(uid.clone()));
    }
    put_frame(&mut frame, tag::TOLD, &payload);
    frame
}

/// Appends an entry: the key, flags, the uid, the version and the digest.
fn put_entry(out: &mut Vec<u8>, key: &ObjectKey, before: Option<&ObjectKey>, known: &Known) {
    put_key(out, key, before);
    let uuid = known.uid.as_uuid();
    let number = known.finished.as_ref().and_then(|finished| as_number(&finished.version));
    let digest = known.finished.as_ref().and_then(|finished| finished.digest);
    let flags = [
        (uuid.is_some(), UUID),
        (known.finished.is_some(), FINISHED),
        (digest.is_some(), DIGEST),
        (number.is_some(), NUMBER),
        (known.is_unfinished, UNFINISHED),
    ];
    out.push(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    match uuid {
        Some(uuid) => out.extend_from_slice(&uuid),
        None => put_text(out, &known.uid.as_str()),
    }
    match (&known.finished, number) {
        (_, Some(number)) => put_number(out, number),
        (Some(finished), None) => put_text(out, &finished.version.as_str()),
        (None, None) => {}
    }
    if let Some(digest) = digest {
        out.extend_from_slice(&digest.get().to_le_bytes());
    }
}

/// Hashes all written bytes.
struct HashingWriter<'a, W> {
    out: &'a mut W,
    hasher: SipHasher13,
}

impl<W: Write> HashingWriter<'_, W> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), io::Error> {
        self.hasher.write(bytes);
        self.out.write_all(bytes)
    }

    fn put_frame(&mut self, tag: u8, payload: &[u8]) -> Result<(), io::Error> {
        let mut frame = Vec::with_capacity(payload.len() + 32);
        put_frame(&mut frame, tag, payload);
        self.put(&frame)
    }

    /// Writes a block and clears it. Writes nothing if the block is empty.
    fn put_block(&mut self, block: &mut Vec<u8>) -> Result<(), io::Error> {
        if block.len() > MAX_BLOCK {
            return Err(io::Error::other("an object has a key, uid or version of more than 64 KiB"));
        }
        if !block.is_empty() {
            self.put_frame(tag::BLOCK, block)?;
            block.clear();
        }
        Ok(())
    }
}
