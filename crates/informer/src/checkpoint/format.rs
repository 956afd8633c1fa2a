//! The file format of a checkpoint.
//!
//! ```text
//! file    = magic, format version (u32), header frame, block frame*, footer frame, told frame*
//! frame   = tag (u8), length (u32), check of tag and length (u32), payload, hash of all before (u64)
//! header  = identity, seed of the digests and its fingerprint, resourceVersion
//! block   = entries in the order of their keys, at most 64 KiB
//! footer  = number of blocks and entries, hash of all bytes before the footer
//! told    = objects for which a call starts, each at most once, appended before the call
//! ```
//!
//! A file is complete with its footer. The frames after the footer are a journal. A process that is killed
//! can leave a partial last frame there, which the reader ignores. Any other deviation makes the file
//! unusable. Numbers are little-endian. Each key contains only the bytes that differ from the key before.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use kube_object::{Digest, ObjectKey, ResourceVersion, Uid};

pub(crate) use decode::decode;
pub(crate) use encode::{encode, encode_told};

use super::identity::Identity;
pub(crate) use crate::files::Unusable;

const MAGIC: [u8; 8] = *b"KINFCKPT";
const FORMAT_VERSION: u32 = 1;

/// The tags of the frames.
mod tag {
    pub(super) const HEADER: u8 = 1;
    pub(super) const BLOCK: u8 = 2;
    pub(super) const FOOTER: u8 = 3;
    pub(super) const TOLD: u8 = 4;
}

/// The maximum size of the payload of a block, in bytes.
const MAX_BLOCK: usize = 64 << 10;

/// The data of a checkpoint before its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) identity: Identity,
    /// The number of the seed of the digests. `None` if the digests cannot be compared, because the source
    /// has no seed, or because another version or platform computes other digests.
    pub(crate) seed: Option<u64>,
    /// The resourceVersion that the server had reached when the file was written.
    pub(crate) version: ResourceVersion,
}

/// The object that a handler has received under one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) uid: Uid,
    /// The last state that the handler has finished. `None` if its first call did not finish.
    pub(crate) finished: Option<Finished>,
    /// A later call started and did not finish. The handler has possibly received a later state.
    pub(crate) is_unfinished: bool,
    /// The journal of the current file contains the object. Not stored.
    pub(crate) is_in_journal: bool,
}

impl Known {
    /// Creates the state of an object whose first call did not finish.
    pub(crate) fn told(uid: Uid) -> Self {
        Self { uid, finished: None, is_unfinished: true, is_in_journal: false }
    }
}

/// A state of an object, without its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) version: ResourceVersion,
    pub(crate) digest: Option<Digest>,
}

/// The entries of a file, in the order of their keys.
pub(crate) type Entries = Vec<(ObjectKey, Known)>;

/// The journal of a file, in the order of the calls.
pub(crate) type Told = Vec<(ObjectKey, Uid)>;

/// The contents of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) header: Header,
    pub(crate) entries: Entries,
    pub(crate) told: Told,
    /// The length of the file without a partial last frame.
    pub(crate) valid_len: u64,
}
