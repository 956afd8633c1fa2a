//! Generates valid and damaged JSON.

use proptest::{prelude::*, sample::Index};
use serde_json::Value;

/// Generates values with escapes, brackets in strings, and numbers at the limits of their types.
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

/// Generates names. Most of them occur in the types of these tests.
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

/// Writes a value as JSON, with or without whitespace. Escapes all occurrences of the letter
/// `escape`.
pub(super) fn write(value: &Value, pretty: bool, escape: Option<char>) -> String {
    let text =
        if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }.unwrap();
    match escape {
        // A letter occurs only in strings and in words like `true`. An escape in a word is invalid
        // JSON.
        Some(letter) => text.replace(letter, &format!("\\u{:04x}", letter as u32)),
        None => text,
    }
}

/// Generates valid JSON, and JSON with some damage.
pub(super) fn text() -> impl Strategy<Value = String> {
    let escape =
        prop_oneof![4 => Just(None), 1 => proptest::sample::select(vec!['a', 'b', 'e']).prop_map(Some)];
    let written =
        (value(), any::<bool>(), escape).prop_map(|(value, pretty, escape)| write(&value, pretty, escape));
    (written, damages()).prop_map(|(text, damages)| apply_damage(text, &damages))
}

/// Generates no damage, or up to three changes.
pub(super) fn damages() -> impl Strategy<Value = Vec<Damage>> {
    prop_oneof![2 => Just(Vec::new()), 3 => proptest::collection::vec(damage(), 1..4)]
}

#[derive(Debug, Clone)]
pub(super) enum Damage {
    Truncate(Index),
    Insert(Index, &'static str),
    RemoveChar(Index),
    /// Repeats the part between two positions.
    Repeat(Index, Index),
}

/// The texts that are inserted at wrong positions.
const INSERTED_TEXTS: [&str; 44] = [
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

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<Index>().prop_map(Damage::Truncate),
        (any::<Index>(), proptest::sample::select(INSERTED_TEXTS.to_vec()))
            .prop_map(|(at, inserted)| Damage::Insert(at, inserted)),
        any::<Index>().prop_map(Damage::RemoveChar),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Damage::Repeat(from, to)),
    ]
}

/// Applies the damage to a text.
pub(super) fn apply_damage(text: String, damages: &[Damage]) -> String {
    damages.iter().fold(text, |text, damage| {
        let place = |at: &Index| {
            let at = at.index(text.len() + 1);
            (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
        };
        match damage {
            Damage::Truncate(at) => text[..place(at)].to_owned(),
            Damage::Insert(at, inserted) => {
                let (before, after) = text.split_at(place(at));
                [before, inserted, after].concat()
            }
            Damage::RemoveChar(at) => {
                let (before, after) = text.split_at(place(at));
                let mut after = after.chars();
                after.next();
                [before, after.as_str()].concat()
            }
            Damage::Repeat(from, to) => {
                let (from, to) = (place(from), place(to));
                [&text[..from.max(to)], &text[from.min(to)..]].concat()
            }
        }
    })
}
