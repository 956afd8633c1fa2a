//! `Usage`: the parts of the objects of a resource, and the size of a cache of these objects.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use kube_informer::ObjectId;
use kube_object::DecodeError;

use super::{
    features::Features,
    forms::{Forms, FormsDecoder},
    parts::{LAST_APPLIED, Parts},
    selectors::{SelectorCounts, Selectors},
};

/// The number of largest objects in a report.
const LARGEST_OBJECTS: usize = 5;
/// The maximum number of different names of fields or annotations. Further names are counted together.
const MAX_NAMES: usize = 256;
/// The name of all names above the maximum.
const OTHER_NAMES: &str = "(other)";

/// The sums over the objects of a resource.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) features: Features,
    /// The features of the objects that the representations include. The estimates of other libraries use
    /// them, so all columns contain the same objects.
    pub(super) cached: Features,
    /// The cached features without the annotation of `kubectl apply`.
    pub(super) without_last_applied: Features,
    /// The features of the metadata of the cached objects, with managedFields.
    pub(super) metadata: Features,
    pub(super) forms: Forms,
    /// Objects that do not have the fields of their kind. The representations do not include these objects.
    pub(super) undecodable: u64,
    pub(super) namespaces: BTreeMap<String, Sum>,
    pub(super) fields: Names,
    pub(super) annotations: Names,
    pub(super) selectors: SelectorCounts,
    largest: BinaryHeap<Reverse<(u64, String)>>,
}

/// A number of objects, and their JSON in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

impl Sum {
    /// Adds one object.
    pub(super) fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// The sums for names that come from the cluster, with a limited number of names.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, Sum>);

impl Names {
    /// Adds one occurrence of a name.
    pub(super) fn add(&mut self, name: &str, bytes: u64) {
        if let Some(sum) = self.0.get_mut(name) {
            return sum.add(bytes);
        }
        let name = if self.0.len() < MAX_NAMES { name } else { OTHER_NAMES };
        self.0.entry(name.to_owned()).or_default().add(bytes);
    }

    /// Returns the names with the most bytes.
    pub(super) fn largest(&self, count: usize) -> Vec<(String, Sum)> {
        largest(&self.0, count)
    }
}

/// Returns the entries with the most bytes, the largest first.
pub(super) fn largest(sums: &BTreeMap<String, Sum>, count: usize) -> Vec<(String, Sum)> {
    let mut all: Vec<_> = sums.iter().collect();
    all.sort_by_key(|(_, sum)| Reverse(sum.bytes));
    all.into_iter().take(count).map(|(name, sum)| (name.clone(), *sum)).collect()
}

impl Usage {
    /// Adds an object.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not the JSON of an object. The object then counts as undecodable.
    pub(super) fn add(
        &mut self,
        id: &ObjectId,
        json: &[u8],
        decoder: &FormsDecoder,
        selectors: &Selectors,
    ) -> Result<(), DecodeError> {
        let syntax = |_| DecodeError::Syntax { position: 0 };
        let bytes = json.len() as u64;
        let features = Features::of_json(json).map_err(syntax);
        let parts = Parts::of(json).map_err(syntax);
        let (Ok(mut features), Ok(parts)) = (features, parts) else {
            self.undecodable += 1;
            self.features.add(&Features { objects: 1, bytes, ..Features::default() });
            return Err(DecodeError::Syntax { position: 0 });
        };
        self.features.add(&features);
        self.namespaces.entry(id.key.namespace().unwrap_or_default().to_owned()).or_default().add(bytes);
        parts.fields().for_each(|(name, size)| self.fields.add(&name, size as u64));
        parts.annotations().for_each(|(name, size)| self.annotations.add(name, size as u64));
        self.selectors.add(selectors, &parts, json);
        self.largest.push(Reverse((bytes, id.key.to_string())));
        if self.largest.len() > LARGEST_OBJECTS {
            self.largest.pop();
        }
        let forms = decoder.measure(json).inspect_err(|_| self.undecodable += 1)?;
        let metadata = format!(r#"{{"metadata":{}}}"#, parts.metadata());
        let metadata = Features::of_json(metadata.as_bytes()).map_err(syntax)?;
        self.metadata.add(&Features { typed_bytes: forms.metadata, ..metadata });
        self.forms += forms;
        if decoder.is_typed {
            features.typed_bytes = forms.typed;
        } else {
            features.dynamic_bytes = forms.typed;
        }
        if decoder.is_secret {
            let data = parts.fields().filter(|(name, _)| name == ".data").map(|(_, size)| size as u64);
            features.decode_data(data.sum());
        }
        self.cached.add(&features);
        self.without_last_applied.add(&without_annotation(features, &parts));
        Ok(())
    }

    /// Returns the number of objects, with the undecodable objects.
    pub(super) fn objects(&self) -> u64 {
        self.features.objects
    }

    /// Returns the largest objects and the bytes of their JSON, the largest first.
    pub(super) fn largest_objects(&self) -> Vec<(String, u64)> {
        let mut objects: Vec<_> =
            self.largest.iter().map(|Reverse((bytes, key))| (key.clone(), *bytes)).collect();
        objects.sort_by_key(|(_, bytes)| Reverse(*bytes));
        objects
    }

    /// Returns the bytes of the JSON, with managedFields.
    pub(super) fn json_bytes(&self) -> u64 {
        self.features.bytes + self.features.managed_bytes
    }
}

/// Returns the length of a string, without the quotes and escapes of its JSON.
fn text_bytes(json: &str) -> u64 {
    serde_json::from_str::<String>(json).map_or(0, |text| text.len() as u64)
}

fn without_annotation(features: Features, parts: &Parts<'_>) -> Features {
    let Some(annotation) = parts.annotation(LAST_APPLIED) else { return features };
    Features {
        bytes: features.bytes.saturating_sub(annotation.len() as u64),
        // The JSON of the annotation has quotes, and possibly escapes.
        text_bytes: features.text_bytes.saturating_sub(text_bytes(annotation)),
        texts: features.texts.saturating_sub(1),
        typed_bytes: features.typed_bytes.saturating_sub(text_bytes(annotation)),
        dynamic_bytes: features.dynamic_bytes.saturating_sub(text_bytes(annotation)),
        // The number of groups of the map seldom changes.
        go_map_bytes: features.go_map_bytes.saturating_sub(LAST_APPLIED.len() as u64),
        ..features
    }
}

#[cfg(test)]
mod tests {
    use kube_informer::ObjectIdRef;
    use kube_object::TypeMeta;

