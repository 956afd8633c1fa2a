//! Which field of which message has which name and type: `schema.txt`, made from the Go types by `tests/client-go/schema`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Read when the first protobuf body comes.
pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("schema.txt")));

/// The messages by name, and the kinds by version and name.
#[derive(Debug, Default)]
pub(super) struct Schema {
    kinds: HashMap<(&'static str, &'static str), &'static str>,
    messages: HashMap<&'static str, Message>,
}

/// The fields by number.
pub(super) type Message = HashMap<u64, Field>;

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    pub of: Type,
    pub many: Many,
    /// JSON has no zero of it.
    pub omit_zero: bool,
    /// The fields of the message stand beside the others, not under a name.
    pub inline: bool,
    /// The message has only this field, and is a list in JSON.
    pub unwrapped: bool,
}

/// The type of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Bool,
    Int,
    Double,
    Bytes,
    Message(&'static str),
}

/// How often a field may occur, and what that means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Many {
    One,
    List,
    /// Each is a pair of a text and a value.
    Map,
}

impl Schema {
    /// The message of a kind. DELETE's options come in every version there is.
    pub(super) fn kind(&self, api_version: &str, kind: &str) -> Option<&'static str> {
        let version = if kind == "DeleteOptions" { "v1" } else { api_version };
        self.kinds.get(&(version, kind)).copied()
    }

    pub(super) fn message(&self, name: &str) -> Option<&Message> {
        self.messages.get(name)
    }

    fn parse(text: &'static str) -> Self {
        let mut schema = Self::default();
        let mut open = "";
        for line in text.lines() {
            let words: Vec<&'static str> = line.split(' ').collect();
            match words.as_slice() {
                ["kind", version, kind, message] => {
                    schema.kinds.insert((version, kind), message);
                }
                ["message", name] => open = name,
                [number, name, of, flags @ ..] => {
                    let field = Field::parse(name, of, flags);
                    let number = number.parse().unwrap_or_default();
                    schema.messages.entry(open).or_default().insert(number, field);
                }
                _ => {}
            }
        }
        schema
    }
}

impl Field {
    fn parse(name: &'static str, of: &'static str, flags: &[&str]) -> Self {
        let of = match of {
            "string" => Type::Text,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "double" => Type::Double,
            "bytes" => Type::Bytes,
            message => Type::Message(message),
        };
        let has = |flag| flags.contains(&flag);
        let many = match () {
            () if has("map") => Many::Map,
            () if has("repeated") => Many::List,
            () => Many::One,
        };
        let (omit_zero, inline, unwrapped) = (has("omitzero"), has("inline"), has("unwrapped"));
        Self { name, of, many, omit_zero, inline, unwrapped }
    }
}
