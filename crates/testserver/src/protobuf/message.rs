//! Converts a message to the JSON that the real server would produce.
//!
//! Memory is bounded by the length of the body: a message may have only a plausible number of parts for
//! its length. Otherwise two bytes could encode an empty object, which needs hundreds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::special;
use super::wire::{Cursor, FIXED64, LENGTH, Malformed, VARINT, text};
use crate::schemas::types::{Base, Empty, Field, Form, Message, Shape, Types};

/// The maximum nesting of messages. Only the schemas of CRDs are recursive.
const DEPTH: usize = 64;
/// The number of parts that a body of any length may contain.
const PARTS: usize = 10_000;
/// In a body with more than `PARTS` parts, each part needs at least this number of bytes.
const BYTES_PER_PART: usize = 4;

const DEEP: Malformed = Malformed::Text("the message is nested too deeply");
const MANY: Malformed = Malformed::Text("the message has too many parts for its length");

/// Converts the message at index `place` of the table to JSON.
pub(super) fn message(place: usize, bytes: &[u8]) -> Result<Value, Malformed> {
    let mut reader = Reader { types: Types::get(), parts: PARTS + bytes.len() / BYTES_PER_PART };
    reader.message(place, &[bytes], DEPTH)
}

struct Reader {
    types: &'static Types,
    parts: usize,
}

/// The values found for one field.
#[derive(Debug, Default)]
enum FieldContent<'a> {
    #[default]
    Nothing,
    Number(u64),
    Bytes(&'a [u8]),
    /// A message. Several occurrences form one message.
    Pieces(Vec<&'a [u8]>),
    List(Vec<Value>),
    Map(Map<String, Value>),
}

impl FieldContent<'_> {
    /// Returns whether Go considers the value empty, and omits it from JSON if the tag of the field
    /// contains `omitempty`.
    fn is_zero(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Number(number) => *number == 0,
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Pieces(_) => false,
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
        }
    }
}

impl Reader {
    fn message(&mut self, place: usize, pieces: &[&[u8]], depth: usize) -> Result<Value, Malformed> {
        let depth = depth.checked_sub(1).ok_or(DEEP)?;
        self.parts = self.parts.checked_sub(1).ok_or(MANY)?;
        let message = self.types.message(place).ok_or(DEEP)?;
        let found = self.scan(message, pieces, depth)?;
        match message.form {
            Form::Choice => self.chosen(message, found, depth),
            Form::List => match found.into_iter().next() {
                Some(FieldContent::List(list)) => Ok(Value::Array(list)),
                _ => Ok(Value::Array(Vec::new())),
            },
            Form::Object => {
                let mut object = Map::new();
                self.fill(&mut object, message, found, depth)?;
                Ok(Value::Object(object))
            }
        }
    }

