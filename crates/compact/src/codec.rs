//! `Codec`: how JSON is packed, with a dictionary or without one.

use std::io;

use parking_lot::Mutex;
use zstd::bulk::{Compressor, Decompressor};

/// The fastest: with a dictionary the others save little more.
const LEVEL: i32 = 1;

/// As much of a buffer is kept for the next object.
const LARGEST_BUFFER: usize = 256 << 10;

/// Packs and unpacks. Contexts are made once and used again: making one takes longer than to pack an object.
pub(crate) struct Codec {
    compressor: Mutex<(Compressor<'static>, Vec<u8>)>,
    decompressor: Mutex<Decompressor<'static>>,
}

impl Codec {
    /// One that knows these texts, or none where they are empty.
    pub(crate) fn new(dictionary: &[u8]) -> io::Result<Self> {
        let mut compressor = Compressor::with_dictionary(LEVEL, dictionary)?;
        // Each of these is in all objects the same, or known from elsewhere.
        compressor.include_checksum(false)?;
        compressor.include_contentsize(false)?;
        compressor.include_dictid(false)?;
        let decompressor = Decompressor::with_dictionary(dictionary)?;
        Ok(Self { compressor: Mutex::new((compressor, Vec::new())), decompressor: Mutex::new(decompressor) })
    }

    /// Packed into a buffer that is there already, and copied to where it stays: of a buffer for each object, which is large
    /// before it is known how much of it is needed, holes would be left all over the memory.
    pub(crate) fn pack(&self, json: &[u8]) -> io::Result<Box<[u8]>> {
        let (compressor, packed) = &mut *self.compressor.lock();
        packed.reserve(zstd::zstd_safe::compress_bound(json.len()));
        compressor.compress_to_buffer(json, packed)?;
        let exact = packed.as_slice().into();
        packed.clear();
        packed.shrink_to(LARGEST_BUFFER);
        Ok(exact)
    }

    /// What was packed, which was this long.
    pub(crate) fn unpack(&self, packed: &[u8], length: usize) -> io::Result<Vec<u8>> {
        self.decompressor.lock().decompress(packed, length)
    }
}
