//! Splits the body of a list into items while the bytes arrive. This module has no I/O.
//!
//! A list is one JSON object, `{"kind":..,"metadata":{..},"items":[..]}`. It can contain hundreds of
//! megabytes. This module reads only the structure and the outlines of the items. It holds at most one
//! incomplete segment.
//!
//! An item within one chunk is scanned once: the scan of its outline also finds its end.

use bytes::{Buf, Bytes, BytesMut};
use kube_object::{Outline, ValueEnd};

/// A part of the top-level object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Segment<'a> {
    /// An element of `items`.
    Item(Outline<'a>),
    /// Any other field.
    Field {
        /// The name of the field.
        name: String,
        /// The value in JSON.
        value: &'a [u8],
    },
}

/// The reason why a body is not a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SplitError {
    /// The body is not one JSON object.
    Malformed,
    /// A segment is longer than the limit.
    TooLong,
}

/// Splits one body into segments.
#[derive(Debug)]
pub(crate) struct Splitter {
    state: State,
    /// The part of the current value that earlier chunks contained.
    partial: BytesMut,
    limit: usize,
    /// Whether the body contains an array of items.
    has_items: bool,
}

/// The next expected token. White space may precede the token.
#[derive(Debug)]
enum State {
    Start,
    FieldOrEnd,
    Field,
    Colon {
        field: String,
    },
    FieldValue {
        field: String,
    },
    CommaOrEnd,
    ItemOrEnd,
    Item,
    ItemCommaOrEnd,
    End,
    /// Within a value.
    Within {
        role: Role,
        value: ValueEnd,
    },
}

/// The role of the current value.
#[derive(Debug)]
enum Role {
    Name,
    Field(String),
    Item,
}

