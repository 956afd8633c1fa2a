//! `Identity`: the owner of a checkpoint.

use crate::files::difference;

/// Identifies the cluster, the resource, the handler and the program of a checkpoint. A checkpoint with
/// another identity is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    /// The path of the resource, with the namespace.
    pub(crate) path: String,
    /// The selectors and further query parameters.
    pub(crate) selection: String,
    /// The Rust type of the objects. Typed objects and metadata of one resource have the same path.
    pub(crate) object_type: String,
    pub(crate) handler: String,
    pub(crate) handler_version: String,
}

impl Identity {
    /// Returns all fields with their names.
    pub(crate) fn texts(&self) -> [(&'static str, &str); 6] {
        [
            ("cluster", &self.cluster),
            ("path", &self.path),
            ("selection", &self.selection),
            ("object type", &self.object_type),
            ("handler", &self.handler),
            ("handler version", &self.handler_version),
        ]
    }

    /// Creates an identity from the fields in the order of [`Identity::texts`].
    pub(crate) fn from_texts(texts: Vec<String>) -> Option<Self> {
        let texts: [String; 6] = texts.try_into().ok()?;
        let [cluster, path, selection, object_type, handler, handler_version] = texts;
        Some(Self { cluster, path, selection, object_type, handler, handler_version })
    }

    /// Returns the name and the saved value of the first field in which a saved identity differs.
    pub(crate) fn difference<'a>(&'a self, saved: &'a Identity) -> Option<(&'static str, &'a str)> {
        difference(self.texts(), saved.texts())
    }
}
