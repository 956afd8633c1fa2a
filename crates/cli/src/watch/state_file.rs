//! `StateFile`: the objects at the end of a watch, for `--since` of the next watch.
//!
//! The file consists of frames with checksums: a header, blocks of compressed objects, and a last frame. Each
//! object is the JSON of the server. Only the owner can read the file. Values of Secrets are replaced by
//! keyed hashes, so the next watch can tell which values changed.

use std::{
    fs::{self, File, OpenOptions},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use kube_informer::{FrameFormat, FrameReader, FrameWriter, ObjectId, Snapshot, is_sensitive};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::{
    changes::{FieldPath, is_hidden, visit_scalars},
    error::CliError,
    feed::{CachedObject, Target, UnreadableObject, object_value},
};

const FORMAT: FrameFormat = FrameFormat { name: "state file of watch", magic: *b"KINFWTCH", version: 1 };
const HEADER: u8 = 1;
const BLOCK: u8 = 2;
const END: u8 = 3;
/// The size from which a block is written, in bytes of JSON.
const BLOCK_BYTES: usize = 1 << 20;
/// The maximum size of a block, in bytes of JSON. The last object of a block can exceed its size.
const MAX_BLOCK_BYTES: usize = 64 << 20;
const COMPRESSION_LEVEL: i32 = 3;

/// The first frame of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    cluster: String,
    /// The text of each target. Another command line can contain the same targets in another order.
    targets: Vec<String>,
    /// The key of the hashes.
    key: [u64; 2],
}

/// The state in a file.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    header: Header,
    bytes: Vec<u8>,
}

/// Returns the text that identifies a target in a file.
fn selection(target: &Target) -> String {
    let part = |value: &Option<String>| value.clone().unwrap_or_else(|| "*".to_owned());
    let (namespace, labels, fields) = (part(&target.namespace), part(&target.labels), part(&target.fields));
    format!("{} in namespace {namespace}, labels {labels}, fields {fields}", target.label)
}

impl StateFile {
    /// Reads a file. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is damaged, or belongs to another cluster or selection.
    pub(super) fn read(path: &Path, cluster: &str, targets: &[Target]) -> Result<Option<Self>, CliError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(CliError::File { operation: "read", file: path.to_owned(), source }),
        };
        let damaged = |error: io::Error| CliError::File {
            operation: "use the state file",
            file: path.to_owned(),
            source: io::Error::other(format!("{error}; use a file that --checkpoint has written")),
        };
        let header = checked_header(&bytes).map_err(damaged)?;
        if header.cluster != cluster {
            return Err(CliError::Usage(format!(
                "{} belongs to another cluster; use another file for each cluster",
                path.display()
            )));
        }
        let sorted = |mut targets: Vec<String>| {
            targets.sort();
            targets
        };
        if sorted(header.targets.clone()) != sorted(targets.iter().map(selection).collect()) {
            let found = header.targets.join("; ");
            return Err(CliError::Usage(format!(
                "{} was written for another selection ({found}); use the same resources, names and selectors",
                path.display()
            )));
        }
        Ok(Some(Self { path: path.to_owned(), header, bytes }))
    }

    /// Calls `visit` with each object of a target. Contents of Secrets are hashes, as in
    /// [`hashed`](Self::hashed).
    ///
    /// # Errors
    ///
    /// Fails if the file is damaged, or with an error of `visit`.
    pub(super) fn objects(
        &self,
        target: &Target,
        mut visit: impl FnMut(Value) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let damaged = |source: io::Error| CliError::File {
            operation: "read the state file",
            file: self.path.clone(),
            source,
        };
        let selection = selection(target);
        let target = self.header.targets.iter().position(|own| *own == selection);
        for frame in frames(&self.bytes).map_err(damaged)? {
            let (tag, payload) = frame.map_err(damaged)?;
            let Some((number, packed)) = payload.split_first_chunk().filter(|_| tag == BLOCK) else {
                continue;
            };
            if Some(u32::from_le_bytes(*number) as usize) != target {
                continue;
            }
            let block = zstd::bulk::decompress(packed, MAX_BLOCK_BYTES).map_err(damaged)?;
            for object in serde_json::Deserializer::from_slice(&block).into_iter() {
                visit(object.map_err(|error| damaged(error.into()))?)?;
            }
        }
        Ok(())
    }

    /// Replaces the contents of a Secret as in this file.
    pub(super) fn hashed(&self, target: &Target, object: &mut Value) {
        hash_contents(&self.header, target, object);
    }
}

fn frames(bytes: &[u8]) -> io::Result<impl Iterator<Item = io::Result<(u8, &[u8])>>> {
    let reader = FrameReader::new(bytes, FORMAT).map_err(io::Error::other)?;
    Ok(reader.map(|frame| frame.map_err(io::Error::other)))
}

/// Checks all frames, and returns the header.
fn checked_header(bytes: &[u8]) -> io::Result<Header> {
    let mut frames = frames(bytes)?;
    let incomplete = || io::Error::new(io::ErrorKind::InvalidData, "the file is incomplete");
    let (tag, payload) = frames.next().ok_or_else(incomplete)??;
    if tag != HEADER {
        return Err(incomplete());
    }
    let header = serde_json::from_slice(payload)?;
    let mut last = HEADER;
    for frame in frames {
        last = frame?.0;
    }
    if last == END { Ok(header) } else { Err(incomplete()) }
}