impl Splitter {
    /// Creates a splitter for segments of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: State::Start, partial: BytesMut::new(), limit, has_items: false }
    }

    /// Calls `segment` with each segment that `chunk` completes. Stops at the first error.
    pub(crate) fn cut<E: From<SplitError>>(
        &mut self,
        mut chunk: Bytes,
        mut segment: impl FnMut(Segment<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(&first) = chunk.first() {
            match std::mem::replace(&mut self.state, State::End) {
                State::Within { role, mut value } => match value.find(&chunk) {
                    Some(length) => {
                        let bytes = self.complete(chunk.split_to(length))?;
                        self.state = finish(role, &bytes, &mut segment)?;
                    }
                    None => {
                        self.state = State::Within { role, value };
                        return Ok(self.keep(&chunk)?);
                    }
                },
                State::ItemOrEnd | State::Item if first == b'{' => {
                    let length = self.item(&chunk, &mut segment)?;
                    chunk.advance(length);
                }
                state if matches!(first, b' ' | b'\n' | b'\t' | b'\r') => {
                    self.state = state;
                    chunk.advance(1);
                }
                state => {
                    let (next, consumed) = advance(state, first)?;
                    if matches!(next, State::ItemOrEnd) && std::mem::replace(&mut self.has_items, true) {
                        return Err(SplitError::Malformed.into());
                    }
                    self.state = next;
                    chunk.advance(consumed);
                }
            }
        }
        Ok(())
    }

    /// Reads the item at the start of the chunk, and returns its length. If the item continues in the next
    /// chunk, returns zero.
    fn item<E: From<SplitError>>(
        &mut self,
        chunk: &[u8],
        mut segment: impl FnMut(Segment<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let Some(outline) = Outline::scan_first(chunk) else {
            self.state = State::Within { role: Role::Item, value: ValueEnd::default() };
            return Ok(0);
        };
        let length = outline.bytes().len();
        if length > self.limit {
            return Err(SplitError::TooLong.into());
        }
        self.state = State::ItemCommaOrEnd;
        segment(Segment::Item(outline))?;
        Ok(length)
    }

    /// Returns whether the object is complete.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// Returns whether the body contains an array of items, which can be empty.
    pub(crate) fn has_items(&self) -> bool {
        self.has_items
    }

    /// Joins the end of a value with its earlier part. Copies only if there is an earlier part.
    fn complete(&mut self, end: Bytes) -> Result<Bytes, SplitError> {
        if self.partial.len() + end.len() > self.limit {
            return Err(SplitError::TooLong);
        }
        if self.partial.is_empty() {
            return Ok(end);
        }
        self.partial.extend_from_slice(&end);
        Ok(self.partial.split().freeze())
    }

    fn keep(&mut self, beginning: &[u8]) -> Result<(), SplitError> {
        if self.partial.len() + beginning.len() > self.limit {
            return Err(SplitError::TooLong);
        }
        self.partial.extend_from_slice(beginning);
        Ok(())
    }
}

/// Returns the state after a byte outside of values, and the number of consumed bytes. The first byte of
/// a value is not consumed.
fn advance(state: State, byte: u8) -> Result<(State, usize), SplitError> {
    Ok(match (state, byte) {
        (State::Start, b'{') => (State::FieldOrEnd, 1),
        (State::FieldOrEnd | State::CommaOrEnd, b'}') => (State::End, 1),
        (State::FieldOrEnd | State::Field, b'"') => {
            (State::Within { role: Role::Name, value: ValueEnd::default() }, 0)
        }
        (State::Colon { field }, b':') => (State::FieldValue { field }, 1),
        (State::ItemOrEnd | State::ItemCommaOrEnd, b']') => (State::CommaOrEnd, 1),
        (State::FieldValue { .. } | State::ItemOrEnd | State::Item, b',' | b'}' | b']') => {
            return Err(SplitError::Malformed);
        }
        (State::FieldValue { field }, b'[') if field == "items" => (State::ItemOrEnd, 1),
        (State::FieldValue { field }, _) => {
            (State::Within { role: Role::Field(field), value: ValueEnd::default() }, 0)
        }
        (State::CommaOrEnd, b',') => (State::Field, 1),
        (State::ItemOrEnd | State::Item, _) => {
            (State::Within { role: Role::Item, value: ValueEnd::default() }, 0)
        }
        (State::ItemCommaOrEnd, b',') => (State::Item, 1),
        _ => return Err(SplitError::Malformed),
    })
}

/// Passes a complete value on, and returns the state after the value.
fn finish<E: From<SplitError>>(
    role: Role,
    bytes: &[u8],
    mut segment: impl FnMut(Segment<'_>) -> Result<(), E>,
) -> Result<State, E> {
    Ok(match role {
        Role::Name => {
            let field = serde_json::from_slice(bytes).map_err(|_| SplitError::Malformed)?;
            State::Colon { field }
        }
        Role::Field(name) => {
            segment(Segment::Field { name, value: bytes })?;
            State::CommaOrEnd
        }
        Role::Item => {
            segment(Segment::Item(Outline::scan(bytes)))?;
            State::ItemCommaOrEnd
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(chunks: &[&[u8]]) -> Result<(Vec<(String, String)>, bool), SplitError> {
        let mut splitter = Splitter::new(1 << 20);
        let mut segments = Vec::new();
        for chunk in chunks {
            splitter.cut(Bytes::copy_from_slice(chunk), |segment| {
                let (name, bytes) = match segment {
                    Segment::Item(outline) => ("item".to_owned(), outline.bytes()),
                    Segment::Field { name, value } => (name, value),
                };
                segments.push((name, String::from_utf8_lossy(bytes).into_owned()));
                Ok::<(), SplitError>(())
            })?;
        }
        Ok((segments, splitter.is_complete()))
    }

    fn named(segments: &[(&str, &str)]) -> Vec<(String, String)> {
        segments.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn items_and_fields_are_found_in_any_order() {
        let body = br#" { "kind" : "PodList", "items":[ {"a":"}]\"\\"} ,{"b":[{}]}, 7 ], "metadata":{"x":{}} , "n":12 } "#;
        let expected = named(&[
            ("kind", r#""PodList""#),
            ("item", r#"{"a":"}]\"\\"}"#),
            ("item", r#"{"b":[{}]}"#),
            ("item", "7"),
            ("metadata", r#"{"x":{}}"#),
            ("n", "12"),
        ]);
        assert_eq!(cut(&[body]), Ok((expected, true)));
    }

    /// An item within one chunk is scanned by another function than an item in two chunks.
    #[test]
    fn outline_of_item_does_not_depend_on_chunks() {
        let item =
            br#"{"metadata":{"name":"a","managedFields":[{"x":"]}"}],"uid":"u"},"spec":{"x":["}\""]}}"#;
        let body = [br#"{"items":["#, &item[..], b" , ", item, b"]}"].concat();
        for at in 0..=body.len() {
            let mut outlines = 0;
            let mut splitter = Splitter::new(1 << 20);
            for chunk in [&body[..at], &body[at..]] {
                let segment = |segment: Segment<'_>| {
                    let Segment::Item(outline) = segment else { return Err(SplitError::Malformed) };
                    assert_eq!((outline.bytes(), &outline), (&item[..], &Outline::scan(item)), "cut at {at}");
                    outlines += 1;
                    Ok(())
                };
                splitter.cut(Bytes::copy_from_slice(chunk), segment).unwrap();
            }
            assert_eq!((outlines, splitter.is_complete()), (2, true), "cut at {at}");
        }
    }

    #[test]
    fn empty_and_missing_items_are_distinguished() {
        assert_eq!(cut(&[br#"{"items":[]}"#]), Ok((vec![], true)));
        assert_eq!(cut(&[br#"{"items":null}"#]), Ok((named(&[("items", "null")]), true)));
        assert_eq!(cut(&[b"{}"]), Ok((vec![], true)));
    }

    #[test]
    fn body_other_than_one_object_is_malformed() {
        for body in [
            "[]",
            "x",
            "{}x",
            "{a",
            r#"{"a"1}"#,
            r#"{"a":1 2}"#,
            r#"{"a":1,}"#,
            r#"{"a":,"b":1}"#,
            r#"{"items":[1 2]}"#,
            r#"{"items":[1,]}"#,
            r#"{"items":[,1]}"#,
            r#"{"items":[}]}"#,
            r#"{"items":[1],"items":[2]}"#,
        ] {
            assert_eq!(cut(&[body.as_bytes()]), Err(SplitError::Malformed), "{body}");
        }
        assert_eq!(cut(&[br#"{"items":[{"#]).map(|(_, complete)| complete), Ok(false));
    }

    #[test]
    fn segment_longer_than_limit_is_error() {
        for chunks in [vec![&br#"{"items":["123456789"]}"#[..]], vec![br#"{"items":["12345"#, b"67890"]] {
            let mut splitter = Splitter::new(10);
            let result: Result<(), _> =
                chunks.into_iter().try_for_each(|chunk| splitter.cut(Bytes::from_static(chunk), |_| Ok(())));
            assert_eq!(result, Err(SplitError::TooLong));
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            "[\"\\\\{}\\[\\],:a\u{e9} ]{0,8}".prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                proptest::collection::btree_map("[a\"\\\\]{0,3}", inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn segments_match_serde_for_any_chunks(
            items in proptest::collection::vec(json(), 0..5),
            metadata in json(),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
            pretty in any::<bool>(),
        ) {
            let list = serde_json::json!({"kind": "List", "items": items, "metadata": metadata});
            let body = if pretty { serde_json::to_vec_pretty(&list) } else { serde_json::to_vec(&list) }.unwrap();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len())).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
            let (segments, complete) = cut(&chunks).unwrap();
            prop_assert!(complete);
            let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            let found: Vec<_> = segments.iter().filter(|segment| segment.0 == "item").map(|segment| parse(&segment.1)).collect();
            prop_assert_eq!(found, items);
            let found = segments.iter().find(|segment| segment.0 == "metadata").map(|segment| parse(&segment.1));
            prop_assert_eq!(found, Some(metadata));
        }

        #[test]
        fn any_input_stays_within_limit_without_panic(
            body in proptest::collection::vec(prop_oneof![Just(b'{'), Just(b'"'), Just(b'['), Just(b'\\'), Just(b','), any::<u8>()], 0..300),
        ) {
            let mut splitter = Splitter::new(64);
            let _ = splitter.cut(Bytes::from(body), |_| Ok::<(), SplitError>(()));
            prop_assert!(splitter.partial.len() <= 64);
        }
    }
}
