//! `ListReader`: turns the body of a list into items and metadata.

use bytes::Bytes;
use kube_object::{DecodeError, JsonObject, ResourceVersion, TypeMeta, from_slice};
use serde::Deserialize;

use crate::{
    ListWatchError, Target,
    batches::BodyReader,
    decoded::{Decoded, ObjectReader},
    split::{Segment, SplitError, Splitter},
};

/// Represents a part of one page of a list. The parts arrive in the order of the response.
#[derive(Debug)]
pub enum ListPart<T> {
    /// The items that the available bytes completed.
    Items {
        /// The items with a readable name.
        items: Vec<Decoded<T>>,
        /// The errors of items without a readable name. If this field is not empty, the list is
        /// incomplete: an object that is missing in `items` may still exist on the server.
        nameless: Vec<DecodeError>,
    },
    /// The available bytes completed only items of other slots, which the source does not return.
    OtherSlots {
        /// The number of these items.
        items: usize,
    },
    /// The page is complete.
    End(ListEnd),
}

/// Contains the metadata of a page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListEnd {
    /// The resourceVersion of the list. All pages of a list have the same resourceVersion. The
    /// resourceVersion is empty if the server does not return it.
    pub version: ResourceVersion,
    /// The continue token of the next page, or `None` on the last page.
    pub next: Option<String>,
    /// The number of items after this page, if the server returns it.
    pub remaining: Option<u64>,
}

/// The reason why a body is not a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ListError {
    Malformed(&'static str),
    TooLong,
    WrongKind(String),
}

impl From<SplitError> for ListError {
    fn from(error: SplitError) -> Self {
        match error {
            SplitError::Malformed => ListError::Malformed("not a JSON object"),
            SplitError::TooLong => ListError::TooLong,
        }
    }
}

/// A null field counts as missing. Servers in languages other than Go write null.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: Option<String>,
    r#continue: Option<String>,
    remaining_item_count: Option<i64>,
}

/// Reads the body of one page.
pub(crate) struct ListReader<T> {
    splitter: Splitter,
    max_object_bytes: usize,
    fields: ListFields,
    items: Vec<Decoded<T>>,
    nameless: Vec<DecodeError>,
    /// The number of items of other slots in the current batch.
    other_slots: usize,
}

/// The fields of a list other than its items.
#[derive(Default)]
struct ListFields {
    /// `None` until the field is read. JSON without this field is not a list.
    metadata: Option<ListMeta>,
    /// Go writes an uninitialized slice as null.
    items_are_null: bool,
}

impl<T: Send + Sync + 'static> BodyReader<T> for ListReader<T> {
    type Batch = ListPart<T>;

    fn new(max_object_bytes: usize) -> Self {
        Self {
            splitter: Splitter::new(max_object_bytes),
            max_object_bytes,
            fields: ListFields::default(),
            items: Vec::new(),
            nameless: Vec::new(),
            other_slots: 0,
        }
    }

    fn read(
        &mut self,
        chunk: Bytes,
        objects: &ObjectReader<'_, T>,
        target: &Target,
    ) -> Result<(), ListWatchError> {
        self.read_segments(chunk, objects).map_err(|error| self.list_error(error, target))
    }

    fn batch_len(&self) -> usize {
        self.items.len() + self.nameless.len() + self.other_slots
    }

    fn take_batch(&mut self) -> Option<ListPart<T>> {
        let items = std::mem::take(&mut self.items);
        let nameless = std::mem::take(&mut self.nameless);
        let other_slots = std::mem::take(&mut self.other_slots);
        if items.is_empty() && nameless.is_empty() {
            return (other_slots > 0).then_some(ListPart::OtherSlots { items: other_slots });
        }
        Some(ListPart::Items { items, nameless })
    }

    fn end(mut self, target: &Target) -> Result<Option<ListPart<T>>, ListWatchError> {
        let end = self.read_end().map_err(|error| self.list_error(error, target))?;
        Ok(Some(ListPart::End(end)))
    }
}

impl<T: 'static> ListReader<T> {
    fn read_segments(&mut self, chunk: Bytes, objects: &ObjectReader<'_, T>) -> Result<(), ListError> {
        let Self { splitter, fields, items, nameless, other_slots, .. } = self;
        splitter.cut(chunk, |segment| {
            match segment {
                Segment::Item(outline) if objects.is_of_other_slot(&outline) => *other_slots += 1,
                Segment::Item(outline) => match objects.read(outline) {
                    Ok(item) => items.push(item),
                    Err(error) => nameless.push(error),
                },
                Segment::Field { name, value } => fields.read(&name, value, &objects.context.kind)?,
            }
            Ok(())
        })
    }

    /// Returns the metadata of the list at the end of the body.
    ///
    /// JSON without metadata or items is not a list and can come from a proxy. Used as an empty list, it
    /// would delete all cached objects.
    fn read_end(&mut self) -> Result<ListEnd, ListError> {
        if !self.splitter.is_complete() {
            return Err(ListError::Malformed("the list is incomplete"));
        }
        if !self.splitter.has_items() && !self.fields.items_are_null {
            return Err(ListError::Malformed("the list has no items field"));
        }
        let Some(metadata) = self.fields.metadata.take() else {
            return Err(ListError::Malformed("the list has no metadata"));
        };
        let ListMeta { resource_version, r#continue, remaining_item_count } = metadata;
        Ok(ListEnd {
            version: ResourceVersion::new(&resource_version.unwrap_or_default()),
            next: r#continue.filter(|token| !token.is_empty()),
            remaining: remaining_item_count.and_then(|count| count.try_into().ok()),
        })
    }

    fn list_error(&self, error: ListError, target: &Target) -> ListWatchError {
        let target = target.clone();
        match error {
            ListError::Malformed(reason) => ListWatchError::Malformed { target, reason: reason.to_owned() },
            ListError::TooLong => ListWatchError::TooLong { target, limit: self.max_object_bytes },
            ListError::WrongKind(found) => ListWatchError::NotAList { target, found },
        }
    }
}

