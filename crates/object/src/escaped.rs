//! `Escaped`: displays text of a server without control characters.

use std::fmt::{self, Write};

/// Displays a text. Escapes characters that are not printable, for example the escape sequences of a
/// terminal: `\u{1b}`.
///
/// Names of objects appear in logs, errors and pages. A faulty or hostile server can send names that
/// kube-apiserver would reject.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                // `escape_debug` also escapes these printable characters.
                '\'' | '"' | '\\' => f.write_char(c)?,
                c => c.escape_debug().try_for_each(|c| f.write_char(c))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unprintable_characters_are_escaped() {
        for (text, shown) in [
            ("shop/web-0", "shop/web-0"),
            ("Zürich \"a\" 'b' \\", "Zürich \"a\" 'b' \\"),
            ("a\u{1b}[2J\n", "a\\u{1b}[2J\\n"),
            ("\u{202e}evil\u{0}", "\\u{202e}evil\\0"),
        ] {
            assert_eq!(Escaped(text).to_string(), shown);
        }
    }
}