    use super::*;

    fn usage(objects: &[&str]) -> Usage {
        let decoder =
            FormsDecoder::new(&TypeMeta { api_version: "v1".into(), kind: "ConfigMap".into() }, &[]);
        let (mut usage, selectors) = (Usage::default(), Selectors::new("configmaps", &[]));
        for (number, json) in objects.iter().enumerate() {
            let id =
                ObjectIdRef::new(Some(&format!("n{}", number % 2)), &format!("o{number}"), "u", "1").into();
            let _ = usage.add(&id, json.as_bytes(), &decoder, &selectors);
        }
        usage
    }

    #[test]
    fn objects_are_summed_by_namespace_field_and_size() {
        let annotated =
            format!(r#"{{"metadata":{{"name":"a","annotations":{{"{LAST_APPLIED}":"xxxxxxxx"}}}}}}"#);
        let plain = r#"{"metadata":{"name":"b"},"data":{"k":"v"}}"#;
        let usage = usage(&[&annotated, plain, plain]);
        assert_eq!(usage.features.objects, 3);
        assert_eq!(usage.json_bytes() as usize, annotated.len() + 2 * plain.len());
        assert_eq!(usage.features.bytes - usage.without_last_applied.bytes, 10);
        assert_eq!(usage.namespaces["n0"].objects, 2);
        assert_eq!(usage.largest_objects()[0], ("n0/o0".to_owned(), annotated.len() as u64));
        assert_eq!(usage.fields.largest(9).iter().find(|(name, _)| name == ".data").unwrap().1.objects, 2);
        assert!(usage.forms.typed > usage.forms.metadata);
        assert_eq!(usage.undecodable, 0);
    }

    #[test]
    fn undecodable_objects_are_counted_but_do_not_end_the_sum() {
        let deep = format!(r#"{{"metadata":{{"name":"a"}},"data":{}{}}}"#, "[".repeat(300), "]".repeat(300));
        let usage =
            usage(&["{", r#"{"metadata":{"name":"a"},"data":7}"#, &deep, r#"{"metadata":{"name":"b"}}"#]);
        assert_eq!((usage.undecodable, usage.features.objects), (3, 4));
    }

    #[test]
    fn estimates_contain_only_objects_of_the_representations() {
        let object = r#"{"metadata":{"name":"b"},"data":{"k":"v"}}"#;
        let (pure, mixed) = (usage(&[object]), usage(&[object, r#"{"metadata":{"name":"a"},"data":7}"#]));
        assert_eq!((mixed.undecodable, mixed.forms.typed), (1, pure.forms.typed));
        assert_eq!((mixed.cached, mixed.metadata), (pure.cached, pure.metadata));
        assert_eq!(mixed.without_last_applied, pure.without_last_applied);
    }

    #[test]
    fn number_of_names_is_limited() {
        let mut names = Names::default();
        (0..1000).for_each(|number| names.add(&format!("name-{number}"), 1));
        assert_eq!(names.0.len(), MAX_NAMES + 1);
        assert_eq!(names.largest(1)[0], (OTHER_NAMES.to_owned(), Sum { objects: 744, bytes: 744 }));
    }
}
