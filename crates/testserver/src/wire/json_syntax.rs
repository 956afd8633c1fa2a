//! Go's error messages for invalid JSON. serde_json parses the bodies. If it rejects a body, the
//! scanner of this module finds the error that Go would report.

use serde::de::DeserializeOwned;

/// Parses JSON.
///
/// # Errors
/// Returns the error message of Go's parser. If Go would accept the JSON, returns the message of
/// serde_json, for example for a value of another type.
pub(crate) fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    serde_json::from_slice(json)
        .map_err(|error| Scanner { json, at: 0 }.document().err().unwrap_or_else(|| error.to_string()))
}

type ScanResult = Result<(), String>;

struct Scanner<'a> {
    json: &'a [u8],
    at: usize,
}

/// The expected next token.
#[derive(Clone, Copy)]
enum Expected {
    Value,
    /// A value or the end of the array.
    ValueOrEnd,
    /// A key or the end of the object.
    KeyOrEnd,
    Key,
    Colon,
    /// A comma or the end of the container.
    CommaOrEnd,
}

#[derive(Clone, Copy)]
enum Container {
    Array,
    Object,
}

impl Scanner<'_> {
    fn document(&mut self) -> ScanResult {
        let mut containers = Vec::new();
        let mut next = Expected::Value;
        loop {
            while self.json.get(self.at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
                self.at += 1;
            }
            let Some(&byte) = self.json.get(self.at) else {
                let whole = matches!(next, Expected::CommaOrEnd) && containers.is_empty();
                return if whole { Ok(()) } else { Err(ended()) };
            };
            self.at += 1;
            next = match (next, byte) {
                (Expected::ValueOrEnd, b']') | (Expected::KeyOrEnd, b'}') => {
                    containers.pop();
                    Expected::CommaOrEnd
                }
                (Expected::Value | Expected::ValueOrEnd, b'[') => {
                    containers.push(Container::Array);
                    Expected::ValueOrEnd
                }
                (Expected::Value | Expected::ValueOrEnd, b'{') => {
                    containers.push(Container::Object);
                    Expected::KeyOrEnd
                }
                (Expected::Value | Expected::ValueOrEnd, _) => {
                    self.scalar(byte)?;
                    Expected::CommaOrEnd
                }
                (Expected::KeyOrEnd | Expected::Key, b'"') => {
                    self.string()?;
                    Expected::Colon
                }
                (Expected::KeyOrEnd | Expected::Key, _) => {
                    return Err(invalid(byte, "looking for beginning of object key string"));
                }
                (Expected::Colon, b':') => Expected::Value,
                (Expected::Colon, _) => return Err(invalid(byte, "after object key")),
                (Expected::CommaOrEnd, _) => match (containers.last(), byte) {
                    (Some(Container::Array), b',') => Expected::Value,
                    (Some(Container::Object), b',') => Expected::Key,
                    (Some(Container::Array), b']') | (Some(Container::Object), b'}') => {
                        containers.pop();
                        Expected::CommaOrEnd
                    }
                    (Some(Container::Array), _) => return Err(invalid(byte, "after array element")),
                    (Some(Container::Object), _) => return Err(invalid(byte, "after object key:value pair")),
                    (None, _) => return Err(invalid(byte, "after top-level value")),
                },
            };
        }
    }

    /// Returns the next byte. Like in Go, the end of the text counts as a space.
    fn byte(&mut self) -> u8 {
        let byte = self.json.get(self.at).copied().unwrap_or(b' ');
        self.at += 1;
        byte
    }

    fn scalar(&mut self, first: u8) -> ScanResult {
        match first {
            b'"' => self.string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' | b'0'..=b'9' => self.number(first),
            other => Err(invalid(other, "looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &str) -> ScanResult {
        for expected in word.chars().skip(1) {
            let byte = self.byte();
            if char::from(byte) != expected {
                return Err(invalid(byte, &format!("in literal {word} (expecting '{expected}')")));
            }
        }
        Ok(())
    }

    fn string(&mut self) -> ScanResult {
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

    fn escape(&mut self) -> ScanResult {
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

    fn number(&mut self, first: u8) -> ScanResult {
        let first = if first == b'-' { self.byte() } else { first };
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            byte => return Err(invalid(byte, "in numeric literal")),
        }
        if self.json.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.required_digits("after decimal point in numeric literal")?;
        }
        if self.json.get(self.at).is_some_and(|byte| b"eE".contains(byte)) {
            self.at += 1;
            self.at += usize::from(self.json.get(self.at).is_some_and(|byte| b"+-".contains(byte)));
            self.required_digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// Skips at least one digit.
    fn required_digits(&mut self, context: &str) -> ScanResult {
        let byte = self.byte();
        if !byte.is_ascii_digit() {
            return Err(invalid(byte, context));
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

/// Formats Go's error for a byte. Go prints the byte as the Unicode character with its value.
fn invalid(byte: u8, context: &str) -> String {
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
        // Go escapes the no-break space.
        0xa0 => "\\u00a0".into(),
        _ => char::from(byte).to_string(),
    };
    format!("invalid character '{shown}' {context}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn error(json: &str) -> String {
        read::<Value>(json.as_bytes()).unwrap_err()
    }

    #[test]
    fn invalid_json_returns_the_error_message_of_go() {
        for (json, message) in [
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
            assert_eq!(error(json), message, "{json}");
        }
        assert!(error(&"[".repeat(100_000)).starts_with("unexpected end"));
    }

    #[test]
    fn scanner_accepts_the_same_texts_as_serde_json() {
        let mut rng = fastrand::Rng::with_seed(7);
        let pieces = [
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"", "\\u00e9", "1", "-0.5e-7", "0", "true", "nul", " ",
            "x",
        ];
        let mut valid = 0;
        for _ in 0..20_000 {
            let text: String = (0..rng.usize(1..8)).map(|_| pieces[rng.usize(..pieces.len())]).collect();
            let accepted = serde_json::from_str::<Value>(&text).is_ok();
            assert_eq!(Scanner { json: text.as_bytes(), at: 0 }.document().is_ok(), accepted, "{text}");
            valid += usize::from(accepted);
        }
        assert!(valid > 100, "{valid}");
    }
}
