//! `Envelope`: the type of a watch event and the outline of its object, from one scan.

use std::borrow::Cow;

use super::{
    Outline, from_slice, from_str,
    walk::{FieldScanner, value_end},
};

/// Holds the parts of a watch event: `{"type":"MODIFIED","object":{..}}`.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// The type of the event, for example `MODIFIED`.
    pub event_type: Cow<'a, str>,
    /// The object, or the `Status` of an ERROR event.
    pub object: Outline<'a>,
}

impl<'a> Envelope<'a> {
    /// Scans the JSON of an event.
    ///
    /// Returns `None` unless the JSON is an object with exactly one `type` and exactly one
    /// `object`, and `type` is a string. The method does not validate the value of `object`.
    pub fn scan(frame: &'a [u8]) -> Option<Self> {
        let (mut event_type, mut object) = (None, None);
        let mut fields = FieldScanner::of(frame, 0).ok()?;
        while let Some(field) = fields.next().ok()? {
            let end = match &*field.name {
                b"object" if object.is_none() => {
                    let outline = Outline::scan_first(&frame[field.value..])?;
                    let end = field.value + outline.bytes().len();
                    object = Some(outline);
                    end
                }
                b"object" => return None,
                b"type" if event_type.is_some() => return None,
                b"type" => {
                    let end = value_end(frame, field.value).ok()?;
                    event_type = Some(text(&frame[field.value..end])?);
                    end
                }
                _ => value_end(frame, field.value).ok()?,
            };
            fields.skip_value(end);
        }
        fields.is_at_end().then_some(Self { event_type: event_type?, object: object? })
    }
}

/// Returns the text of a JSON string. The text is borrowed if it has no escapes.
fn text(json: &[u8]) -> Option<Cow<'_, str>> {
    match str::from_utf8(json).ok().and_then(|json| from_str::<&str>(json).ok()) {
        Some(text) => Some(Cow::Borrowed(text)),
        None => from_slice::<String>(json).ok().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str =
        r#"{"metadata":{"name":"a","managedFields":[{"x":"]}"}],"uid":"u"},"spec":{"x":["}"]}}"#;

    fn read(frame: &str) -> Option<(String, String)> {
        let Envelope { event_type, object } = Envelope::scan(frame.as_bytes())?;
        Some((event_type.into_owned(), String::from_utf8_lossy(object.bytes()).into_owned()))
    }

    #[test]
    fn type_and_object_are_found_in_any_order() {
        for frame in [
            format!(r#"{{"type":"ADDED","object":{POD}}}"#),
            format!(r#" {{ "object" : {POD} , "type" : "ADDED" }} "#),
            format!(r#"{{"type":"ADDED","object":{POD},"more":{{"type":7}}}}"#),
            format!(r#"{{"more":[{{}}],"t\u0079pe":"ADD\u0045D","object":{POD}}}"#),
        ] {
            assert_eq!(read(&frame), Some(("ADDED".to_owned(), POD.to_owned())), "{frame}");
            let outline = Envelope::scan(frame.as_bytes()).unwrap().object;
            assert_eq!(outline, Outline::scan(POD.as_bytes()), "{frame}");
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
            assert_eq!(Envelope::scan(frame.as_bytes()).unwrap().object.id(), None);
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
