//! `Codec`: compresses JSON, with or without a dictionary.

use std::io;

use parking_lot::Mutex;
use zstd::bulk::{Compressor, Decompressor};

/// The fastest compression level. With a dictionary, higher levels save only little memory.
const LEVEL: i32 = 1;

/// The maximum capacity of the buffer between two objects, in bytes.
const MAX_IDLE_BUFFER_BYTES: usize = 256 << 10;

/// Compresses and decompresses objects. The zstd contexts are reused, because the creation of a
/// context takes longer than the compression of an object.
pub(crate) struct Codec {
    compressor: Mutex<(Compressor<'static>, Vec<u8>)>,
    decompressor: Mutex<Decompressor<'static>>,
}

impl Codec {
    /// Creates a codec with this dictionary. With an empty dictionary, the codec uses no
    /// dictionary.
    pub(crate) fn new(dictionary: &[u8]) -> io::Result<Self> {
        let mut compressor = Compressor::with_dictionary(LEVEL, dictionary)?;
        // These fields are equal in all objects, or stored elsewhere.
        compressor.include_checksum(false)?;
        compressor.include_contentsize(false)?;
        compressor.include_dictid(false)?;
        let decompressor = Decompressor::with_dictionary(dictionary)?;
        Ok(Self { compressor: Mutex::new((compressor, Vec::new())), decompressor: Mutex::new(decompressor) })
    }

    /// Compresses into a reused buffer and copies the result. A new buffer would have to be as
    /// large as the largest possible result, and would fragment the memory.
    pub(crate) fn pack(&self, json: &[u8]) -> io::Result<Box<[u8]>> {
        let (compressor, packed) = &mut *self.compressor.lock();
        packed.reserve(zstd::zstd_safe::compress_bound(json.len()));
        compressor.compress_to_buffer(json, packed)?;
        let exact = packed.as_slice().into();
        packed.clear();
        packed.shrink_to(MAX_IDLE_BUFFER_BYTES);
        Ok(exact)
    }

    /// Decompresses `packed`. `length` is the number of bytes of the result.
    pub(crate) fn unpack(&self, packed: &[u8], length: usize) -> io::Result<Vec<u8>> {
        self.decompressor.lock().decompress(packed, length)
    }
}
