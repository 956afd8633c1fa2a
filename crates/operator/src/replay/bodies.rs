//! `recorded_bodies`: the bodies of a recording, for programs that do not replay requests.

use std::{collections::HashMap, fs, path::Path, time::Duration};

use kube_informer::{FrameError, FrameReader};

use super::{ENTRY, FORMAT_VERSION, RecordingError, entry::Entry};

/// A body of a response, or one event of a watch.
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

/// Reads the bodies of a [`Recording`](super::Recording) in their recorded order. Each event of a watch is one
/// body. An incomplete last entry, which a killed program leaves, is ignored.
///
/// # Errors
/// Returns [`RecordingError::Io`] if the file cannot be read. Returns [`RecordingError::Unusable`] if it is not a
/// recording of this version, or if it is damaged.
pub fn recorded_bodies(path: &Path) -> Result<Vec<RecordedBody>, RecordingError> {
    let file = fs::read(path).map_err(|source| RecordingError::Io { path: path.to_owned(), source })?;
    read(&file).map_err(|source| RecordingError::Unusable { path: path.to_owned(), source })
}

fn read(file: &[u8]) -> Result<Vec<RecordedBody>, FrameError> {
    let (mut requests, mut bodies) = (HashMap::new(), Vec::new());
    for frame in FrameReader::new(file, FORMAT_VERSION)? {
        let payload = match frame {
            Ok((ENTRY, payload)) => payload,
            Ok(_) => continue,
            Err(FrameError::Truncated) => break,
            Err(error) => return Err(error),
        };
        let entry =
            serde_json::from_slice(payload).map_err(|_| FrameError::Damaged("an entry is malformed"))?;
        match entry {
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
    Ok(bodies)
}
