//! Loads objects from YAML and JSON files.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::server::Server;
use crate::write::decode::yaml_documents;

/// Reports that a file could not be loaded. The message contains the file, the document and the reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file or folder cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// There is nothing to load.
    #[error("{} contains no object; pass a YAML or JSON file, or a folder that contains such files", .0.display())]
    Empty(PathBuf),
    /// A document is neither YAML nor JSON, or the server rejected an object of it.
    #[error("{}: document {document}: {reason}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// The number of the document. The first document that is not empty has number 1.
        document: usize,
        /// The error of the parser, or the kind and name of the object and the status of the rejection.
        reason: String,
    },
}

struct Loaded {
    path: PathBuf,
    document: usize,
    object: Value,
}

/// # Files
impl Server {
    /// Creates or replaces all objects of a file, or of the files of a folder. Returns the objects as
    /// stored.
    ///
    /// Files can contain several YAML documents, or JSON. The items of a `List` are loaded as separate
    /// objects. The order is: CRDs, namespaces, then other objects by file name and position. In a
    /// folder, only the files `*.yaml`, `*.yml` and `*.json` are loaded. Subfolders are ignored. Each
    /// object is written with [`Server::create_or_replace`].
    ///
    /// ```no_run
    /// # let server = kube_testserver::Server::new();
    /// server.load_yaml("tests/fixtures")?;
    /// # Ok::<(), kube_testserver::LoadError>(())
    /// ```
    ///
    /// # Errors
    /// If a file cannot be read or parsed, returns an error, and no object is stored. If the server
    /// rejects an object, returns an error, and only the preceding objects are stored.
    pub fn load_yaml(&self, path: impl AsRef<Path>) -> Result<Vec<Value>, LoadError> {
        let mut objects = Vec::new();
        for path in files(path.as_ref())? {
            read(&path, &mut objects)?;
        }
        if objects.is_empty() {
            return Err(LoadError::Empty(path.as_ref().into()));
        }
        // Other objects may need the CRDs and namespaces.
        objects.sort_by_key(|loaded| match loaded.object["kind"].as_str() {
            Some("CustomResourceDefinition") => 0,
            Some("Namespace") => 1,
            _ => 2,
        });
        let store = |Loaded { path, document, object }: Loaded| {
            self.create_or_replace(&object).map_err(|status| {
                let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
                let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
                let reason = format!("the server rejects {kind} {name}: {status}");
                LoadError::Document { path, document, reason }
            })
        };
        objects.into_iter().map(store).collect()
    }
}

/// Returns the files of a folder, ordered by name. A file is returned unchanged.
fn files(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let failed = |source| LoadError::Read { path: path.into(), source };
    let entries = std::fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let is_loaded = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known)) && !path.is_dir()
    };
    let paths = entries.map_err(failed)?.into_iter().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths.filter(is_loaded).collect();
    paths.sort();
    Ok(paths)
}

fn read(path: &Path, objects: &mut Vec<Loaded>) -> Result<(), LoadError> {
    let bytes = std::fs::read(path).map_err(|source| LoadError::Read { path: path.into(), source })?;
    let mut unread = bytes.as_slice();
    for (index, parsed) in yaml_documents(&mut unread).enumerate() {
        let document = index + 1;
        let mut object =
            parsed.map_err(|reason| LoadError::Document { path: path.into(), document, reason })?;
        let mut add = |object| objects.push(Loaded { path: path.into(), document, object });
        let list =
            object.as_object_mut().filter(|object| object.get("kind").is_some_and(|kind| kind == "List"));
        match list.and_then(|list| list.remove("items")) {
            Some(Value::Array(items)) => items.into_iter().for_each(add),
            _ => add(object),
        }
    }
    Ok(())
}
