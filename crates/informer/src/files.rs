//! The files of checkpoints and snapshots: cluster identity, frames with checksums, locks, and atomic writes.

mod bytes;
mod cluster;
mod container;
mod folder;
mod frame;
mod header;

pub(crate) use bytes::{Reader, as_number, put_key, put_number, put_text, read_key};
pub use cluster::{ClusterId, ClusterIdError};
pub use container::{FrameFormat, FrameReader, FrameWriter};
pub(crate) use folder::{Limited, LockedFolder, StorageError, file_name, is_secrets};
#[cfg(feature = "snapshots")]
pub(crate) use frame::{HASH_BYTES, HEAD_BYTES, parse_head};
pub(crate) use frame::{hash, put_frame, take_frame};
pub(crate) use header::{HeaderStart, footer, header_start, read_footer, read_header_start};

/// Reports the reason for which a file is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The file starts with other bytes. Contains the expected kind of file.
    #[error("it is not a {0}")]
    Magic(&'static str),
    /// The file has another version of the format.
    #[error("its format has version {found}, and this program reads version {supported}")]
    FormatVersion {
        /// The version of the file.
        found: u32,
        /// The version that this program reads.
        supported: u32,
    },
    /// The file ends within a frame.
    #[error("it is truncated")]
    Truncated,
    /// The file was changed. Contains the check that failed.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

impl Unusable {
    pub(crate) const OTHER_COUNTS: Self = Self::Damaged("the footer has other counts");
}

/// Returns the name and the saved value of the first text in which a saved identity differs.
pub(crate) fn difference<'a>(
    current: impl IntoIterator<Item = (&'static str, &'a str)>,
    saved: impl IntoIterator<Item = (&'static str, &'a str)>,
) -> Option<(&'static str, &'a str)> {
    let mut fields = current.into_iter().zip(saved);
    fields.find(|((_, current), (_, saved))| current != saved).map(|(_, saved)| saved)
}
