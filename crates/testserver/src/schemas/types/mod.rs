//! The types of built-in kinds: their fields, and how an object from a client is decoded.

mod bytes;
mod empty;
mod facts;
pub(crate) mod merging;
mod metadata;
pub(crate) mod quantity;
mod read;
mod table;
mod typed;

pub(crate) use empty::{absent, nothing};
pub(crate) use metadata::{read_metadata, take_metadata, use_integer};
pub(crate) use read::read;
pub(crate) use table::{Base, Empty, Field, Form, Message, Shape, Types};
pub(crate) use typed::{ExpectedValue, Typed};
