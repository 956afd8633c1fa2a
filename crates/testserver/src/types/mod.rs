//! The types of built-in kinds: their fields, and how an object that a client sent becomes one of its kind.

mod bytes;
pub(crate) mod quantity;
mod read;
mod table;
mod typed;

pub(crate) use read::{absent, read};
pub(crate) use table::{Base, Empty, Field, Form, Message, Shape, Types};
pub(crate) use typed::{Typed, Wanted};