impl ListFields {
    fn read(&mut self, name: &str, value: &[u8], expected: &TypeMeta) -> Result<(), ListError> {
        match name {
            "metadata" => {
                let JsonObject(metadata) = from_slice(value)
                    .map_err(|_| ListError::Malformed("the metadata of the list is invalid"))?;
                self.metadata = Some(metadata);
            }
            "kind" => {
                let kind: Option<String> =
                    from_slice(value).map_err(|_| ListError::Malformed("the kind of the list is invalid"))?;
                check_list_kind(&kind.unwrap_or_default(), expected)?;
            }
            "items" if value == b"null" => self.items_are_null = true,
            "items" => return Err(ListError::Malformed("the items field is not an array")),
            _ => {}
        }
        Ok(())
    }
}

/// Rejects a list of another kind. A CRD can choose any name for its list kind, so such a name is
/// accepted.
fn check_list_kind(found: &str, expected: &TypeMeta) -> Result<(), ListError> {
    let of_a_crd = expected.api_version.split('/').next().is_some_and(|group| group.contains('.'));
    let fits = match found {
        "Table" | "Status" => false,
        "List" | "PartialObjectMetadataList" | "" => true,
        _ => of_a_crd || found.strip_suffix("List") == Some(expected.kind.as_str()),
    };
    if fits { Ok(()) } else { Err(ListError::WrongKind(found.chars().take(64).collect())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use kube_object::{DecodeContext, JsonDecoder, NoCache};

    fn read(body: &str) -> Result<(Vec<String>, usize, ListEnd), ListError> {
        let context = DecodeContext::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() });
        let objects =
            ObjectReader::<Pod> { context: &context, decoder: &JsonDecoder, known: &NoCache, shard: None };
        let mut reader = <ListReader<Pod> as BodyReader<Pod>>::new(1 << 20);
        reader.read_segments(Bytes::copy_from_slice(body.as_bytes()), &objects)?;
        let items = reader.items.iter().map(|item| format!("{item:?}")).collect();
        Ok((items, reader.nameless.len(), reader.read_end()?))
    }

    #[test]
    fn page_contains_items_version_and_next_token() {
        let body = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"t","remainingItemCount":3},"items":[{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"5"}}]}"#;
        let (items, nameless, end) = read(body).unwrap();
        assert_eq!((items.len(), nameless), (1, 0));
        assert_eq!(end, ListEnd { version: 9.into(), next: Some("t".into()), remaining: Some(3) });
    }

    #[test]
    fn null_metadata_and_negative_count_are_missing() {
        let body = r#"{"kind":null,"apiVersion":null,"metadata":{"resourceVersion":"9","continue":null,"remainingItemCount":-1,"selfLink":null},"items":[]}"#;
        let (_, _, end) = read(body).unwrap();
        assert_eq!(end, ListEnd { version: 9.into(), next: None, remaining: None });
        let (_, _, end) = read(r#"{"metadata":{"resourceVersion":null},"items":null}"#).unwrap();
        assert_eq!(end, ListEnd { version: "".into(), next: None, remaining: None });
    }

    #[test]
    fn bad_item_does_not_affect_other_items() {
        let body = r#"{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[
            {"metadata":{"name":"a","resourceVersion":"1"},"spec":7}, {"spec":{}}, {"metadata":{"name":"b"}}]}"#;
        let (items, nameless, _) = read(body).unwrap();
        assert_eq!(items.len(), 2);
        assert!(items[0].contains("Undecodable") && items[0].contains("\"a\""), "{}", items[0]);
        assert_eq!(nameless, 1);
    }

    #[test]
    fn list_of_another_kind_is_rejected() {
        for kind in ["Table", "Status", "ServiceList"] {
            let body = format!(r#"{{"kind":"{kind}","items":[]}}"#);
            assert_eq!(read(&body), Err(ListError::WrongKind(kind.into())));
        }
    }

    #[test]
    fn incomplete_body_is_malformed() {
        for body in [r#"{"kind":"PodList","items":["#, r#"{"kind":"PodList""#, ""] {
            assert!(matches!(read(body), Err(ListError::Malformed(_))), "{body}");
        }
    }
}
