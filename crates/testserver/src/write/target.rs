//! The target and the response of a write.

use std::sync::Arc;

use bytes::Bytes;

use crate::encoding::object_encoder::ObjectEncoder;
use crate::schemas::kinds::kind::Kind;
use crate::state::{Served, State};
use crate::status::Status;
use crate::storage::entry::Entry;
use crate::storage::log::key;

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub served: Served,
    pub namespace: Option<String>,
    pub name: String,
}

impl Target {
    pub(crate) fn kind(&self) -> &Kind {
        &self.served.kind
    }

    /// Returns the target with the current definition of its resource.
    ///
    /// # Errors
    /// Returns 404 like [`State::current`].
    pub(crate) fn current(&self, state: &State) -> Result<Self, Status> {
        Ok(Self { served: state.current(&self.served)?, ..self.clone() })
    }

    pub(crate) fn key(&self) -> Arc<str> {
        key(self.namespace.as_deref(), &self.name)
    }

    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(self.kind().named(), &self.name)
    }
}

/// The response to a write: the current object or, for a dry run, the object as it would be.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    Created(Arc<Entry>),
    Updated(Arc<Entry>),
}

impl Written {
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Created(_) => 201,
            Self::Updated(_) => 200,
        }
    }

    pub(crate) fn entry(&self) -> &Arc<Entry> {
        match self {
            Self::Created(entry) | Self::Updated(entry) => entry,
        }
    }

    pub(crate) fn bytes(&self, encoder: &ObjectEncoder) -> Bytes {
        encoder.object(self.entry())
    }
}
