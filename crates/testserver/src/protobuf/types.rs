//! Which field of which message has which name and type in JSON: the table `types.txt`, whose head explains it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The table of all messages.
#[derive(Debug, Default)]
pub(super) struct Types {
    kinds: HashMap<(&'static str, &'static str), usize>,
    messages: Vec<Message>,
}

#[derive(Debug)]
pub(super) struct Message {
    /// What errors call it.
    pub name: &'static str,
    pub form: Form,
    pub fields: Vec<Field>,
}

/// What a message is in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// An object of its fields.
    Object,
    /// The first field that is there, else the last.
    Choice,
    /// The list that is its only field.
    List,
}

#[derive(Debug)]
pub(super) struct Field {
    pub number: u32,
    /// In JSON.
    pub name: &'static str,
    go_name: Option<&'static str>,
    pub shape: Shape,
    pub base: Base,
    pub empty: Empty,
}

/// How often a field occurs, and what that makes of it in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Once; where it doesn't occur it is empty.
    Value,
    /// Once; where it doesn't occur it is absent.
    Pointer,
    List,
    /// Each occurrence is a message of a key and a value.
    Map,
    /// A message whose fields stand beside the others.
    Inline,
}

/// The type of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Bool,
    Int32,
    Int64,
    Double,
    String,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Bytes that are JSON.
    Json,
    /// The message at this place of the table.
    Message(usize),
}

/// Whether JSON has the field if it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Empty {
    /// Not if it is a text, a number, a list ...; messages stay.
    Dropped,
    /// As zero or null.
    Kept,
    /// Not as null either, which empty times are otherwise.
    DroppedTime,
}

impl Field {
    /// What errors call it.
    pub(super) fn go_name(&self) -> Cow<'static, str> {
        if let Some(name) = self.go_name {
            return name.into();
        }
        let mut letters = self.name.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        first.chain(letters).collect::<String>().into()
    }
}

impl Types {
    /// The table, which is read when the first protobuf body comes.
    pub(super) fn get() -> &'static Self {
        static TYPES: OnceLock<Types> = OnceLock::new();
        TYPES.get_or_init(|| {
            Self::parse(include_str!("types.txt"))
                .expect("a test reads the whole table, which is part of the crate")
        })
    }

    /// The place of the message that a body of this kind is.
    pub(super) fn kind(&self, api_version: &str, kind: &str) -> Option<usize> {
        self.kinds.get(&(api_version, kind)).copied()
    }

    /// All kinds, by version and name.
    #[cfg(test)]
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.kinds.keys().copied()
    }

    /// The kind that a resource's URL asks for, where the resource is called as its kind with an s.
    pub(super) fn kind_of(&self, api_version: &str, resource: &str) -> Option<&'static str> {
        let mut kinds = self.kinds.keys().filter(|(version, _)| *version == api_version);
        kinds
            .find(|(_, kind)| resource.strip_suffix('s') == Some(&kind.to_lowercase()))
            .map(|(_, kind)| *kind)
    }

    pub(super) fn message(&self, place: usize) -> Option<&Message> {
        self.messages.get(place)
    }

    fn parse(text: &'static str) -> Result<Self, &'static str> {
        let places = places(text);
        let mut types = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&'static str> = line.split(' ').collect();
            match words.as_slice() {
                ["kind", version, kind, message] => {
                    types.kinds.insert((version, kind), *places.get(message).ok_or(line)?);
                }
                [_, name] => {
                    let (form, _) = start_of(line).ok_or(line)?;
                    let name = name.rsplit('.').next().unwrap_or(name);
                    types.messages.push(Message { name, form, fields: Vec::new() });
                }
                [number, name, of, go_name @ ..] => {
                    let field = Field::parse([number, name, of], go_name.first().copied(), &places);
                    types.messages.last_mut().ok_or(line)?.fields.push(field.ok_or(line)?);
                }
                _ => return Err(line),
            }
        }
        Ok(types)
    }
}

