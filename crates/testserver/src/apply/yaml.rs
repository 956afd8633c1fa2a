//! YAML as the real server reads it: the forms of YAML 1.1 for booleans, and of a repeated key the last.

use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

/// Reads one document; an empty one is null.
///
/// # Errors
/// Why it can't be read, in one line.
pub(crate) fn parse(text: &[u8]) -> Result<Value, String> {
    read(text, DuplicateKeyPolicy::LastWins)
}

/// As [`parse`], but a key may stand only once in a map.
pub(crate) fn parse_strictly(text: &[u8]) -> Result<Value, String> {
    read(text, DuplicateKeyPolicy::Error)
}

fn read(text: &[u8], duplicate_keys: DuplicateKeyPolicy) -> Result<Value, String> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Null);
    }
    let options = serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        with_snippet: false,
    };
    serde_saphyr::from_slice_with_options(text, options).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_are_read_with_their_types() {
        let text = b"# a comment\na: 1\nb: [x, 'y', yes]\nc: {d: null, e: 1.5}\nf: |\n  two\n  lines\n";
        let value = json!({"a": 1, "b": ["x", "y", true], "c": {"d": null, "e": 1.5}, "f": "two\nlines\n"});
        assert_eq!(parse(text).unwrap(), value);
        assert_eq!(parse(b" \n").unwrap(), Value::Null);
    }

    #[test]
    fn broken_and_repeated_is_refused() {
        assert!(parse(b"{a: 1").is_err());
        assert_eq!(parse(b"a: 1\na: 2\n").unwrap(), json!({"a": 2}));
        assert!(parse_strictly(b"a: 1\na: 2\n").is_err());
    }

    #[test]
    fn a_bomb_of_aliases_is_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for n in 1..12 {
            let of = format!("*a{}", n - 1);
            text += &format!("a{n}: &a{n} [{}]\n", vec![of; 9].join(", "));
        }
        assert!(parse(text.as_bytes()).is_err());
    }
}
