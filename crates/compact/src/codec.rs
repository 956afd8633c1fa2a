//! `Codec`: compresses JSON, with or without a dictionary.

use std::io;

use parking_lot::Mutex;
use zstd::bulk::{Compressor, Decompressor};

/// The fastest compression level. With a dictionary, higher levels save only little memory.
const LEVEL: i32 = 1;

/// The maximum capacity of the buffer between two objects, in bytes.
const MAX_IDLE_BUFFER_BYTES: usize = 256 << 10;

/// The maximum number of idle decompression contexts. Each context has a copy of the dictionary.
const MAX_IDLE_DECOMPRESSORS: usize = 4;

/// Compresses and decompresses objects. The zstd contexts are reused, because the creation of a
/// context takes longer than the compression of an object.
///
/// Objects are compressed by the task that reads them from the server, one at a time. Many readers
/// decompress concurrently, so no lock is held while an object is decompressed.
pub(crate) struct Codec {
    compressor: Mutex<(Compressor<'static>, Vec<u8>)>,
    dictionary: Box<[u8]>,
    idle: Mutex<Vec<Decompressor<'static>>>,
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
        let idle = vec![Decompressor::with_dictionary(dictionary)?];
        Ok(Self {
            compressor: Mutex::new((compressor, Vec::new())),
            dictionary: dictionary.into(),
            idle: Mutex::new(idle),
        })
    }

    pub(crate) fn dictionary(&self) -> &[u8] {
        &self.dictionary
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

    /// Decompresses `packed`. `length` is the number of bytes of the result. Returns an error if the memory
    /// for the result cannot be allocated. `Decompressor::decompress` would abort the process.
    pub(crate) fn unpack(&self, packed: &[u8], length: usize) -> io::Result<Vec<u8>> {
        let mut json = Vec::new();
        json.try_reserve_exact(length)?;
        let idle = self.idle.lock().pop();
        let mut decompressor = match idle {
            Some(decompressor) => decompressor,
            None => Decompressor::with_dictionary(&self.dictionary)?,
        };
        let unpacked = decompressor.decompress_to_buffer(packed, &mut json);
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE_DECOMPRESSORS {
            idle.push(decompressor);
        }
        unpacked.map(|_| json)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    #[test]
    fn concurrent_readers_have_separate_contexts_and_few_stay_idle() {
        const READERS: usize = 3 * MAX_IDLE_DECOMPRESSORS;
        let json = "{\"metadata\":{\"name\":\"a\"}}".repeat(1000);
        let codec = Codec::new(&[]).unwrap();
        let packed = codec.pack(json.as_bytes()).unwrap();
        let start = Barrier::new(READERS);
        thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..100 {
                        assert_eq!(codec.unpack(&packed, json.len()).unwrap(), json.as_bytes());
                    }
                });
            }
        });
        assert!((1..=MAX_IDLE_DECOMPRESSORS).contains(&codec.idle.lock().len()));
    }

    #[test]
    fn missing_memory_is_an_error() {
        let codec = Codec::new(&[]).unwrap();
        let packed = codec.pack(b"{}").unwrap();
        assert_eq!(codec.unpack(&packed, usize::MAX).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(codec.unpack(&packed, 2).unwrap(), b"{}");
    }

    #[test]
    fn corrupt_bytes_are_an_error_and_the_context_stays_usable() {
        let codec = Codec::new(&[]).unwrap();
        let packed = codec.pack(b"{}").unwrap();
        assert!(codec.unpack(b"corrupt", 10).is_err());
        assert_eq!(codec.unpack(&packed, 2).unwrap(), b"{}");
    }
}
