//! `Table`: columns as in kubectl.

use comfy_table::{Cell, CellAlignment, presets};

use super::text::printable;

/// The side of a column at which its values end or start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// For texts.
    Left,
    /// For numbers.
    Right,
}

/// A table without lines: columns have a heading, and are separated by spaces.
#[derive(Debug)]
pub(crate) struct Table {
    table: comfy_table::Table,
    columns: Vec<Align>,
}

impl Table {
    /// Creates a table with these columns.
    pub(crate) fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Align)>) -> Self {
        let (headings, columns): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(headings.iter().zip(&columns).map(|(heading, align)| cell(heading, *align)));
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self { table, columns }
    }

    /// Adds a row. Control characters in the texts are replaced.
    pub(crate) fn row<T: AsRef<str>>(&mut self, texts: impl IntoIterator<Item = T>) {
        let cells = texts.into_iter().zip(&self.columns).map(|(text, align)| cell(text.as_ref(), *align));
        self.table.add_row(cells.collect::<Vec<_>>());
    }

    /// Returns the lines of the table, without trailing spaces.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.table.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Returns the table as a text. Each line ends with a line break.
    pub(crate) fn text(&self) -> String {
        self.lines().iter().flat_map(|line| [line, "\n"]).collect()
    }
}

fn cell(text: &str, align: Align) -> Cell {
    let align = match align {
        Align::Left => CellAlignment::Left,
        Align::Right => CellAlignment::Right,
    };
    Cell::new(printable(text)).set_alignment(align)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new([("NAME", Align::Left), ("SIZE", Align::Right), ("NOTE", Align::Left)]);
        table.row(["a", "1", ""]);
        table.row(["long-name", "1234", "x\ny"]);
        let expected = ["NAME       SIZE  NOTE", "a             1", "long-name  1234  x\u{fffd}y"];
        assert_eq!(table.lines(), expected);
    }
}