    /// Reads the fields of a message. Lists and maps are decoded, other values stay encoded.
    fn scan<'a>(
        &mut self,
        message: &Message,
        pieces: &[&'a [u8]],
        depth: usize,
    ) -> Result<Vec<FieldContent<'a>>, Malformed> {
        let mut found: Vec<FieldContent<'a>> = Vec::new();
        found.resize_with(message.fields.len(), FieldContent::default);
        for piece in pieces {
            let mut cursor = Cursor::new(piece);
            while let Some(tag) = cursor.tag()? {
                let known = message.fields.iter().zip(&mut found);
                match known.into_iter().find(|(field, _)| field.number == tag.number) {
                    Some((field, found)) => self.collect(field, found, tag.wire, &mut cursor, depth)?,
                    None => cursor.skip(tag.wire)?,
                }
            }
        }
        Ok(found)
    }

    fn collect<'a>(
        &mut self,
        field: &Field,
        found: &mut FieldContent<'a>,
        wire: u8,
        cursor: &mut Cursor<'a>,
        depth: usize,
    ) -> Result<(), Malformed> {
        match field.shape {
            Shape::List => {
                let mut list = match std::mem::take(found) {
                    FieldContent::List(list) => list,
                    _ => Vec::new(),
                };
                self.items(&mut list, field, wire, cursor, depth)?;
                *found = FieldContent::List(list);
            }
            Shape::Map => {
                let entry = match raw(field, Base::Bytes, wire, cursor)? {
                    FieldContent::Bytes(entry) => self.entry(field, entry, depth)?,
                    _ => return Ok(()),
                };
                let mut map = match std::mem::take(found) {
                    FieldContent::Map(map) => map,
                    _ => Map::new(),
                };
                map.insert(entry.0, entry.1);
                *found = FieldContent::Map(map);
            }
            Shape::Value | Shape::Pointer | Shape::Inline => {
                *found = match (raw(field, field.base, wire, cursor)?, std::mem::take(found)) {
                    (FieldContent::Pieces(mut more), FieldContent::Pieces(mut pieces)) => {
                        pieces.append(&mut more);
                        FieldContent::Pieces(pieces)
                    }
                    (last, _) => last,
                };
            }
        }
        Ok(())
    }

    /// Reads one item of a list, or all numbers of a packed one.
    fn items(
        &mut self,
        list: &mut Vec<Value>,
        field: &Field,
        wire: u8,
        cursor: &mut Cursor<'_>,
        depth: usize,
    ) -> Result<(), Malformed> {
        let own = wire_type(field.base);
        if wire != LENGTH || own == LENGTH {
            let item = raw(field, field.base, wire, cursor)?;
            list.push(self.value(field.base, item, depth)?);
            return Ok(());
        }
        let mut packed = Cursor::new(cursor.bytes()?);
        while !packed.is_at_end() {
            let item = raw(field, field.base, own, &mut packed)?;
            list.push(self.value(field.base, item, depth)?);
        }
        Ok(())
    }

    /// Reads an entry of a map: a message with a key and a value. Empty ones may be omitted.
    fn entry(&mut self, field: &Field, entry: &[u8], depth: usize) -> Result<(String, Value), Malformed> {
        self.parts = self.parts.checked_sub(1).ok_or(MANY)?;
        let (mut key, mut value) = (String::new(), FieldContent::Nothing);
        let mut cursor = Cursor::new(entry);
        while let Some(tag) = cursor.tag()? {
            match tag.number {
                1 => {
                    if let FieldContent::Bytes(bytes) = raw(field, Base::String, tag.wire, &mut cursor)? {
                        key = text(bytes);
                    }
                }
                2 => value = raw(field, field.base, tag.wire, &mut cursor)?,
                _ => cursor.skip(tag.wire)?,
            }
        }
        let value = match (field.base, value) {
            (Base::Bytes, FieldContent::Nothing) => FieldContent::Bytes(&[]),
            (_, value) => value,
        };
        Ok((key, self.value(field.base, value, depth)?))
    }

    /// Returns the JSON of the first field that is present, otherwise of the last field.
    fn chosen(
        &mut self,
        message: &Message,
        found: Vec<FieldContent<'_>>,
        depth: usize,
    ) -> Result<Value, Malformed> {
        let last = message.fields.len().saturating_sub(1);
        for (place, (field, found)) in message.fields.iter().zip(found).enumerate() {
            if place == last || !found.is_zero() {
                return Ok(self.json(field, found, depth)?.unwrap_or_default());
            }
        }
        Ok(Value::Null)
    }

    fn fill(
        &mut self,
        object: &mut Map<String, Value>,
        message: &Message,
        found: Vec<FieldContent<'_>>,
        depth: usize,
    ) -> Result<(), Malformed> {
        for (field, found) in message.fields.iter().zip(found) {
            if let (Shape::Inline, Base::Message(place)) = (field.shape, field.base) {
                let inner = self.types.message(place).ok_or(DEEP)?;
                let pieces = if let FieldContent::Pieces(pieces) = found { pieces } else { Vec::new() };
                let found = self.scan(inner, &pieces, depth)?;
                self.fill(object, inner, found, depth)?;
            } else if let Some(value) = self.json(field, found, depth)? {
                object.insert(field.name.into(), value);
            }
        }
        Ok(())
    }

    /// Returns the value of the field, or `None` if JSON omits it.
    fn json(
        &mut self,
        field: &Field,
        found: FieldContent<'_>,
        depth: usize,
    ) -> Result<Option<Value>, Malformed> {
        if matches!(found, FieldContent::Nothing)
            && matches!(field.shape, Shape::Pointer | Shape::List | Shape::Map)
        {
            return Ok((field.empty == Empty::Kept).then_some(Value::Null));
        }
        let is_pointer = field.shape == Shape::Pointer;
        if !is_pointer && field.empty == Empty::Dropped && field.base.is_scalar() && found.is_zero() {
            return Ok(None);
        }
        match self.value(field.base, found, depth)? {
            Value::Null if is_pointer => Ok(Some(pointed_to(field.base))),
            Value::Null if field.empty == Empty::DroppedTime => Ok(None),
            value => Ok(Some(value)),
        }
    }

    fn value(&mut self, base: Base, found: FieldContent<'_>, depth: usize) -> Result<Value, Malformed> {
        let (number, bytes, pieces) = match found {
            FieldContent::List(list) => return Ok(Value::Array(list)),
            FieldContent::Map(map) => return Ok(Value::Object(map)),
            FieldContent::Nothing => (0, None, Vec::new()),
            FieldContent::Number(number) => (number, None, Vec::new()),
            FieldContent::Bytes(bytes) => (0, Some(bytes), Vec::new()),
            FieldContent::Pieces(pieces) => (0, None, pieces),
        };
        Ok(match base {
            Base::Bool => (number != 0).into(),
            // Negative numbers are sent as two's complement; the upper bits of longer numbers are
            // dropped.
            Base::Int32 => {
                u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default().cast_signed().into()
            }
            Base::Int64 => number.cast_signed().into(),
            Base::Double => double(f64::from_bits(number))?,
            Base::String => text(bytes.unwrap_or_default()).into(),
            Base::Bytes => bytes.map_or(Value::Null, |bytes| STANDARD.encode(bytes).into()),
            Base::Time => special::time(&pieces)?,
            Base::MicroTime => special::micro_time(&pieces)?,
            Base::Quantity => special::quantity(&pieces)?,
            Base::IntOrString => special::int_or_string(&pieces)?,
            Base::Json => special::document(&pieces)?,
            Base::Message(place) => self.message(place, &pieces, depth)?,
        })
    }
}

