//! Chooses the changes that save the most memory, with their code.

use serde::Serialize;

use super::{
    model::Library,
    savings::Saving,
    snippets::{Code, Subject, code},
};

/// The maximum number of changes of one resource that keep the library, and that change it.
const PER_RESOURCE: usize = 2;
/// The maximum number of advised changes.
const MAX_ADVICE: usize = 8;
/// A change is advised if it saves this part of the memory of all resources.
const MIN_SHARE: f64 = 0.02;

/// The savings of a resource.
pub(super) struct Candidate<'a> {
    /// The name of the resource.
    pub(super) resource: &'a str,
    pub(super) kind: &'a str,
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) namespace: Option<&'a str>,
    /// The memory of its cache in bytes.
    pub(super) bytes: u64,
    /// The largest saving is the first.
    pub(super) savings: &'a [Saving],
}

/// A change that saves memory.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Advice {
    pub(super) resource: String,
    pub(super) change: String,
    /// The condition under which the change is possible.
    pub(super) condition: String,
    /// The library before the change.
    pub(super) library: &'static str,
    /// The memory before and after the change, in bytes.
    pub(super) before: u64,
    pub(super) after: u64,
    pub(super) saved_percent: f64,
    /// Whether the program keeps its library.
    pub(super) keeps_library: bool,
    pub(super) code: Vec<Code>,
}

/// Returns the most useful changes, the largest saving first.
pub(super) fn advice(candidates: &[Candidate<'_>], library: Library) -> Vec<Advice> {
    let total: u64 = candidates.iter().map(|candidate| candidate.bytes).sum();
    let is_useful = |saving: &&Saving| saving.saved() as f64 >= MIN_SHARE * total as f64;
    let mut advised: Vec<Advice> = Vec::new();
    for candidate in candidates {
        for keeps_library in [true, false] {
            let of_kind = candidate
                .savings
                .iter()
                .filter(|saving| saving.change.keeps_library(library) == keeps_library);
            let useful = of_kind.filter(is_useful).take(PER_RESOURCE);
            advised.extend(useful.map(|saving| Advice::new(candidate, saving, library)));
        }
    }
    advised.sort_by_key(|advice| std::cmp::Reverse(advice.before - advice.after));
    advised.truncate(MAX_ADVICE);
    advised
}

/// Returns the memory in bytes after the largest change of each resource with which the program keeps its
/// library.
pub(super) fn combined(candidates: &[Candidate<'_>], library: Library) -> u64 {
    let after = |candidate: &Candidate<'_>| {
        let mut kept = candidate.savings.iter().filter(|saving| saving.change.keeps_library(library));
        kept.next().map_or(candidate.bytes, |saving| saving.after)
    };
    candidates.iter().map(after).sum()
}

impl Advice {
    fn new(candidate: &Candidate<'_>, saving: &Saving, library: Library) -> Self {
        let change = match &saving.selector {
            Some(selector) => format!("{} {selector}", saving.change.name()),
            None => saving.change.name().to_owned(),
        };
        let subject = Subject {
            kind: candidate.kind,
            group: candidate.group,
            version: candidate.version,
            namespace: candidate.namespace,
            selector: saving.selector.as_deref().unwrap_or_default(),
        };
        Self {
            resource: candidate.resource.to_owned(),
            change,
            condition: saving.change.condition(library),
            library: library.name(),
            before: saving.before,
            after: saving.after,
            saved_percent: saving.percent(),
            keeps_library: saving.change.keeps_library(library),
            code: code(saving.change, subject, library),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::savings::Change, *};

    fn saving(change: Change, after: u64) -> Saving {
        Saving { change, selector: None, before: 1000, after }
    }

    fn candidate<'a>(resource: &'a str, bytes: u64, savings: &'a [Saving]) -> Candidate<'a> {
        Candidate { resource, kind: "Pod", group: "", version: "v1", namespace: None, bytes, savings }
    }

    #[test]
    fn largest_saving_is_first_and_small_savings_are_absent() {
        let pods = [
            saving(Change::MetadataOnly, 50),
            saving(Change::Compressed, 300),
            saving(Change::DropLastApplied, 500),
            saving(Change::DropManagedFields, 600),
        ];
        let secrets = [saving(Change::DropManagedFields, 995)];
        let advised = advice(
            &[candidate("secrets", 1000, &secrets), candidate("pods", 1000, &pods)],
            Library::ClientGo,
        );
        let changes: Vec<_> = advised.iter().map(|advice| (&*advice.resource, advice.after)).collect();
        assert_eq!(changes, [("pods", 50), ("pods", 300), ("pods", 500)]);
        assert!(advised[0].keeps_library && !advised[1].keeps_library);
        let candidates = [candidate("secrets", 1000, &secrets), candidate("pods", 1000, &pods)];
        assert_eq!(combined(&candidates, Library::ClientGo), 995 + 50);
        assert!(advised.iter().all(|advice| !advice.code.is_empty()));
    }

    #[test]
    fn no_resource_has_no_advice() {
        assert!(advice(&[], Library::KubeRs).is_empty());
    }
}
