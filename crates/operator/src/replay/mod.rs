//! Records the responses that a program receives, and replays them in a test.

mod bodies;
mod entry;
mod playback;
mod reader;
mod record;
mod redactor;
mod timeline;

use std::{io, path::PathBuf};

use kube_informer::{FrameError, FrameFormat};

pub use bodies::{RecordedBodies, RecordedBody, recorded_bodies};
pub use playback::{Replay, ReplayError};
pub use record::Recording;

/// The format of a recording.
const FORMAT: FrameFormat = FrameFormat { name: "recording", magic: *b"KINFRECD", version: 2 };

/// The tag of the frames with an entry.
const ENTRY: u8 = 1;

/// The tag of the last frame. Its payload is empty.
const COMPLETE: u8 = 2;

/// Reports that a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be created, written or read.
    #[error("cannot access the recording {}: {source}", .path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not a recording of this version, or it is damaged.
    #[error("cannot use the recording {}: {source}; use a file that this version has recorded", .path.display())]
    Unusable {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: FrameError,
    },
}
