//! The names and types of all fields of all messages, in JSON and in protobuf: the table `types.txt`. The
//! header of the file explains the format.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use crate::schemas::kinds::kind::Kind;
use crate::schemas::types::facts::Facts;

/// The table of all messages. A message is parsed at its first use, because most programs use few kinds.
#[derive(Debug, Default)]
pub(crate) struct Types {
    kinds: HashMap<(&'static str, &'static str), usize>,
    /// The index of each message by its name in the table.
    places: HashMap<&'static str, usize>,
    messages: Vec<Lines>,
}

/// A message of the table. A test parses all messages.
#[derive(Debug)]
struct Lines {
    /// The text from the first line of the message to the end of the table.
    text: &'static str,
    message: OnceLock<Result<Message, &'static str>>,
}

#[derive(Debug)]
pub(crate) struct Message {
    /// The name of the message in errors.
    pub name: &'static str,
    /// The package of the OpenAPI model. Its last part is the Go package of the type.
    #[cfg(feature = "openapi")]
    pub package: &'static str,
    pub form: Form,
    pub facts: Facts,
    pub fields: Vec<Field>,
    /// The JSON fields, ordered by name. Fields of embedded messages are on the same level.
    known: Vec<Field>,
    /// The fields that JSON contains even if they are empty.
    always: Vec<Field>,
}

/// The JSON form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An object with the fields of the message.
    Object,
    /// The value of the first field that is present, otherwise of the last field.
    Choice,
    /// The list in its only field.
    List,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub number: u32,
    /// The name of the field in JSON.
    pub name: &'static str,
    pub shape: Shape,
    pub base: Base,
    pub empty: Empty,
    /// The Go name of the type of one value, if `base` does not determine it.
    pub go_base: Option<&'static str>,
    pub facts: Facts,
}

/// How often a field may occur, and its JSON form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The field occurs once. A missing value is the empty value.
    Value,
    /// The field occurs once. A missing value is absent.
    Pointer,
    List,
    /// Each occurrence is a message with a key and a value.
    Map,
    /// A message whose fields are merged into the containing object.
    Inline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
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
    /// Bytes that contain JSON.
    Json,
    /// The message at this index of the table.
    Message(usize),
}

impl Base {
    /// Returns whether Go has an empty value for the type. Messages and similar types are never empty.
    pub(crate) fn is_scalar(self) -> bool {
        matches!(self, Self::Bool | Self::Int32 | Self::Int64 | Self::Double | Self::String | Self::Bytes)
    }
}

/// The JSON of an empty field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Empty {
    /// Omitted if it is a text, a number, a list, ...; messages stay.
    Dropped,
    /// Zero or null.
    Kept,
    /// Omitted, although an empty time is otherwise null.
    DroppedTime,
}

impl Field {
    /// Returns whether JSON contains the field even if it is empty.
    pub(super) fn is_always_there(&self) -> bool {
        match (self.empty, self.shape) {
            (Empty::Kept, _) => true,
            (Empty::Dropped, Shape::Value) => !self.base.is_scalar(),
            (Empty::Dropped | Empty::DroppedTime, _) => false,
        }
    }
}

/// Names are ordered by length first, which is faster to compare than the text.
fn order(name: &str) -> (usize, &str) {
    (name.len(), name)
}

impl Message {
    pub(crate) fn known(&self, name: &str) -> Option<&Field> {
        let wanted = order(name);
        let place = self.known.binary_search_by(|known| order(known.name).cmp(&wanted)).ok()?;
        self.known.get(place)
    }

    pub(crate) fn json_fields(&self) -> impl Iterator<Item = &Field> {
        self.known.iter()
    }

    /// Returns the fields that JSON contains even if they are empty.
    pub(crate) fn always(&self) -> &[Field] {
        &self.always
    }
}

