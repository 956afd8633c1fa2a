//! `Terminal`: colours and the width of the output.

use std::io::{IsTerminal as _, stdout};

use anstyle::{AnsiColor, Style};

use crate::flags::ColorChoice;

/// The meaning of a coloured text. The text alone has the same meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// A positive result.
    Good,
    /// A result that needs attention.
    Warning,
    /// A negative result.
    Bad,
    /// A heading.
    Heading,
    /// A text of less importance.
    Muted,
}

/// Describes the output of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    has_colors: bool,
}

impl Terminal {
    /// Describes standard output.
    pub(crate) fn new(choice: ColorChoice) -> Self {
        let has_colors = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                let is_disabled = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                stdout().is_terminal() && !is_disabled
            }
        };
        Self { has_colors }
    }

    /// Returns the text with the colour of the tone.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if !self.has_colors {
            return text.to_owned();
        }
        let style = match tone {
            Tone::Good => Style::new().fg_color(Some(AnsiColor::Green.into())),
            Tone::Warning => Style::new().fg_color(Some(AnsiColor::Yellow.into())),
            Tone::Bad => Style::new().fg_color(Some(AnsiColor::Red.into())),
            Tone::Heading => Style::new().bold(),
            Tone::Muted => Style::new().dimmed(),
        };
        format!("{}{text}{}", style.render(), style.render_reset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_colors_is_unchanged() {
        assert_eq!(Terminal::new(ColorChoice::Never).paint(Tone::Bad, "a"), "a");
        assert!(Terminal::new(ColorChoice::Always).paint(Tone::Bad, "a").contains('\u{1b}'));
    }
}
