//! Response bodies: objects in the requested representation, lists, and the frames of watches.

pub(crate) mod body;
mod chunks;
pub(crate) mod gzip;
pub(crate) mod object_encoder;
pub(crate) mod scale;
pub(crate) mod versions;