impl Types {
    pub(crate) fn get() -> &'static Self {
        static TYPES: LazyLock<Types> = LazyLock::new(|| Types::index(include_str!("types.txt")));
        &TYPES
    }

    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<usize> {
        self.kinds.get(&(api_version, kind)).copied()
    }

    /// Returns the index of a message by its OpenAPI model.
    #[cfg(feature = "openapi")]
    pub(crate) fn find(&self, package: &str, name: &str) -> Option<usize> {
        let found = |place: &usize| {
            self.message(*place).is_some_and(|message| (message.package, message.name) == (package, name))
        };
        (0..self.messages.len()).find(found)
    }

    /// Returns the message for an object of this kind; `None` for custom resources.
    pub(crate) fn of(kind: &Kind) -> Option<&'static Message> {
        let types = Self::get();
        let place = types.kind(&kind.api_version(), &kind.kind).filter(|_| !kind.rules.custom)?;
        types.message(place)
    }

    /// Returns all kinds: the version, the name and the index of the message.
    #[cfg(any(test, feature = "openapi"))]
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str, usize)> {
        self.kinds.iter().map(|((version, kind), place)| (*version, *kind, *place))
    }

    /// Returns the kind of a resource in a URL, if the resource is named like its kind with a trailing s.
    pub(crate) fn kind_of(&self, api_version: &str, resource: &str) -> Option<&'static str> {
        let mut kinds = self.kinds.keys().filter(|(version, _)| *version == api_version);
        kinds
            .find(|(_, kind)| resource.strip_suffix('s') == Some(&kind.to_lowercase()))
            .map(|(_, kind)| *kind)
    }

    pub(crate) fn message(&self, place: usize) -> Option<&Message> {
        self.parsed(place)?.as_ref().ok()
    }

    /// Returns the message at this index, or its first malformed line.
    fn parsed(&self, place: usize) -> Option<&Result<Message, &'static str>> {
        let lines = self.messages.get(place)?;
        Some(lines.message.get_or_init(|| self.parse(lines.text)))
    }

    /// Finds the kinds and the first lines of the messages.
    fn index(text: &'static str) -> Self {
        let mut types = Self::default();
        let (mut kinds, mut rest) = (Vec::new(), text);
        for line in text.split_inclusive('\n') {
            if let Some(name) = name_of(line) {
                types.places.insert(name, types.messages.len());
                types.messages.push(Lines { text: rest, message: OnceLock::new() });
            } else if let Some(kind) = line.strip_prefix("kind ") {
                kinds.push(kind);
            }
            rest = rest.get(line.len()..).unwrap_or_default();
        }
        for kind in kinds {
            let mut words = kind.split_ascii_whitespace();
            if let (Some(version), Some(kind), Some(message)) = (words.next(), words.next(), words.next())
                && let Some(place) = types.places.get(message)
            {
                types.kinds.insert((version, kind), *place);
            }
        }
        types
    }

    /// Parses the message at the start of a text.
    fn parse(&self, text: &'static str) -> Result<Message, &'static str> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let mut parts = first.split(" +");
        let words: Vec<&'static str> = parts.next().unwrap_or_default().split(' ').collect();
        let [form, name, ..] = words.as_slice() else { return Err(first) };
        let mut message = Message {
            name: name.rsplit('.').next().unwrap_or(name),
            #[cfg(feature = "openapi")]
            package: words.get(2).copied().unwrap_or("io.k8s.api.core.v1"),
            form: Form::parse(form).ok_or(first)?,
            facts: Facts::parse(parts).ok_or(first)?,
            fields: Vec::new(),
            known: Vec::new(),
            always: Vec::new(),
        };
        for line in lines.take_while(|line| name_of(line).is_none()) {
            let mut parts = line.split(" +");
            let words: Vec<&'static str> = parts.next().unwrap_or_default().split(' ').collect();
            let [number, name, of, ..] = words.as_slice() else { return Err(line) };
            let field = Field::parse([number, name, of], &self.places);
            let facts = Facts::parse(parts).ok_or(line)?;
            message.fields.push(Field { facts, ..field.ok_or(line)? });
        }
        for field in &message.fields {
            match (field.shape, field.base) {
                (Shape::Inline, Base::Message(inner)) => {
                    message.known.extend(self.message(inner).into_iter().flat_map(Message::json_fields));
                }
                _ => message.known.push(*field),
            }
        }
        message.known.sort_by_key(|known| order(known.name));
        message.always = message.known.iter().filter(|known| known.is_always_there()).copied().collect();
        Ok(message)
    }
}

/// Returns the name of the message that starts with this line, if a message starts with it.
fn name_of(line: &str) -> Option<&str> {
    let (form, rest) = line.split_once(' ')?;
    Form::parse(form)?;
    rest.split([' ', '\n']).next()
}

impl Form {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "message" => Some(Self::Object),
            "choice" => Some(Self::Choice),
            "list" => Some(Self::List),
            _ => None,
        }
    }
}

impl Field {
    fn parse([number, name, of]: [&'static str; 3], places: &HashMap<&str, usize>) -> Option<Self> {
        // The Go names of lists, maps and fields have no use here.
        let of = of.split('=').next()?;
        let (of, go_base) = match of.split_once('@') {
            Some((of, name)) => (of, Some(name)),
            None => (of, None),
        };
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
        let (number, facts) = (number.parse().ok()?, Facts::default());
        Some(Self { number, name, shape, base, empty, go_base, facts })
    }
}

#[cfg(test)]
mod tests;
