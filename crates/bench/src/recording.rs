//! What was recorded of a server: each object as it was listed and as an event showed it later, in each way of
//! writing. Kept in files, so that a second run does not record again.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use bytes::{Buf as _, Bytes};
use serde::{Deserialize, Serialize};

use crate::pods::NOT_SENT;
use crate::wire::{Change, Object, Stamp, Wire};

/// What is in the files, and how; another format is another folder.
const FORMAT: u32 = 1;
/// Says what the other files hold, and is written after them.
const MANIFEST: &str = "manifest.json";

/// What a folder holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the list.
    pub version: u64,
    /// How many objects there are.
    pub objects: usize,
    /// Where they come from.
    pub server: String,
    /// Whether they are there in protobuf, too.
    pub protobuf: bool,
}

/// The objects in one way of writing.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// As they were listed.
    pub(crate) listed: Vec<Object>,
    /// As an event showed each of them later, in the same order.
    pub(crate) changed: Vec<Object>,
}

/// A recorded server.
pub struct Recording {
    /// What there is.
    pub manifest: Manifest,
    json: Written,
    metadata: Written,
    protobuf: Option<Written>,
}

/// Where the recording of so many objects is kept.
pub(crate) fn folder(target: &Path, objects: usize) -> PathBuf {
    target.join(format!("kube-bench/recording-{FORMAT}-{objects}"))
}

/// Whether a recording is there in full.
pub(crate) fn exists(folder: &Path) -> bool {
    folder.join(MANIFEST).is_file()
}

/// Writes the files of a recording.
pub(crate) fn save(folder: &Path, manifest: &Manifest, written: &[(Wire, Written)]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    for &(wire, Written { ref listed, ref changed }) in written {
        for (objects, what) in [(listed, "listed"), (changed, "changed")] {
            ensure!(objects.len() == manifest.objects, "{} objects {what}", objects.len());
            let path = folder.join(name(wire, what));
            fs::write(&path, joined(wire, objects)?)
                .with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(fs::write(folder.join(MANIFEST), serde_json::to_vec_pretty(manifest)?)?)
}

fn name(wire: Wire, what: &str) -> String {
    let wire = if wire == Wire::Protobuf { "protobuf" } else { "json" };
    format!("{what}.{wire}")
}

/// Each object behind its length in four bytes, its version raised.
fn joined(wire: Wire, objects: &[Object]) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    for object in objects {
        let bytes = object.raised(wire)?;
        file.extend(u32::try_from(bytes.len())?.to_le_bytes());
        file.extend(bytes);
    }
    Ok(file)
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// It is not there in full, or damaged.
    pub fn load(folder: &Path) -> Result<Self> {
        let manifest = Self::manifest(folder)?;
        let written = |wire| -> Result<Written> {
            Ok(Written { listed: read(folder, wire, "listed")?, changed: read(folder, wire, "changed")? })
        };
        let json = written(Wire::Json)?;
        let protobuf = manifest.protobuf.then(|| written(Wire::Protobuf)).transpose()?;
        ensure!(json.listed.len() == manifest.objects, "{} objects in the files", json.listed.len());
        Ok(Self { metadata: json.metadata_only()?, json, protobuf, manifest })
    }

    /// The same in JSON only, so that each of its objects can stand for many.
    pub(crate) fn for_many(self) -> Result<Self> {
        let (json, metadata) = (self.json.for_many()?, self.metadata.for_many()?);
        Ok(Self { manifest: self.manifest, json, metadata, protobuf: None })
    }

    /// What a folder holds.
    ///
    /// # Errors
    /// There is no recording in it.
    pub fn manifest(folder: &Path) -> Result<Manifest> {
        let manifest = fs::read(folder.join(MANIFEST));
        let manifest = manifest.with_context(|| format!("no recording in {}", folder.display()))?;
        Ok(serde_json::from_slice(&manifest)?)
    }

    /// The body of a list of all objects, in JSON.
    pub fn list(&self) -> Vec<u8> {
        let stamp = Stamp { version: self.manifest.version, sent: NOT_SENT, number: None };
        let mut body = Wire::Json.list_head(stamp.version, None, 0);
        for (index, object) in self.json.listed.iter().enumerate() {
            Wire::Json.item(&mut body, object, stamp, index == 0);
        }
        body.extend_from_slice(Wire::Json.list_tail());
        body
    }

    /// The body of a watch that shows each object once as it was changed, in JSON: an event in each line.
    pub fn watch(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (version, object) in (self.manifest.version + 1..).zip(&self.json.changed) {
            let stamp = Stamp { version, sent: NOT_SENT, number: None };
            Wire::Json.event(&mut body, Change::Modified, object, stamp);
        }
        body
    }

    /// The objects in this way of writing, where they are there in it.
    pub(crate) fn written(&self, wire: Wire) -> Option<&Written> {
        match wire {
            Wire::Json => Some(&self.json),
            Wire::Metadata => Some(&self.metadata),
            Wire::Protobuf => self.protobuf.as_ref(),
        }
    }
}

impl Written {
    /// The same as metadata only, where this is JSON.
    pub(crate) fn metadata_only(&self) -> Result<Self> {
        let only = |objects: &[Object]| objects.iter().map(Object::metadata_only).collect::<Result<_>>();
        Ok(Self { listed: only(&self.listed)?, changed: only(&self.changed)? })
    }

    fn for_many(self) -> Result<Self> {
        let all = |objects: Vec<Object>| objects.into_iter().map(Object::for_many).collect::<Result<_>>();
        Ok(Self { listed: all(self.listed)?, changed: all(self.changed)? })
    }
}

fn read(folder: &Path, wire: Wire, what: &str) -> Result<Vec<Object>> {
    let path = folder.join(name(wire, what));
    let file = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    cut(file.into(), wire).with_context(|| format!("{} is damaged", path.display()))
}

fn cut(mut file: Bytes, wire: Wire) -> Result<Vec<Object>> {
    let mut objects = Vec::new();
    while !file.is_empty() {
        ensure!(file.len() >= 4, "the end is missing");
        let length = file.get_u32_le() as usize;
        ensure!(file.len() >= length, "the end is missing");
        let object = Object::new(wire, file.split_to(length))?;
        ensure!(object.is_raised(), "a version can't be written over");
        objects.push(object);
    }
    Ok(objects)
}
