//! Checks of the project's own files that the program `prose` also uses.

pub mod prose;
