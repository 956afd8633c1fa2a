//! The memory that a change of an informer saves.

use serde::Serialize;

use super::{
    features::Features,
    listing::Listed,
    model::{Library, Model},
    usage::Sum,
};

/// A change of an informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Change {
    /// Cache only metadata.
    MetadataOnly,
    /// Remove managedFields before objects are cached.
    DropManagedFields,
    /// Also remove the annotation of `kubectl apply`.
    DropLastApplied,
    /// Select objects by a field selector.
    FieldSelector,
    /// Use a typed informer of this project.
    Typed,
    /// Use an informer of this project with only the fields of `--fields`.
    Projection,
    /// Use a lazy informer of this project.
    Lazy,
    /// Use a compressed informer of this project.
    Compressed,
}

impl Change {
    /// Returns the change in words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MetadataOnly => "metadata only",
            Self::DropManagedFields => "remove managedFields",
            Self::DropLastApplied => "remove managedFields and last-applied-configuration",
            Self::FieldSelector => "field selector",
            Self::Typed => "kube-informer, typed",
            Self::Projection => "kube-informer, only the fields of --fields",
            Self::Lazy => "kube-informer, lazy",
            Self::Compressed => "kube-informer, compressed",
        }
    }

    /// Returns the condition under which a program can be changed in this way.
    pub(super) fn condition(self, library: Library) -> String {
        let own = match self {
            Self::MetadataOnly => "the program reads only metadata",
            Self::DropManagedFields => "the program does not read managedFields",
            Self::DropLastApplied => "the program reads neither managedFields nor this annotation",
            Self::FieldSelector => "the program does not need the other objects",
            Self::Typed => "",
            Self::Projection => "the program reads only these fields",
            Self::Lazy | Self::Compressed => "the program can decode an object at each read",
        };
        let other_library = match (self.keeps_library(library), library) {
            (true, _) => "",
            (false, Library::KubeRs) => "the program can use the caches of kube-informer",
            (false, _) => "the program can be rewritten in Rust",
        };
        let conditions = [other_library, own].into_iter().filter(|condition| !condition.is_empty());
        conditions.collect::<Vec<_>>().join(", and ")
    }

    /// Returns whether the program keeps its library.
    pub(super) fn keeps_library(self, library: Library) -> bool {
        let is_change_to_ours =
            matches!(self, Self::Typed | Self::Projection | Self::Lazy | Self::Compressed);
        library == Library::KubeInformer || !is_change_to_ours
    }
}

/// The memory of a cache after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Saving {
    pub(super) change: Change,
    /// The selector of a change to a selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) selector: Option<String>,
    pub(super) before: u64,
    pub(super) after: u64,
}

impl Saving {
    /// Returns the saved bytes.
    pub(super) fn saved(&self) -> u64 {
        self.before.saturating_sub(self.after)
    }

    /// Returns the saved part in percent.
    pub(super) fn percent(&self) -> f64 {
        100.0 * self.saved() as f64 / self.before.max(1) as f64
    }
}

/// Returns the changes that save memory, the largest saving first. `before` is the memory with `library` in
/// bytes.
pub(super) fn savings(listed: &Listed, before: u64, library: Library) -> Vec<Saving> {
    let usage = &listed.usage;
    let forms = usage.forms;
    let predicted = |features: &Features| Model::get().bytes_without_managed_fields(library, features);
    let of_library = match library {
        // An informer of this project removes managedFields by default.
        Library::KubeInformer => vec![(Change::MetadataOnly, forms.metadata)],
        _ => vec![
            (Change::MetadataOnly, predicted(&usage.metadata)),
            (Change::DropManagedFields, predicted(&usage.cached)),
            (Change::DropLastApplied, predicted(&usage.without_last_applied)),
            (Change::Typed, forms.typed),
        ],
    };
    let ours = [(Change::Lazy, forms.lazy), (Change::Compressed, forms.compressed)];
    // If no object has one of the fields, the resource has other fields, or a name is misspelled.
    let projection = forms.projection.filter(|_| listed.decoder.has_found_field());
    let projection = projection.map(|bytes| (Change::Projection, bytes));
    let changes = of_library.into_iter().chain(ours).chain(projection);
    let saving = |(change, after)| Saving { change, selector: None, before, after };
    let mut savings: Vec<Saving> = changes.map(saving).chain(field_selectors(listed, before)).collect();
    savings.retain(|saving| saving.saved() > 0);
    if usage.without_last_applied == usage.cached {
        savings.retain(|saving| saving.change != Change::DropLastApplied);
    }
    savings.sort_by_key(|saving| std::cmp::Reverse(saving.saved()));
    savings
}

fn field_selectors(listed: &Listed, before: u64) -> impl Iterator<Item = Saving> {
    let total = listed.usage.json_bytes().max(1) as f64;
    let after = move |sum: Sum| (before as f64 * sum.bytes as f64 / total) as u64;
    let selected = listed.usage.selectors.results(&listed.selectors);
    selected.into_iter().filter(|selected| !selected.is_label).map(move |selected| Saving {
        change: Change::FieldSelector,
        selector: Some(selected.text),
        before,
        after: after(selected.sum),
    })
}
