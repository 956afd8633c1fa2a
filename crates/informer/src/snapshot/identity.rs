//! `Identity`: the contents of a snapshot.

use std::any::type_name;

use kube_listwatch::ListerWatcher;
use kube_object::{DecodeContext, Persist};

use super::SnapshotFile;
use crate::files::difference;

/// Identifies the cluster, the objects and their form. A snapshot with another identity is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) cluster: String,
    /// The path of the resource, with the namespace.
    pub(super) path: String,
    /// The selectors and further query parameters.
    pub(super) selection: String,
    /// The Rust type of the objects, the form of their bytes, and the fields that the informer keeps.
    pub(super) representation: String,
    pub(super) transform_version: String,
}

impl Identity {
    pub(super) fn of<T: Persist>(
        source: &dyn ListerWatcher<T>,
        context: &DecodeContext,
        file: &SnapshotFile,
    ) -> Self {
        let options = source.coverage().unwrap_or_default().options;
        let selectors = (&options.label_selector, &options.field_selector);
        let managed_fields = if context.keep_managed_fields { "with" } else { "without" };
        Self {
            cluster: file.cluster.as_str().to_owned(),
            path: source.path(),
            selection: format!("{selectors:?} {:?}", options.parameters),
            representation: format!("{} as {}, {managed_fields} managedFields", type_name::<T>(), T::FORM),
            transform_version: file.transform_version.clone(),
        }
    }

    /// Returns all fields with their names.
    pub(super) fn texts(&self) -> [(&'static str, &str); 5] {
        [
            ("cluster", &self.cluster),
            ("path", &self.path),
            ("selection", &self.selection),
            ("representation", &self.representation),
            ("transform version", &self.transform_version),
        ]
    }

    /// Creates an identity from the fields in the order of [`Identity::texts`].
    pub(super) fn from_texts(texts: Vec<String>) -> Option<Self> {
        let texts: [String; 5] = texts.try_into().ok()?;
        let [cluster, path, selection, representation, transform_version] = texts;
        Some(Self { cluster, path, selection, representation, transform_version })
    }

    /// Returns the name and the saved value of the first field in which a saved identity differs.
    pub(super) fn difference<'a>(&'a self, saved: &'a Identity) -> Option<(&'static str, &'a str)> {
        difference(self.texts(), saved.texts())
    }
}
