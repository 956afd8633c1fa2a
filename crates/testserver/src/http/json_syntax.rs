//! What Go says of a text that is no JSON. Bodies are read by another parser; this one looks a second time at those that
//! it refuses.

use serde::de::DeserializeOwned;

/// Reads JSON.
///
/// # Errors
/// The complaint of Go's parser. What it would accept (too deep a value, one of another type) is the own parser's to
/// refuse, in its words.
pub(crate) fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    serde_json::from_slice(json)
        .map_err(|error| Scan { json, at: 0 }.document().err().unwrap_or_else(|| error.to_string()))
}

type Scanned = Result<(), String>;

struct Scan<'a> {
    json: &'a [u8],
    at: usize,
}

/// What may come next.
#[derive(Clone, Copy)]
enum Next {
    Value,
    /// A value or the end of the list.
    Element,
    /// A key or the end of the map.
    Field,
    Key,
    Colon,
    /// Whatever goes on with or ends what the value is in.
    More,
}

#[derive(Clone, Copy)]
enum Inside {
    List,
    Map,
}

impl Scan<'_> {
    fn document(&mut self) -> Scanned {
        let mut inside = Vec::new();
        let mut next = Next::Value;
        loop {
            while self.json.get(self.at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
                self.at += 1;
            }
            let Some(&byte) = self.json.get(self.at) else {
                let whole = matches!(next, Next::More) && inside.is_empty();
                return if whole { Ok(()) } else { Err(ended()) };
            };
            self.at += 1;
            next = match (next, byte) {
                (Next::Element, b']') | (Next::Field, b'}') => {
                    inside.pop();
                    Next::More
                }
                (Next::Value | Next::Element, b'[') => {
                    inside.push(Inside::List);
                    Next::Element
                }
                (Next::Value | Next::Element, b'{') => {
                    inside.push(Inside::Map);
                    Next::Field
                }
                (Next::Value | Next::Element, _) => {
                    self.scalar(byte)?;
                    Next::More
                }
                (Next::Field | Next::Key, b'"') => {
                    self.string()?;
                    Next::Colon
                }
                (Next::Field | Next::Key, _) => {
                    return Err(invalid(byte, "looking for beginning of object key string"));
                }
                (Next::Colon, b':') => Next::Value,
                (Next::Colon, _) => return Err(invalid(byte, "after object key")),
                (Next::More, _) => match (inside.last(), byte) {
                    (Some(Inside::List), b',') => Next::Value,
                    (Some(Inside::Map), b',') => Next::Key,
                    (Some(Inside::List), b']') | (Some(Inside::Map), b'}') => {
                        inside.pop();
                        Next::More
                    }
                    (Some(Inside::List), _) => return Err(invalid(byte, "after array element")),
                    (Some(Inside::Map), _) => return Err(invalid(byte, "after object key:value pair")),
                    (None, _) => return Err(invalid(byte, "after top-level value")),
                },
            };
        }
    }

    /// The next byte; Go takes the end of the text for a space.
    fn byte(&mut self) -> u8 {
        let byte = self.json.get(self.at).copied().unwrap_or(b' ');
        self.at += 1;
        byte
    }

    fn scalar(&mut self, first: u8) -> Scanned {
        match first {
            b'"' => self.string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' | b'0'..=b'9' => self.number(first),
            other => Err(invalid(other, "looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &str) -> Scanned {
        for expected in word.chars().skip(1) {
            let byte = self.byte();
            if char::from(byte) != expected {
                return Err(invalid(byte, &format!("in literal {word} (expecting '{expected}')")));
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Scanned {
        while self.at < self.json.len() {
            match self.byte() {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                byte @ ..0x20 => return Err(invalid(byte, "in string literal")),
                _ => {}
            }
        }
        Err(ended())
    }

    fn escape(&mut self) -> Scanned {
        match self.byte() {
            b'u' => {
                for _ in 0..4 {
                    let byte = self.byte();
                    if !byte.is_ascii_hexdigit() {
                        return Err(invalid(byte, "in \\u hexadecimal character escape"));
                    }
                }
                Ok(())
            }
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            byte => Err(invalid(byte, "in string escape code")),
        }
    }

    fn number(&mut self, first: u8) -> Scanned {
        let first = if first == b'-' { self.byte() } else { first };
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            byte => return Err(invalid(byte, "in numeric literal")),
        }
        if self.json.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
        }
        if self.json.get(self.at).is_some_and(|byte| b"eE".contains(byte)) {
            self.at += 1;
            self.at += usize::from(self.json.get(self.at).is_some_and(|byte| b"+-".contains(byte)));
            self.digit("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// At least one digit.
    fn digit(&mut self, place: &str) -> Scanned {
        let byte = self.byte();
        if !byte.is_ascii_digit() {
            return Err(invalid(byte, place));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.json.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }
}

fn ended() -> String {
    "unexpected end of JSON input".into()
}

/// A byte is shown as the character of its number.
fn invalid(byte: u8, place: &str) -> String {
    let shown = match byte {
        b'\'' => "\\'".into(),
        b'"' => "\"".into(),
        b'\\' => "\\\\".into(),
        0x07 => "\\a".into(),
        0x08 => "\\b".into(),
        0x0b => "\\v".into(),
        0x0c => "\\f".into(),
        b'\n' | b'\r' | b'\t' => char::from(byte).escape_default().to_string(),
        ..0x20 | 0x7f => format!("\\x{byte:02x}"),
        0x80..0xa0 | 0xad => format!("\\u{byte:04x}"),
        // Go takes it for a space that is not printed.
        0xa0 => "\\u00a0".into(),
        _ => char::from(byte).to_string(),
    };
    format!("invalid character '{shown}' {place}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn refused(json: &str) -> String {
        read::<Value>(json.as_bytes()).unwrap_err()
    }

    #[test]
    fn what_is_no_json_is_refused_in_the_words_of_go() {
        for (json, why) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":[1,", "unexpected end of JSON input"),
            ("\"a", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{\"a\" 1", "invalid character '1' after object key"),
            ("{\"a\":1 \"b\"", "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("-", "invalid character ' ' in numeric literal"),
            ("1.}", "invalid character '}' after decimal point in numeric literal"),
            ("1e+x", "invalid character 'x' in exponent of numeric literal"),
            ("fals", "invalid character ' ' in literal false (expecting 'e')"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("\"\\'\"", "invalid character '\\'' in string escape code"),
            ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("\0", "invalid character '\\x00' looking for beginning of value"),
            ("\u{e9}", "invalid character '\u{c3}' looking for beginning of value"),
        ] {
            assert_eq!(refused(json), why, "{json}");
        }
        assert!(refused(&"[".repeat(100_000)).starts_with("unexpected end"));
    }

    #[test]
    fn both_parsers_agree_on_what_is_json() {
        let mut rng = fastrand::Rng::with_seed(7);
        let pieces = [
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"", "\\u00e9", "1", "-0.5e-7", "0", "true", "nul", " ",
            "x",
        ];
        let mut valid = 0;
        for _ in 0..20_000 {
            let text: String = (0..rng.usize(1..8)).map(|_| pieces[rng.usize(..pieces.len())]).collect();
            let own = serde_json::from_str::<Value>(&text).is_ok();
            assert_eq!(Scan { json: text.as_bytes(), at: 0 }.document().is_ok(), own, "{text}");
            valid += usize::from(own);
        }
        assert!(valid > 100, "{valid}");
    }
}
