//! `recorded_bodies`: the bodies of a recording, for programs that do not replay requests.

use std::{collections::HashMap, fs, path::Path, time::Duration};

use kube_informer::FrameError;

use super::{RecordingError, entry::Entry, reader::Entries};

/// Holds the contents of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedBodies {
    /// The bodies in their recorded order. Each event of a watch is one body.
    pub bodies: Vec<RecordedBody>,
    /// Whether the file contains the end of the recording. False if the program was killed before
    /// [`Recording::finish`](super::Recording::finish), or if the file was truncated. Further bodies are then
    /// missing.
    pub is_complete: bool,
}

/// Holds a body of a response, or one event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedBody {
    /// The time since the start of the recording.
    pub at: Duration,
    /// The method of the request.
    pub method: String,
    /// The path and the query of the request.
    pub path: String,
    /// The status code of the response.
    pub status: u16,
    /// The JSON, in which placeholders replace sensitive values.
    pub body: String,
}

/// Reads the bodies of a [`Recording`](super::Recording). If the file was truncated, the result contains the
/// complete bodies before this place.
///
/// # Errors
/// Returns [`RecordingError::Io`] if the file cannot be read. Returns [`RecordingError::Unusable`] if it is
/// not a recording of this version, or if it is damaged.
pub fn recorded_bodies(path: &Path) -> Result<RecordedBodies, RecordingError> {
    let file = fs::read(path).map_err(|source| RecordingError::Io { path: path.to_owned(), source })?;
    read(&file).map_err(|source| RecordingError::Unusable { path: path.to_owned(), source })
}

fn read(file: &[u8]) -> Result<RecordedBodies, FrameError> {
    let (mut requests, mut bodies) = (HashMap::new(), Vec::new());
    let mut entries = Entries::new(file)?;
    for entry in &mut entries {
        match entry? {
            Entry::Request { number, method, path } => _ = requests.insert(number, (method, path, 0)),
            Entry::Response { number, status, .. } => {
                requests.entry(number).and_modify(|request| request.2 = status);
            }
            Entry::Chunk { number, at, text } => {
                if let Some((method, path, status)) = requests.get(&number).cloned() {
                    bodies.push(RecordedBody {
                        at: Duration::from_micros(at),
                        method,
                        path,
                        status,
                        body: text,
                    });
                }
            }
            Entry::Start { .. } | Entry::End { .. } | Entry::Broken { .. } => {}
        }
    }
    Ok(RecordedBodies { bodies, is_complete: entries.is_complete() })
}
