//! `Envelope`: a watch event, scanned together with the outline of its object.

use super::{
    Outline, from_slice,
    walk::{Fields, value_end},
};

/// A watch event: `{"type":"MODIFIED","object":{..}}`.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// The type of the event.
    pub kind: String,
    /// The object, or the `Status` of an ERROR event.
    pub object: Outline<'a>,
}

impl<'a> Envelope<'a> {
    /// Scans the JSON of an event.
    ///
    /// Returns `None` unless the JSON is an object with exactly one string `type` and exactly one
    /// `object`. The decoder validates the object itself.
    pub fn of(frame: &'a [u8]) -> Option<Self> {
        let (mut kind, mut object) = (None, None);
        let mut fields = Fields::of(frame, 0).ok()?;
        while let Some(field) = fields.next().ok()? {
            let end = match &*field.name {
                b"object" if object.is_none() => {
                    let outline = Outline::first(&frame[field.value..])?;
                    let end = field.value + outline.bytes().len();
                    object = Some(outline);
                    end
                }
                b"object" => return None,
                b"type" if kind.is_some() => return None,
                b"type" => {
                    let end = value_end(frame, field.value).ok()?;
                    kind = Some(from_slice(&frame[field.value..end]).ok()?);
                    end
                }
                _ => value_end(frame, field.value).ok()?,
            };
            fields.pass(end);
        }
        fields.is_all().then_some(Self { kind: kind?, object: object? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str =
        r#"{"metadata":{"name":"a","managedFields":[{"x":"]}"}],"uid":"u"},"spec":{"x":["}"]}}"#;

    fn read(frame: &str) -> Option<(String, String)> {
        let Envelope { kind, object } = Envelope::of(frame.as_bytes())?;
        Some((kind, String::from_utf8_lossy(object.bytes()).into_owned()))
    }

    #[test]
    fn the_type_and_the_object_are_found_in_any_order_and_among_others() {
        for frame in [
            format!(r#"{{"type":"ADDED","object":{POD}}}"#),
            format!(r#" {{ "object" : {POD} , "type" : "ADDED" }} "#),
            format!(r#"{{"type":"ADDED","object":{POD},"more":{{"type":7}}}}"#),
            format!(r#"{{"more":[{{}}],"t\u0079pe":"ADD\u0045D","object":{POD}}}"#),
        ] {
            assert_eq!(read(&frame), Some(("ADDED".to_owned(), POD.to_owned())), "{frame}");
            let outline = Envelope::of(frame.as_bytes()).unwrap().object;
            assert_eq!(outline, Outline::of(POD.as_bytes()), "{frame}");
        }
    }

    #[test]
    fn unusual_notation_is_found_completely() {
        let object = r#"{"metadata":{"name":"a","name":"b"},"spec":{"x":"}"}}"#;
        let frame = format!(r#"{{"type":"ADDED","object":{object},"more":1}}"#);
        assert_eq!(read(&frame), Some(("ADDED".to_owned(), object.to_owned())));
    }

    #[test]
    fn null_object_has_empty_outline() {
        for object in ["7", "null", "[{}]", r#""{}""#] {
            let frame = format!(r#"{{"type":"ADDED","object":{object}}}"#);
            assert_eq!(read(&frame), Some(("ADDED".to_owned(), object.to_owned())));
            assert_eq!(Envelope::of(frame.as_bytes()).unwrap().object.id(), None);
        }
    }

    #[test]
    fn invalid_event_has_no_envelope() {
        for frame in [
            "",
            "[]",
            "nonsense",
            "{}",
            r#"{"type":"ADDED"}"#,
            r#"{"object":{}}"#,
            r#"{"type":7,"object":{}}"#,
            r#"{"type":"ADDED" "object":{}}"#,
            r#"{"type":"ADDED","object":{},}"#,
            r#"{,"type":"ADDED","object":{}}"#,
            r#"{"type":"ADDED","object":{}"#,
            r#"{"type":"ADDED","object":{"a"#,
            r#"{"type":"ADDED","object":{}}x"#,
            r#"{"type":"ADDED","object":{},"object":{}}"#,
            r#"{"type":"ADDED","type":"ADDED","object":{}}"#,
        ] {
            assert_eq!(read(frame), None, "{frame}");
        }
    }
}
