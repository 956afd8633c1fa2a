//! Texts to try: JSON, nearly JSON, and what is left of it.

use proptest::{prelude::*, sample::Index};
use serde_json::Value;

/// Values with what is hard to read: escapes, brackets in strings, numbers at the end of their types.
pub(super) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        "[a-c\"\\\\\\[\\]{},:\u{0}\n\u{e9}\u{1f600} ]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((name(), inner), 0..5).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// The names in the types of these tests, and others.
pub(super) fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-d]",
        1 => proptest::sample::select(vec!["Unit", "Newtype", "Tuple", "Struct", "t", "c"]).prop_map(str::to_owned),
        1 => "[a\"\\\\\u{e9}\n]{0,3}",
        1 => "-?[0-9]{1,3}",
        1 => proptest::sample::select(vec!["true", "false"]).prop_map(str::to_owned),
    ]
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-300_i64..300).prop_map(Value::from),
        (-1_000_000..1_000_000_i64, -6..6)
            .prop_map(|(digits, exponent)| (digits as f64 * 10_f64.powi(exponent)).into()),
    ]
}

/// `value` as JSON, with white space or without, and with some characters written as escapes.
pub(super) fn write(value: &Value, pretty: bool, escape: Option<char>) -> String {
    let text =
        if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }.unwrap();
    match escape {
        // A letter can only be in a string or in a word; words are broken by it, which is a test, too.
        Some(letter) => text.replace(letter, &format!("\\u{:04x}", letter as u32)),
        None => text,
    }
}

/// JSON, and what a few mishaps make of it.
pub(super) fn text() -> impl Strategy<Value = String> {
    let escape =
        prop_oneof![4 => Just(None), 1 => proptest::sample::select(vec!['a', 'b', 'e']).prop_map(Some)];
    let written =
        (value(), any::<bool>(), escape).prop_map(|(value, pretty, escape)| write(&value, pretty, escape));
    (written, mishaps()).prop_map(|(text, mishaps)| after(text, &mishaps))
}

/// Mostly none.
pub(super) fn mishaps() -> impl Strategy<Value = Vec<Mishap>> {
    prop_oneof![2 => Just(Vec::new()), 3 => proptest::collection::vec(mishap(), 1..4)]
}

#[derive(Debug, Clone)]
pub(super) enum Mishap {
    CutOff(Index),
    Insert(Index, &'static str),
    Remove(Index),
    /// A part of it comes twice.
    Repeat(Index, Index),
}

/// What may be where it does not belong.
const PIECES: [&str; 44] = [
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    " ",
    "\n",
    "\t",
    "\u{1}",
    "0",
    "1",
    "-",
    "+",
    ".",
    "e",
    "E5",
    "e-7",
    "null",
    "nul",
    "true",
    "false",
    "tru",
    "\\u",
    "\\u00e9",
    "\\ud83d",
    "\\ude00",
    "\\ud83d\\ude00",
    "\\n",
    "\\x",
    "\u{e9}",
    "99999999999999999999",
    "1e999",
    "-0",
    "01",
    "1.",
    "\"a\":1",
    ",\"a\":{}",
    "\"a\"",
    "[]",
    "{}",
    "\u{feff}",
];

fn mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        any::<Index>().prop_map(Mishap::CutOff),
        (any::<Index>(), proptest::sample::select(PIECES.to_vec()))
            .prop_map(|(at, piece)| Mishap::Insert(at, piece)),
        any::<Index>().prop_map(Mishap::Remove),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Mishap::Repeat(from, to)),
    ]
}

/// What is left of `text` after these.
pub(super) fn after(text: String, mishaps: &[Mishap]) -> String {
    mishaps.iter().fold(text, |text, mishap| {
        let place = |at: &Index| {
            let at = at.index(text.len() + 1);
            (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
        };
        match mishap {
            Mishap::CutOff(at) => text[..place(at)].to_owned(),
            Mishap::Insert(at, piece) => {
                let (before, after) = text.split_at(place(at));
                [before, piece, after].concat()
            }
            Mishap::Remove(at) => {
                let (before, after) = text.split_at(place(at));
                let mut after = after.chars();
                after.next();
                [before, after.as_str()].concat()
            }
            Mishap::Repeat(from, to) => {
                let (from, to) = (place(from), place(to));
                [&text[..from.max(to)], &text[from.min(to)..]].concat()
            }
        }
    })
}