/// Replaces the hidden texts, numbers and booleans of a sensitive object by hashes.
fn hash_contents(header: &Header, target: &Target, object: &mut Value) {
    if !is_sensitive(&target.resource.kind) {
        return;
    }
    visit_scalars(object, &mut |path: &FieldPath, value: &mut Value| {
        if is_hidden(true, path) {
            let mut hasher = SipHasher13::new_with_keys(header.key[0], header.key[1]);
            // The JSON of a text has quotes, so the text and a number have other hashes.
            hasher.write(value.to_string().as_bytes());
            *value = format!("{:032x}", hasher.finish128().as_u128()).into();
        }
    });
}

/// The field of an object of which the file contains only the identity.
const UNREADABLE: &str = "kubectl-informer/unreadable";

/// Returns the identity of an unreadable object, in the form of an object.
fn identity(id: &ObjectId) -> Value {
    json!({
        "metadata": {
            "namespace": id.key.namespace(), "name": id.key.name(),
            "uid": id.uid.as_str(), "resourceVersion": id.version.as_str(),
        },
        UNREADABLE: true,
    })
}

/// Returns the object, unless the file contains only its identity.
///
/// # Errors
///
/// Fails if the fields of the object are unknown.
pub(super) fn readable(object: &Value) -> Result<&Value, UnreadableObject> {
    if object[UNREADABLE] == true { Err(UnreadableObject) } else { Ok(object) }
}

/// Writes the objects of all targets. The old file is replaced when the new file is complete.
///
/// # Errors
///
/// Fails if the file cannot be written. The old file then remains.
pub(super) fn write(
    path: &Path,
    cluster: &str,
    targets: &[Target],
    objects: impl Fn(usize) -> Snapshot<CachedObject>,
) -> Result<(), CliError> {
    let failed = |source| CliError::File { operation: "write", file: path.to_owned(), source };
    let random = || RandomState::new().build_hasher().finish();
    // Several programs can write the same file at the same time.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{:016x}.tmp", random()));
    let temporary = PathBuf::from(temporary);
    let header = Header {
        cluster: cluster.to_owned(),
        targets: targets.iter().map(selection).collect(),
        key: [random(), random()],
    };
    let written = create(&temporary).and_then(|file| {
        write_frames(file, &header, targets, objects)?;
        fs::rename(&temporary, path)
    });
    written.map_err(|error| {
        // The incomplete file is useless, and a failure to remove it does no harm.
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

/// Creates a file that only the owner can read.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn write_frames(
    file: File,
    header: &Header,
    targets: &[Target],
    objects: impl Fn(usize) -> Snapshot<CachedObject>,
) -> io::Result<()> {
    let mut writer = FrameWriter::new(BufWriter::new(file), FORMAT)?;
    writer.write(HEADER, &serde_json::to_vec(header)?)?;
    for (number, target) in targets.iter().enumerate() {
        let number = u32::try_from(number).map_err(io::Error::other)?;
        let mut block = Vec::new();
        for entry in objects(number as usize).iter() {
            let object = match object_value(&entry.object) {
                Ok(mut object) => {
                    hash_contents(header, target, &mut object);
                    object
                }
                Err(UnreadableObject) => identity(&entry.id),
            };
            serde_json::to_writer(&mut block, &object)?;
            block.push(b'\n');
            if block.len() >= BLOCK_BYTES {
                write_block(&mut writer, number, &mut block)?;
            }
        }
        write_block(&mut writer, number, &mut block)?;
    }
    writer.write(END, &[])?;
    let mut file = writer.into_inner();
    file.flush()?;
    file.get_ref().sync_all()
}

fn write_block(
    writer: &mut FrameWriter<BufWriter<File>>,
    target: u32,
    block: &mut Vec<u8>,
) -> io::Result<()> {
    if block.is_empty() {
        return Ok(());
    }
    let mut payload = target.to_le_bytes().to_vec();
    payload.extend(zstd::bulk::compress(block, COMPRESSION_LEVEL)?);
    block.clear();
    writer.write(BLOCK, &payload)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use kube_client::core::{ApiResource, GroupVersionKind};
    use kube_informer::Scope;

    use super::*;

    fn target() -> Target {
        Target {
            label: "secrets".to_owned(),
            resource: ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret")),
            scope: Scope::Namespaced,
            namespace: None,
            labels: None,
            fields: None,
        }
    }

    #[test]
    fn file_can_be_written_during_another_write() {
        let folder = tempfile::tempdir().unwrap();
        let (path, targets) = (folder.path().join("state"), [target()]);
        let none = || kube_informer::Store::<CachedObject>::new().lister().snapshot();
        let inner = || write(&path, "inner", &targets, |_| none());
        let outer = |_| {
            inner().unwrap();
            none()
        };
        write(&path, "outer", &targets, outer).unwrap();
        assert!(StateFile::read(&path, "outer", &targets).unwrap().is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file remains");
    }

    #[test]
    fn all_values_of_secret_are_hashed() {
        let target = target();
        let header = Header { cluster: String::new(), targets: Vec::new(), key: [1, 2] };
        let mut secret = json!({
            "metadata": {"name": "s"}, "data": {"pin": 12_345, "text": "12345", "flag": true, "list": [1.5, null]},
        });
        hash_contents(&header, &target, &mut secret);
        let text = secret.to_string();
        assert!(!["12345", "true", "1.5"].iter().any(|value| text.contains(value)), "{text}");
        assert_ne!(secret["data"]["pin"], secret["data"]["text"]);
        assert_eq!(secret["metadata"]["name"], "s");
    }
}
