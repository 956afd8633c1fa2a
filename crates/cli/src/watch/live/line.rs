//! `Line`: a line of the screen with colours, and at most the width of the terminal.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::{
    output::printable,
    terminal::{Terminal, Tone},
};

/// A line of the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    parts: Vec<(Option<Tone>, String)>,
    width: usize,
}

impl Line {
    /// Creates a line with one part.
    pub(super) fn of(tone: impl Into<Option<Tone>>, text: &str, max: usize) -> Self {
        let mut line = Self::default();
        line.push(tone, text, max);
        line
    }

    /// Adds a text. Replaces characters that a terminal would execute. Shortens the text if the line would
    /// become wider than `max` cells.
    pub(super) fn push(&mut self, tone: impl Into<Option<Tone>>, text: &str, max: usize) {
        let text = fitted(&printable(text), max.saturating_sub(self.width));
        self.width += text.width();
        self.parts.push((tone.into(), text));
    }

    /// Adds a text in a column that is `width` cells wide, and two cells as the gap to the next column.
    pub(super) fn push_cell(&mut self, tone: impl Into<Option<Tone>>, text: &str, width: usize, max: usize) {
        let text = fitted(&printable(text), width);
        let gap = width.saturating_sub(text.width()) + 2;
        self.push(tone, &text, max);
        let gap = gap.min(max.saturating_sub(self.width));
        self.push(None, &" ".repeat(gap), max);
    }

    /// Returns the line with the escape sequences of its colours.
    pub(super) fn painted(&self, terminal: Terminal) -> String {
        let paint = |(tone, text): &(Option<Tone>, String)| match tone {
            Some(tone) => terminal.paint(*tone, text),
            None => text.clone(),
        };
        self.parts.iter().map(paint).collect()
    }

    /// Returns the text without colours and without trailing spaces.
    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        self.parts.iter().map(|(_, text)| text.as_str()).collect::<String>().trim_end().to_owned()
    }

    /// Returns the number of cells.
    #[cfg(test)]
    pub(super) fn width(&self) -> usize {
        self.width
    }
}

/// Returns the text with at most `max` cells. The last character of a shortened text is "…". A Chinese
/// character, for example, needs two cells.
fn fitted(text: &str, max: usize) -> String {
    if text.width() <= max {
        return text.to_owned();
    }
    let mut fitted = String::new();
    let mut width = 0;
    for c in text.chars() {
        width += c.width().unwrap_or_default();
        if width >= max {
            break;
        }
        fitted.push(c);
    }
    if max > 0 {
        fitted.push('…');
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::ColorChoice;

    #[test]
    fn text_is_shortened_by_cells() {
        assert_eq!(fitted("abcdef", 6), "abcdef");
        assert_eq!(fitted("abcdef", 5), "abcd…");
        assert_eq!(fitted("世界地", 5), "世界…");
        assert_eq!(fitted("世界地", 4), "世…");
        assert_eq!(fitted("ab", 0), "");
        assert_eq!(fitted("ab", 1), "…");
    }

    #[test]
    fn line_is_never_wider_than_terminal() {
        let mut line = Line::of(None, "ab", 8);
        line.push_cell(Tone::Good, "世界地", 4, 8);
        line.push(None, "rest", 8);
        assert_eq!((line.text().as_str(), line.width()), ("ab世…", 8));
    }

    #[test]
    fn control_characters_do_not_reach_terminal() {
        let mut line = Line::of(None, "\u{1b}[2J\u{9b}31m\u{202e}", 40);
        line.push_cell(Tone::Bad, "a\r\nb\u{7}", 10, 40);
        let painted = line.painted(Terminal::new(ColorChoice::Never));
        assert!(!painted.contains(|c: char| c.is_control() || c == '\u{202e}'), "{painted:?}");
    }
}
