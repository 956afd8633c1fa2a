//! The pieces of a list body as decoded items and, at its end, what the list says of itself.

use bytes::Bytes;
use kube_object::{DecodeError, JsonObject, Outline, ResourceVersion, TypeMeta, from_slice};
use serde::Deserialize;

use crate::{
    decoded::{Decoded, ObjectReader},
    split::{Piece, SplitError, Splitter},
};

/// A part of one page, in the order of its bytes.
#[derive(Debug)]
pub enum ListPart<T> {
    /// Items that one read has completed.
    Items {
        /// The items, decoded or known by name at least.
        items: Vec<Decoded<T>>,
        /// Items whose identity could not be found: the list can't show what was deleted.
        nameless: Vec<DecodeError>,
    },
    /// The page is complete.
    End(ListEnd),
}

/// What a page says of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListEnd {
    /// The version of the list, the same on each of its pages; empty where the server has none.
    pub version: ResourceVersion,
    /// The token of the next page; `None` on the last.
    pub next: Option<String>,
    /// How many items are left after this page, where the server says so.
    pub remaining: Option<u64>,
}

/// Why a body is not a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ListError {
    Malformed(&'static str),
    TooLong,
    WrongKind(String),
}

impl From<SplitError> for ListError {
    fn from(error: SplitError) -> Self {
        match error {
            SplitError::Malformed => ListError::Malformed("not the JSON of one object"),
            SplitError::TooLong => ListError::TooLong,
        }
    }
}

/// What is null is as if it were missing: Go never writes that, servers in other languages do.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: Option<String>,
    r#continue: Option<String>,
    remaining_item_count: Option<i64>,
}

/// Reads one body.
pub(crate) struct ListReader {
    splitter: Splitter,
    /// `None` until it has come: JSON without it is no list.
    metadata: Option<ListMeta>,
    /// Go writes a list without items as null where nobody has made an empty one.
    items_are_null: bool,
}

impl ListReader {
    pub(crate) fn new(limit: usize) -> Self {
        Self { splitter: Splitter::new(limit), metadata: None, items_are_null: false }
    }

    /// The items that this chunk completes; `None` where it completes none.
    pub(crate) fn read<T: 'static>(
        &mut self,
        chunk: Bytes,
        objects: &ObjectReader<'_, T>,
    ) -> Result<Option<ListPart<T>>, ListError> {
        let mut pieces = Vec::new();
        self.splitter.cut(chunk, |piece| pieces.push(piece))?;
        let (mut items, mut nameless) = (Vec::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Item(bytes) => match objects.read(Outline::of(&bytes)) {
                    Ok(item) => items.push(item),
                    Err(error) => nameless.push(error),
                },
                Piece::Field { name, value } => self.field(&name, &value, &objects.asked.kind)?,
            }
        }
        let empty = items.is_empty() && nameless.is_empty();
        Ok((!empty).then_some(ListPart::Items { items, nameless }))
    }

    /// What the list says of itself, once its body has ended. What has no metadata or no items is
    /// some other JSON, say of a proxy; taken for an empty list it would delete everything.
    pub(crate) fn end(self) -> Result<ListEnd, ListError> {
        if !self.splitter.is_complete() {
            return Err(ListError::Malformed("the list ends in the middle"));
        }
        if !self.splitter.has_items() && !self.items_are_null {
            return Err(ListError::Malformed("a list without items"));
        }
        let Some(metadata) = self.metadata else {
            return Err(ListError::Malformed("a list without metadata"));
        };
        let ListMeta { resource_version, r#continue, remaining_item_count } = metadata;
        Ok(ListEnd {
            version: ResourceVersion::new(&resource_version.unwrap_or_default()),
            next: r#continue.filter(|token| !token.is_empty()),
            remaining: remaining_item_count.and_then(|count| count.try_into().ok()),
        })
    }

    fn field(&mut self, name: &str, value: &[u8], expected: &TypeMeta) -> Result<(), ListError> {
        match name {
            "metadata" => {
                let JsonObject(metadata) =
                    from_slice(value).map_err(|_| ListError::Malformed("unreadable metadata"))?;
                self.metadata = Some(metadata);
            }
            "kind" => {
                let kind: Option<String> =
                    from_slice(value).map_err(|_| ListError::Malformed("unreadable kind"))?;
                check_list_kind(&kind.unwrap_or_default(), expected)?;
            }
            "items" if value == b"null" => self.items_are_null = true,
            "items" => return Err(ListError::Malformed("items that are no list")),
            _ => {}
        }
        Ok(())
    }
}

/// A CRD may choose any name for its list kind, so only what is surely something else is refused.
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
        let asked = DecodeContext::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() });
        let objects = ObjectReader::<Pod> { asked: &asked, decoder: &JsonDecoder, known: &NoCache };
        let mut reader = ListReader::new(1 << 20);
        let (mut shown, mut unnamed) = (Vec::new(), 0);
        let chunk = Bytes::copy_from_slice(body.as_bytes());
        if let Some(ListPart::Items { items, nameless }) = reader.read(chunk, &objects)? {
            unnamed = nameless.len();
            shown = items.iter().map(|item| format!("{item:?}")).collect();
        }
        Ok((shown, unnamed, reader.end()?))
    }

    #[test]
    fn a_page_gives_its_items_its_version_and_the_next_token() {
        let body = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"t","remainingItemCount":3},"items":[{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"5"}}]}"#;
        let (items, nameless, end) = read(body).unwrap();
        assert_eq!((items.len(), nameless), (1, 0));
        assert_eq!(end, ListEnd { version: 9.into(), next: Some("t".into()), remaining: Some(3) });
    }

    #[test]
    fn what_a_list_says_of_itself_may_be_null_and_a_count_below_zero_is_none() {
        let body = r#"{"kind":null,"apiVersion":null,"metadata":{"resourceVersion":"9","continue":null,"remainingItemCount":-1,"selfLink":null},"items":[]}"#;
        let (_, _, end) = read(body).unwrap();
        assert_eq!(end, ListEnd { version: 9.into(), next: None, remaining: None });
        let (_, _, end) = read(r#"{"metadata":{"resourceVersion":null},"items":null}"#).unwrap();
        assert_eq!(end, ListEnd { version: "".into(), next: None, remaining: None });
    }

    #[test]
    fn one_bad_item_spoils_neither_the_others_nor_the_list() {
        let body = r#"{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[
            {"metadata":{"name":"a","resourceVersion":"1"},"spec":7}, {"spec":{}}, {"metadata":{"name":"b"}}]}"#;
        let (items, nameless, _) = read(body).unwrap();
        assert_eq!(items.len(), 2);
        assert!(items[0].contains("Undecodable") && items[0].contains("\"a\""), "{}", items[0]);
        assert_eq!(nameless, 1);
    }

    #[test]
    fn a_table_a_status_or_a_list_of_something_else_is_refused_by_name() {
        for kind in ["Table", "Status", "ServiceList"] {
            let body = format!(r#"{{"kind":"{kind}","items":[]}}"#);
            assert_eq!(read(&body), Err(ListError::WrongKind(kind.into())));
        }
    }

    #[test]
    fn a_body_without_an_end_is_no_list() {
        for body in [r#"{"kind":"PodList","items":["#, r#"{"kind":"PodList""#, ""] {
            assert!(matches!(read(body), Err(ListError::Malformed(_))), "{body}");
        }
    }
}
