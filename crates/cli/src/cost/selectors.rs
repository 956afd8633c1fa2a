//! The objects that selectors would leave out of a cache.

use std::collections::BTreeMap;

use kube_informer::{LabelSelector, Object, ObjectIdRef};
use serde::Deserialize;

use super::{parts::Parts, usage::Sum};

/// The selectors of a resource: well-known field selectors, and the label selectors of `--try-selector`.
pub(super) struct Selectors(Vec<Candidate>);

/// A selector, and its test of an object.
struct Candidate {
    text: String,
    /// A label selector if true, and a field selector if false.
    is_label: bool,
    test: Test,
}

enum Test {
    /// The text at the path differs from all values.
    NoneOf(&'static [&'static str], &'static [&'static str]),
    Labels(LabelSelector),
}

/// Field selectors that leave out objects which few programs read: resource, selector, path, excluded values.
const WELL_KNOWN: [(&str, &str, &[&str], &[&str]); 3] = [
    ("pods", "status.phase!=Succeeded,status.phase!=Failed", &["status", "phase"], &["Succeeded", "Failed"]),
    ("secrets", "type!=helm.sh/release.v1", &["type"], &["helm.sh/release.v1"]),
    ("events", "type!=Normal", &["type"], &["Normal"]),
];

/// The objects that each selector selects.
#[derive(Debug, Default)]
pub(super) struct SelectorCounts(BTreeMap<usize, Sum>);

/// The result of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) text: String,
    pub(super) is_label: bool,
    pub(super) sum: Sum,
}

impl Selectors {
    /// Creates the selectors for a resource of the core API group, or for another resource.
    pub(super) fn new(plural: &str, labels: &[(String, LabelSelector)]) -> Self {
        let fields = WELL_KNOWN.iter().filter(|(resource, ..)| *resource == plural);
        let fields = fields.map(|(_, text, path, excluded)| Candidate {
            text: (*text).to_owned(),
            is_label: false,
            test: Test::NoneOf(path, excluded),
        });
        let labels = labels.iter().map(|(text, selector)| Candidate {
            text: text.clone(),
            is_label: true,
            test: Test::Labels(selector.clone()),
        });
        Self(fields.chain(labels).collect())
    }
}

impl Test {
    fn selects(&self, parts: &Parts<'_>) -> bool {
        match self {
            Self::NoneOf(path, excluded) => !parts.text(path).is_some_and(|text| excluded.contains(&&*text)),
            Self::Labels(selector) => {
                let labelled: Labelled = serde_json::from_str(parts.metadata()).unwrap_or_default();
                selector.matches(&labelled)
            }
        }
    }
}

/// The labels of an object.
#[derive(Default, Deserialize)]
struct Labelled {
    labels: Option<BTreeMap<String, String>>,
}

impl Object for Labelled {
    fn id(&self) -> ObjectIdRef<'_> {
        ObjectIdRef::new(None, "", "", "")
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(String::as_str)
    }
}

impl SelectorCounts {
    /// Adds an object to the selectors that select it.
    pub(super) fn add(&mut self, selectors: &Selectors, parts: &Parts<'_>, json: &[u8]) {
        for (number, candidate) in selectors.0.iter().enumerate() {
            let sum = self.0.entry(number).or_default();
            if candidate.test.selects(parts) {
                sum.add(json.len() as u64);
            }
        }
    }

    /// Returns the objects that each selector selects.
    pub(super) fn results(&self, selectors: &Selectors) -> Vec<Selected> {
        let result = |(number, sum): (&usize, &Sum)| {
            let candidate = selectors.0.get(*number)?;
            Some(Selected { text: candidate.text.clone(), is_label: candidate.is_label, sum: *sum })
        };
        self.0.iter().filter_map(result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(plural: &str, labels: &[&str], objects: &[&str]) -> Vec<(String, u64)> {
        let labels: Vec<_> = labels.iter().map(|text| ((*text).to_owned(), text.parse().unwrap())).collect();
        let (selectors, mut counts) = (Selectors::new(plural, &labels), SelectorCounts::default());
        for json in objects {
            counts.add(&selectors, &Parts::of(json.as_bytes()).unwrap(), json.as_bytes());
        }
        counts.results(&selectors).into_iter().map(|result| (result.text, result.sum.objects)).collect()
    }

    #[test]
    fn completed_pods_and_labels_are_counted() {
        let pods = [
            r#"{"metadata":{"labels":{"app":"a"}},"status":{"phase":"Running"}}"#,
            r#"{"metadata":{"labels":{"app":"b"}},"status":{"phase":"Succeeded"}}"#,
            r#"{"metadata":{}}"#,
        ];
        let counts = selected("pods", &["app=a", "app"], &pods);
        assert_eq!(counts.iter().map(|(_, objects)| *objects).collect::<Vec<_>>(), [2, 1, 2]);
    }

    #[test]
    fn other_resources_have_no_field_selectors() {
        assert!(selected("widgets", &[], &["{}"]).is_empty());
    }
}
