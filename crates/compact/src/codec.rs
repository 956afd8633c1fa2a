//! `Codec`: compresses JSON, with or without a dictionary.

use std::io;

use parking_lot::Mutex;
use zstd::bulk::{Compressor, Decompressor};

/// The fastest level. With a dictionary, higher levels save little.
const LEVEL: i32 = 1;

/// The capacity of the buffer that is kept for the next object.
const MAX_KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Compresses and decompresses objects. The zstd contexts are reused, because creating one takes longer
/// than compressing an object.
pub(crate) struct Codec {
    compressor: Mutex<(Compressor<'static>, Vec<u8>)>,
    decompressor: Mutex<Decompressor<'static>>,
}

impl Codec {
    /// Creates a codec with this dictionary. An empty dictionary means none.
    pub(crate) fn new(dictionary: &[u8]) -> io::Result<Self> {
        let mut compressor = Compressor::with_dictionary(LEVEL, dictionary)?;
        // These fields are equal in all objects, or stored elsewhere.
        compressor.include_checksum(false)?;
        compressor.include_contentsize(false)?;
        compressor.include_dictid(false)?;
        let decompressor = Decompressor::with_dictionary(dictionary)?;
        Ok(Self { compressor: Mutex::new((compressor, Vec::new())), decompressor: Mutex::new(decompressor) })
    }

    /// Compresses into a reused buffer and copies the result. A new buffer would need its maximum size
    /// before the result is known, and would fragment the memory.
    pub(crate) fn pack(&self, json: &[u8]) -> io::Result<Box<[u8]>> {
        let (compressor, packed) = &mut *self.compressor.lock();
        packed.reserve(zstd::zstd_safe::compress_bound(json.len()));
        compressor.compress_to_buffer(json, packed)?;
        let exact = packed.as_slice().into();
        packed.clear();
        packed.shrink_to(MAX_KEPT_BUFFER_BYTES);
        Ok(exact)
    }

    /// Decompresses into `length` bytes.
    pub(crate) fn unpack(&self, packed: &[u8], length: usize) -> io::Result<Vec<u8>> {
        self.decompressor.lock().decompress(packed, length)
    }
}
