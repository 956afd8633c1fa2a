//! The body of a list, cut into its items as the bytes arrive. Pure.
//!
//! A list is one JSON object, `{"kind":..,"metadata":{..},"items":[..]}`, and may be hundreds of
//! megabytes long. Only the structure is looked at here; what each piece says is decided by who
//! decodes it. At most one unfinished piece is held.

use bytes::{Bytes, BytesMut};
use kube_object::ValueEnd;

/// A part of the top-level object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// One element of `items`.
    Item(Bytes),
    /// Any other field.
    Field {
        /// Its name, without quotes.
        name: String,
        /// The JSON of its value.
        value: Bytes,
    },
}

/// Why a body is no list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SplitError {
    /// Not the JSON of one object.
    Malformed,
    /// A piece longer than the limit.
    TooLong,
}

/// Cuts one body into pieces.
#[derive(Debug)]
pub(crate) struct Splitter {
    state: State,
    /// The beginning of the value being read, where it came with earlier chunks.
    partial: BytesMut,
    limit: usize,
    /// The list of items has begun.
    has_items: bool,
}

/// What is expected next; white space may come before it.
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
    /// In the middle of a value.
    Within {
        role: Role,
        value: ValueEnd,
    },
}

/// What the value being read is for.
#[derive(Debug)]
enum Role {
    Name,
    Field(String),
    Item,
}

impl Splitter {
    /// Cuts pieces of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: State::Start, partial: BytesMut::new(), limit, has_items: false }
    }

    /// Calls `piece` with each piece that `chunk` completes.
    pub(crate) fn cut(&mut self, mut chunk: Bytes, mut piece: impl FnMut(Piece)) -> Result<(), SplitError> {
        while let Some(&first) = chunk.first() {
            match std::mem::replace(&mut self.state, State::End) {
                State::Within { role, mut value } => match value.find(&chunk) {
                    Some(length) => {
                        let bytes = self.complete(chunk.split_to(length))?;
                        self.state = finish(role, bytes, &mut piece)?;
                    }
                    None => {
                        self.state = State::Within { role, value };
                        return self.keep(&chunk);
                    }
                },
                state if matches!(first, b' ' | b'\n' | b'\t' | b'\r') => {
                    self.state = state;
                    let _ = chunk.split_to(1);
                }
                state => {
                    let (next, consumed) = advance(state, first)?;
                    if matches!(next, State::ItemOrEnd) && std::mem::replace(&mut self.has_items, true) {
                        return Err(SplitError::Malformed);
                    }
                    self.state = next;
                    let _ = chunk.split_to(consumed);
                }
            }
        }
        Ok(())
    }

    /// Whether the object has been read to its end.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// Whether there was a list of items, be it an empty one.
    pub(crate) fn has_items(&self) -> bool {
        self.has_items
    }

    /// Joins the end of a value with what came before; copies nothing where nothing did.
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

/// Outside of values: what follows on this byte, and whether the byte is used up (1) or is the
/// first of a value (0).
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

/// A value is complete: hand it on and say what is expected after it.
fn finish(role: Role, bytes: Bytes, piece: &mut impl FnMut(Piece)) -> Result<State, SplitError> {
    Ok(match role {
        Role::Name => {
            let field = serde_json::from_slice(&bytes).map_err(|_| SplitError::Malformed)?;
            State::Colon { field }
        }
        Role::Field(name) => {
            piece(Piece::Field { name, value: bytes });
            State::CommaOrEnd
        }
        Role::Item => {
            piece(Piece::Item(bytes));
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
        let mut pieces = Vec::new();
        for chunk in chunks {
            splitter.cut(Bytes::copy_from_slice(chunk), |piece| {
                let (name, bytes) = match piece {
                    Piece::Item(bytes) => ("item".to_owned(), bytes),
                    Piece::Field { name, value } => (name, value),
                };
                pieces.push((name, String::from_utf8_lossy(&bytes).into_owned()));
            })?;
        }
        Ok((pieces, splitter.is_complete()))
    }

    fn named(pieces: &[(&str, &str)]) -> Vec<(String, String)> {
        pieces.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn items_and_fields_come_in_any_order() {
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

    #[test]
    fn an_empty_or_missing_list_of_items_is_seen_as_it_is() {
        assert_eq!(cut(&[br#"{"items":[]}"#]), Ok((vec![], true)));
        assert_eq!(cut(&[br#"{"items":null}"#]), Ok((named(&[("items", "null")]), true)));
        assert_eq!(cut(&[b"{}"]), Ok((vec![], true)));
    }

    #[test]
    fn what_is_not_one_object_is_refused() {
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
    fn a_piece_may_not_exceed_the_limit_however_it_arrives() {
        for chunks in [vec![&br#"{"items":["123456789"]}"#[..]], vec![br#"{"items":["12345"#, b"67890"]] {
            let mut splitter = Splitter::new(10);
            let result: Result<(), _> =
                chunks.into_iter().try_for_each(|chunk| splitter.cut(Bytes::from_static(chunk), |_| ()));
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
        fn however_a_body_is_split_its_pieces_are_those_that_serde_sees(
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
            let (pieces, complete) = cut(&chunks).unwrap();
            prop_assert!(complete);
            let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            let found: Vec<_> = pieces.iter().filter(|piece| piece.0 == "item").map(|piece| parse(&piece.1)).collect();
            prop_assert_eq!(found, items);
            let found = pieces.iter().find(|piece| piece.0 == "metadata").map(|piece| parse(&piece.1));
            prop_assert_eq!(found, Some(metadata));
        }

        #[test]
        fn no_bytes_make_the_splitter_panic_or_hold_more_than_its_limit(
            body in proptest::collection::vec(prop_oneof![Just(b'{'), Just(b'"'), Just(b'['), Just(b'\\'), Just(b','), any::<u8>()], 0..300),
        ) {
            let mut splitter = Splitter::new(64);
            let _ = splitter.cut(Bytes::from(body), |_| ());
            prop_assert!(splitter.partial.len() <= 64);
        }
    }
}
