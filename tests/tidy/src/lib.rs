//! Checks of the project's own files that a program runs, too: see the `prose` program.

pub mod prose;
