//! `Escaped`: displays text of a server without control characters.

use std::fmt::{self, Write};

/// Displays a value, and escapes the characters that are not printable.
///
/// Texts of a server appear in logs, errors and pages, for example names, versions and messages. A
/// faulty or hostile server can send texts that kube-apiserver would reject. The escaped characters are
/// control characters, line separators, and invisible characters that change the direction of text.
/// Without this escaping, a text could forge a log line or send commands to a terminal.
///
/// The `Display` implementations of this workspace use this type for each text of a server. An
/// escaped text does not change if it is escaped again.
///
/// ```
/// use kube_object::Escaped;
/// assert_eq!(Escaped("a\u{1b}[2J\n").to_string(), r"a\u{1b}[2J\n");
/// assert_eq!(Escaped("it's \"fine\"").to_string(), "it's \"fine\"");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Escaped<T>(pub T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

/// Escapes the text that is written to a formatter.
struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return self.0.write_str(text);
        }
        text.chars().try_for_each(|c| match c {
            // `escape_debug` also escapes these printable characters.
            '\'' | '"' | '\\' => self.0.write_char(c),
            c => c.escape_debug().try_for_each(|c| self.0.write_char(c)),
        })
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
            ("\u{2028}\u{2029}\u{85}\u{2066}", "\\u{2028}\\u{2029}\\u{85}\\u{2066}"),
        ] {
            assert_eq!(Escaped(text).to_string(), shown);
            assert_eq!(Escaped(Escaped(text)).to_string(), shown, "escaped twice");
        }
    }
}