/// Where each message stands among the messages.
fn places(text: &'static str) -> HashMap<&'static str, usize> {
    let starts = text.lines().filter_map(start_of);
    starts.enumerate().map(|(place, (_, name))| (name, place)).collect()
}

/// Form and name of the message that begins with this line.
fn start_of(line: &str) -> Option<(Form, &str)> {
    let (start, name) = line.split_once(' ')?;
    let form = match start {
        "message" => Form::Object,
        "choice" => Form::Choice,
        "list" => Form::List,
        _ => return None,
    };
    Some((form, name))
}

impl Field {
    fn parse(
        [number, name, of]: [&'static str; 3],
        go_name: Option<&'static str>,
        places: &HashMap<&str, usize>,
    ) -> Option<Self> {
        let (of, empty) = match (of.strip_suffix('!'), of.strip_suffix('?')) {
            (Some(of), _) => (of, Empty::Kept),
            (_, Some(of)) => (of, Empty::DroppedTime),
            _ => (of, Empty::Dropped),
        };
        let shapes = [("*", Shape::Pointer), ("[]", Shape::List), ("{}", Shape::Map), ("", Shape::Value)];
        let (of, shape) = shapes.iter().find_map(|(sign, shape)| Some((of.strip_prefix(sign)?, *shape)))?;
        let shape = if name == "^" { Shape::Inline } else { shape };
        let base = match of {
            "bool" => Base::Bool,
            "int32" => Base::Int32,
            "int64" => Base::Int64,
            "double" => Base::Double,
            "string" => Base::String,
            "bytes" => Base::Bytes,
            "time" => Base::Time,
            "microtime" => Base::MicroTime,
            "quantity" => Base::Quantity,
            "intorstring" => Base::IntOrString,
            "json" => Base::Json,
            message => Base::Message(*places.get(message)?),
        };
        Some(Self { number: number.parse().ok()?, name, go_name, shape, base, empty })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_to_its_end() {
        let types = Types::parse(include_str!("types.txt")).unwrap();
        let config_map = types.message(types.kind("v1", "ConfigMap").unwrap()).unwrap();
        assert_eq!(config_map.name, "ConfigMap");
        let field = |name| config_map.fields.iter().find(|field| field.name == name).unwrap();
        assert_eq!((field("metadata").number, &*field("metadata").go_name()), (1, "ObjectMeta"));
        assert_eq!((field("binaryData").number, &*field("binaryData").go_name()), (3, "BinaryData"));
        assert_eq!((field("binaryData").shape, field("binaryData").base), (Shape::Map, Base::Bytes));
        assert_eq!((field("immutable").shape, field("immutable").base), (Shape::Pointer, Base::Bool));
    }

    #[test]
    fn a_line_that_is_not_understood_is_an_error() {
        assert_eq!(Types::parse("message A\n1 a Nothing").unwrap_err(), "1 a Nothing");
        assert_eq!(Types::parse("1 a string").unwrap_err(), "1 a string");
        assert_eq!(Types::parse("kind v1 A B").unwrap_err(), "kind v1 A B");
        assert_eq!(Types::parse("message A\nx a string").unwrap_err(), "x a string");
    }

    #[test]
    fn every_built_in_kind_stands_in_the_table() {
        for kind in crate::kinds::builtin::kinds() {
            assert!(Types::get().kind(&kind.api_version(), &kind.kind).is_some(), "{kind:?}");
        }
    }

    #[test]
    fn reviews_and_bindings_are_found_by_their_resource() {
        let of = |version, resource| Types::get().kind_of(version, resource);
        assert_eq!(
            of("authorization.k8s.io/v1", "selfsubjectaccessreviews"),
            Some("SelfSubjectAccessReview")
        );
        assert_eq!(of("v1", "bindings"), Some("Binding"));
        assert_eq!(of("v1", "widgets"), None);
    }
}
