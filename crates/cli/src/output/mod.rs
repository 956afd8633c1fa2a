//! The forms of the output: tables for people, documents for programs.

mod format;
mod table;
mod text;

pub(crate) use format::{Format, note, print_document, print_text};
pub(crate) use table::{Align, Table};
pub(crate) use text::{age, bytes, counted, printable, shortened};
