//! Reads the objects of a snapshot.
//!
//! A thread for blocking work reads the file. The task that restores the snapshot decodes the objects, one
//! block at a time. Most allocators have separate memory for each thread, and an object is expensive if one
//! thread allocates it and another thread frees it. Tasks of the runtime allocate and free all later objects.

use std::{
    fs::File,
    io::BufReader,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube_object::{Entry, Persist, TypeMeta};
use tokio::task::{spawn_blocking, yield_now};

use super::format::{BlockReader, FileReader, Frame, Header, Unusable};

/// The size of the blocks that a thread reads at a time, in bytes.
const BATCH_BYTES: usize = 256 << 10;

/// A file with a correct header.
pub(super) struct OpenFile {
    pub(super) header: Header,
    pub(super) reader: FileReader<BufReader<File>>,
}

/// The usable contents of a file.
pub(super) struct Loaded<T> {
    pub(super) header: Header,
    pub(super) entries: Vec<Entry<T>>,
}

impl OpenFile {
    /// Reads all objects. `kind` is the kind of the resource.
    ///
    /// # Errors
    /// Returns the reason for which the file is not used.
    pub(super) async fn load<T: Persist>(self, kind: &Arc<TypeMeta>) -> Result<Loaded<T>, String> {
        let Self { header, mut reader } = self;
        let mut objects =
            Objects { blocks: BlockReader::default(), shared: T::Shared::default(), entries: Vec::new() };
        loop {
            let read = spawn_blocking(move || (read_batch(&mut reader), reader)).await;
            let batch;
            (batch, reader) = read.map_err(|_| "the runtime shuts down".to_owned())?;
            match objects.decode(batch, kind).await {
                Ok(true) => return Ok(Loaded { header, entries: objects.entries }),
                Ok(false) => {}
                Err(reason) => {
                    // The drop of many objects blocks.
                    drop(spawn_blocking(move || drop(objects)));
                    return Err(reason);
                }
            }
        }
    }
}

/// Reads some frames. The last frame can be the end of the file.
fn read_batch(reader: &mut FileReader<BufReader<File>>) -> Result<Vec<Frame>, Unusable> {
    let (mut frames, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES {
        let frame = reader.next()?;
        match &frame {
            Frame::Block(payload) => bytes += payload.len(),
            Frame::End { .. } => bytes = BATCH_BYTES,
        }
        frames.push(frame);
    }
    Ok(frames)
}

/// The objects of the blocks that were read.
struct Objects<T: Persist> {
    blocks: BlockReader,
    shared: T::Shared,
    entries: Vec<Entry<T>>,
}

impl<T: Persist> Objects<T> {
    /// Decodes the objects of some frames. Returns true at the end of the file.
    async fn decode(
        &mut self,
        batch: Result<Vec<Frame>, Unusable>,
        kind: &Arc<TypeMeta>,
    ) -> Result<bool, String> {
        for frame in batch.map_err(|unusable| unusable.to_string())? {
            match frame {
                Frame::Block(payload) => {
                    // A `Deserialize` implementation can panic.
                    catch_unwind(AssertUnwindSafe(|| self.decode_block(&payload, kind)))
                        .unwrap_or_else(|_| Err("a Deserialize implementation panicked".to_owned()))?;
                    yield_now().await;
                }
                Frame::End { entries } => {
                    self.blocks.end(entries).map_err(|unusable| unusable.to_string())?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn decode_block(&mut self, payload: &[u8], kind: &Arc<TypeMeta>) -> Result<(), String> {
        let Self { blocks, shared, entries } = self;
        let mut undecodable = None;
        let read = blocks.read(payload, |id, digest, bytes| {
            let object = T::restore(bytes, &id, kind, shared).map_err(|error| {
                undecodable = Some(error);
                Unusable::Damaged("an object cannot be decoded")
            })?;
            entries.push(Entry { id, object: Arc::new(object), digest });
            Ok(())
        });
        match (read, undecodable) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(error)) => Err(error.to_string()),
            (Err(error), None) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
