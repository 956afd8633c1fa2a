//! The file format of a snapshot.
//!
//! ```text
//! file    = magic, format version (u32), header frame, block frame*, footer frame
//! frame   = tag (u8), length (u32), check of tag and length (u32), payload, hash of all before (u64)
//! header  = identity, seed of the digests and its fingerprint, resourceVersion, time, completeness
//! block   = length of the entries (0: not compressed), entries in the order of their keys
//! entry   = key, flags, uid, version, digest, length of the object, object
//! footer  = number of blocks and entries, hash of the hashes of all frames before the footer
//! ```
//!
//! Any deviation makes the file unusable, also a byte after the footer. Numbers are little-endian. Each key
//! contains only the bytes that differ from the key before. The entries of a block have at most 64 KiB. Only
//! a larger object has a separate, larger block. The length of the file limits the size of each allocation of
//! a reader.
//!
//! Blocks are compressed by LZ4. With zstd, the file would be smaller, but its decompression would need more
//! than twice the time.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use std::time::SystemTime;

use kube_object::ResourceVersion;

pub(super) use decode::{BlockReader, FileReader, Frame};
pub(super) use encode::FileWriter;

use super::identity::Identity;
pub(super) use crate::files::Unusable;

const MAGIC: [u8; 8] = *b"KINFSNAP";
const FORMAT_VERSION: u32 = 1;

/// The maximum size of the entries of a block with several objects, in bytes.
const BLOCK_BYTES: usize = 64 << 10;

/// The maximum size of the entries of a block, in bytes. It limits the size of an object.
const MAX_BLOCK_BYTES: usize = 64 << 20;

/// The maximum size of the entries of a compressed block, as a multiple of its compressed size. LZ4 cannot
/// compress better.
const MAX_RATIO: usize = 256;

/// The tags of the frames.
mod tag {
    pub(super) const HEADER: u8 = 1;
    pub(super) const BLOCK: u8 = 2;
    pub(super) const FOOTER: u8 = 3;
}

/// The flags of an entry.
mod flag {
    pub(super) const UUID: u8 = 1;
    pub(super) const NUMBER: u8 = 2;
    pub(super) const DIGEST: u8 = 4;
    pub(super) const ALL: u8 = UUID | NUMBER | DIGEST;
}

/// The data of a snapshot before its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) identity: Identity,
    /// The number of the seed of the digests. `None` if another version or platform computes other digests.
    pub(super) seed: Option<u64>,
    /// The resourceVersion up to which the objects contain all changes.
    pub(super) version: ResourceVersion,
    /// The time when the objects were read from the cache, in milliseconds.
    pub(super) saved_at: SystemTime,
    /// Whether the file contains all objects of the version.
    pub(super) complete: bool,
}