/// Returns the JSON of a pointer to a null value. For times it is the zero time, because null means a nil
/// pointer.
fn pointed_to(base: Base) -> Value {
    match base {
        Base::Time => "0001-01-01T00:00:00Z".into(),
        Base::MicroTime => "0001-01-01T00:00:00.000000Z".into(),
        _ => Value::Null,
    }
}

fn wire_type(base: Base) -> u8 {
    match base {
        Base::Bool | Base::Int32 | Base::Int64 => VARINT,
        Base::Double => FIXED64,
        _ => LENGTH,
    }
}

fn raw<'a>(
    field: &Field,
    base: Base,
    wire: u8,
    cursor: &mut Cursor<'a>,
) -> Result<FieldContent<'a>, Malformed> {
    if wire != wire_type(base) {
        return Err(Malformed::Field(field.name.into()));
    }
    Ok(match base {
        Base::Bool | Base::Int32 | Base::Int64 => FieldContent::Number(cursor.varint()?),
        Base::Double => FieldContent::Number(cursor.fixed64()?),
        Base::String | Base::Bytes => FieldContent::Bytes(cursor.bytes()?),
        _ => FieldContent::Pieces(vec![cursor.bytes()?]),
    })
}

/// Formats a number as Go does: integers without a fraction.
fn double(number: f64) -> Result<Value, Malformed> {
    if number.fract() == 0.0 && number.abs() < 2f64.powi(63) {
        // The comparison above ensures that the number is in range.
        return Ok((number as i64).into());
    }
    Number::from_f64(number).map(Value::Number).ok_or(Malformed::Text("a number in the message has no JSON"))
}
