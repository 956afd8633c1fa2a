//! LIST and WATCH: selection, pagination, and watches that follow the log.

pub(crate) mod conversion;
pub(crate) mod list;
pub(crate) mod options;
pub(crate) mod shard;
pub(crate) mod token;
pub(crate) mod watch;
