//! LIST and WATCH: what is selected, where a page ends, how a watch follows the log.

pub(crate) mod list;
pub(crate) mod open_watches;
pub(crate) mod quirk;
pub(crate) mod selector;
pub(crate) mod shard;
pub(crate) mod token;
pub(crate) mod watch;
