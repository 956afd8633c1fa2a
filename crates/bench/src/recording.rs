//! A recording of a server. It contains each object from the list and from a later event, in each
//! encoding. It is stored in files, so that later comparisons use it again.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use kube_informer::{FrameFormat, FrameReader, FrameWriter};
use serde::{Deserialize, Serialize};

use crate::pods::NOT_SENT;
use crate::wire::{Change, Kind, Object, Stamp, Wire};

/// The format of the files. The version is part of the folder name.
const FORMAT: FrameFormat =
    FrameFormat { name: "file of benchmark objects", magic: *b"KINFBNCH", version: 3 };
/// The tag of the frame of an object.
const OBJECT: u8 = 1;
/// The file with the manifest. It is written last.
const MANIFEST: &str = "manifest.json";

/// Contains the description of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The resourceVersion of the recorded list.
    pub version: u64,
    /// The number of objects.
    pub objects: usize,
    /// The description of the recorded server, with its version.
    pub server: String,
    /// True if the recording contains protobuf in addition to JSON.
    pub protobuf: bool,
    /// The kind of the objects.
    #[serde(default)]
    pub kind: Kind,
}

/// The objects in one encoding.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// The objects of the list.
    pub(crate) listed: Vec<Object>,
    /// The objects of later events, in the same order.
    pub(crate) changed: Vec<Object>,
}

/// Contains the recorded objects of a server.
pub struct Recording {
    /// The description of the recording.
    pub manifest: Manifest,
    json: Written,
    metadata: Written,
    protobuf: Option<Written>,
}

/// Returns the folder for a recording of `objects` objects.
pub(crate) fn folder(target: &Path, objects: usize) -> PathBuf {
    target.join(format!("kube-bench/recording-{}-{objects}", FORMAT.version))
}

/// Returns true if a complete recording exists.
pub(crate) fn exists(folder: &Path) -> bool {
    folder.join(MANIFEST).is_file()
}

/// Writes the files of a recording.
pub(crate) fn save(folder: &Path, manifest: &Manifest, written: &[(Wire, Written)]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for &(wire, Written { ref listed, ref changed }) in written {
        for (objects, what) in [(listed, "listed"), (changed, "changed")] {
            ensure!(objects.len() == manifest.objects, "{} objects {what}", objects.len());
            let path = folder.join(name(wire, what));
            fs::write(&path, joined(wire, objects)?)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(fs::write(folder.join(MANIFEST), serde_json::to_vec_pretty(manifest)?)?)
}

fn name(wire: Wire, what: &str) -> String {
    let wire = if wire == Wire::Protobuf { "protobuf" } else { "json" };
    format!("{what}.{wire}")
}

/// Joins objects to a recording with a frame for each object. The frame contains its bytes with a raised
/// resourceVersion.
fn joined(wire: Wire, objects: &[Object]) -> Result<Vec<u8>> {
    let mut file = FrameWriter::new(Vec::new(), FORMAT)?;
    for object in objects {
        file.write(OBJECT, &object.raised(wire)?)?;
    }
    Ok(file.into_inner())
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    ///
    /// Fails if the recording is incomplete or damaged.
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

    /// Converts the recording to a template for generated objects, in JSON only.
    pub(crate) fn into_template(self) -> Result<Self> {
        let (json, metadata) = (self.json.into_template()?, self.metadata.into_template()?);
        Ok(Self { manifest: self.manifest, json, metadata, protobuf: None })
    }

    /// Reads the manifest of a recording.
    ///
    /// # Errors
    ///
    /// Fails if the folder contains no recording.
    pub fn manifest(folder: &Path) -> Result<Manifest> {
        let manifest = fs::read(folder.join(MANIFEST));
        let manifest = manifest.with_context(|| format!("no recording in {}", folder.display()))?;
        Ok(serde_json::from_slice(&manifest)?)
    }

    /// Returns the body of the response to a LIST of all objects, in JSON.
    pub fn list(&self) -> Vec<u8> {
        let stamp = Stamp { version: self.manifest.version, sent: NOT_SENT, number: None };
        let mut body = Wire::Json.list_head(self.manifest.kind, stamp.version, None, 0);
        for (index, object) in self.json.listed.iter().enumerate() {
            Wire::Json.item(&mut body, object, stamp, index == 0);
        }
        body.extend_from_slice(Wire::Json.list_tail());
        body
    }

    /// Returns the body of the response to a WATCH with one event per object, in JSON.
    pub fn watch(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (version, object) in (self.manifest.version + 1..).zip(&self.json.changed) {
            let stamp = Stamp { version, sent: NOT_SENT, number: None };
            Wire::Json.event(&mut body, self.manifest.kind, Change::Modified, object, stamp);
        }
        body
    }

    /// Returns the objects in this encoding, if the recording contains it.
    pub(crate) fn written(&self, wire: Wire) -> Option<&Written> {
        match wire {
            Wire::Json => Some(&self.json),
            Wire::Metadata => Some(&self.metadata),
            Wire::Protobuf => self.protobuf.as_ref(),
        }
    }
}

impl Written {
    /// Converts objects in JSON to metadata only.
    pub(crate) fn metadata_only(&self) -> Result<Self> {
        let only = |objects: &[Object]| objects.iter().map(Object::metadata_only).collect::<Result<_>>();
        Ok(Self { listed: only(&self.listed)?, changed: only(&self.changed)? })
    }

    fn into_template(self) -> Result<Self> {
        let all =
            |objects: Vec<Object>| objects.into_iter().map(Object::into_template).collect::<Result<_>>();
        Ok(Self { listed: all(self.listed)?, changed: all(self.changed)? })
    }
}

fn read(folder: &Path, wire: Wire, what: &str) -> Result<Vec<Object>> {
    let path = folder.join(name(wire, what));
    let file = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    cut(&file.into(), wire).with_context(|| format!("{} is damaged", path.display()))
}

fn cut(file: &Bytes, wire: Wire) -> Result<Vec<Object>> {
    let mut objects = Vec::new();
    for frame in FrameReader::new(file, FORMAT)? {
        let (_, bytes) = frame?;
        let object = Object::new(wire, file.slice_ref(bytes))?;
        ensure!(object.is_raised(), "a resourceVersion has too few digits");
        objects.push(object);
    }
    Ok(objects)
}
