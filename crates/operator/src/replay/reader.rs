//! `Entries`: the entries of a file, in their order.

use kube_informer::{FrameError, FrameReader};

use super::{COMPLETE, ENTRY, FORMAT, entry::Entry};

/// Reads the entries of a recording. The iterator stops before an incomplete entry.
pub(super) struct Entries<'a> {
    frames: FrameReader<'a>,
    is_complete: bool,
}

impl<'a> Entries<'a> {
    pub(super) fn new(file: &'a [u8]) -> Result<Self, FrameError> {
        Ok(Self { frames: FrameReader::new(file, FORMAT)?, is_complete: false })
    }

    /// After the last entry, returns whether the file contains the end of the recording.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.frames.next()? {
                Ok((ENTRY, payload)) => {
                    let entry = serde_json::from_slice(payload);
                    return Some(entry.map_err(|_| FrameError::Damaged("an entry is malformed")));
                }
                Ok((tag, _)) => self.is_complete |= tag == COMPLETE,
                Err(FrameError::Truncated) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
