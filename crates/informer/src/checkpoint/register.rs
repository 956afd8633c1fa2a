//! Registers a handler with a checkpoint: locks and reads its file.

use std::sync::Arc;

use futures_util::FutureExt;
use kube_listwatch::ListerWatcher;
use kube_object::{DigestSeed, Escaped, Object};
use tokio::sync::watch;

use super::{
    Checkpoint, CheckpointHandler,
    format::{Decoded, decode},
    identity::Identity,
    journal::CheckpointWriter,
    known_objects::KnownObjects,
    storage::Storage,
    task::{CheckpointTask, Saved},
};
use crate::{
    HandlerRegistration, Informer,
    files::{StorageError, file_name, is_secrets},
    handlers::LagPolicy,
};

const MAX_NAME_BYTES: usize = 100;

/// Reports that a handler with a checkpoint was not registered. A problem with the files of a checkpoint
/// never causes this error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The informer was started or stopped before. Its list can then not be compared with the checkpoint.
    #[error(
        "cannot register handler {name} with a checkpoint: the informer is already started; register the handler before the start"
    )]
    AlreadyStarted {
        /// The name of the handler.
        name: String,
    },
    /// The informer caches Secrets. If the contents of a Secret have few possible values, a reader of the
    /// file could find the value whose hash is in the file.
    #[error(
        "cannot register handler {name} with a checkpoint: a checkpoint must not contain hashes of Secrets; use add_handler"
    )]
    Secrets {
        /// The name of the handler.
        name: String,
    },
    /// The informer caches only the objects of some slots. After a restart it may have other slots, and the
    /// handler could not distinguish lost objects from deleted ones.
    #[error("cannot register handler {name} with a checkpoint: the informer is sharded; use add_handler")]
    Sharded {
        /// The name of the handler.
        name: String,
    },
    /// The name cannot be a part of the name of a file.
    #[error(
        "cannot register a handler with a checkpoint: its name {name:?} must have 1 to {MAX_NAME_BYTES} letters, digits, hyphens and underscores"
    )]
    Name {
        /// The name of the handler.
        name: String,
    },
}

impl<T: Object> Informer<T> {
    /// Registers a handler that continues where the handler of an earlier process stopped.
    ///
    /// The informer stores in a file which state of each object the handler has finished. After a restart,
    /// the informer lists all objects as usual, but the handler receives only the changes: new, changed and
    /// deleted objects. See [`CheckpointHandler`] for the calls.
    ///
    /// `name` identifies the handler in the folder of the checkpoint, in logs and in the status of the
    /// informer. It must be unique among the handlers of a resource in this folder.
    ///
    /// If the file is missing, damaged, locked, or belongs to something else, the handler starts cold. The
    /// handler then receives all objects as adds. The log contains the reason. The same happens if the server
    /// was restored to a state that is older than the file. A full disk or a read-only folder never stops the
    /// handler. After the next restart, the handler then starts cold, or calls are repeated.
    ///
    /// Register the handler before the informer starts. The method reads the file, so it blocks the thread
    /// for a short time. Before the first call for an object, the handler waits until its key is in the
    /// file. The cache and other handlers do not wait.
    ///
    /// With a source that is not a [`ListWatch`](crate::ListWatch) of an `Api`, the states of two processes
    /// cannot be compared. The handler then receives `on_missed_update` for each object that still exists.
    ///
    /// # Errors
    /// Returns an error if the informer was started before, if it caches Secrets, if it is sharded, or if the
    /// name is empty, is too long, or contains other characters than ASCII letters, digits, hyphens and
    /// underscores.
    pub fn add_handler_with_checkpoint(
        &self,
        name: &str,
        checkpoint: &Checkpoint,
        handler: impl CheckpointHandler<T>,
    ) -> Result<HandlerRegistration<T>, CheckpointError> {
        let source = &*self.shared.config.source;
        check_name(name)?;
        if is_secrets(&source.path()) {
            return Err(CheckpointError::Secrets { name: name.to_owned() });
        }
        if self.shared.slots.is_some() {
            return Err(CheckpointError::Sharded { name: name.to_owned() });
        }
        let identity = identity(source, name, checkpoint);
        let (storage, decoded) = open(checkpoint, &identity, name);
        let Some(lists) = self.shared.observe_lists() else {
            return Err(CheckpointError::AlreadyStarted { name: name.to_owned() });
        };
        let saved_seed = decoded.as_ref().and_then(|decoded| decoded.header.seed);
        let seed = source.decode_context().map(|context| {
            context
                .digest_seed
                .get_or_init(|| saved_seed.map_or_else(DigestSeed::random, DigestSeed::new))
                .get()
        });
        let saved = decoded.map(|decoded| Saved {
            version: decoded.header.version.clone(),
            len: decoded.valid_len,
            known: KnownObjects::of_checkpoint(decoded, seed.is_some() && seed == saved_seed),
        });
        let jitter = self.shared.config.settings.reflector.seed;
        let writer = CheckpointWriter::new(storage, identity, seed, checkpoint, jitter);
        let task = CheckpointTask { shared: Arc::downgrade(&self.shared), lists, saved, writer };
        let (running, ended) = watch::channel(());
        let resync = self.default_resync();
        let registration = self.subscribe_task(LagPolicy::Coalesce, ended, |mailbox| {
            async move {
                task.run(mailbox, handler, resync).await;
                drop(running);
            }
            .boxed()
        });
        Ok(registration.named(name))
    }
}

fn check_name(name: &str) -> Result<(), CheckpointError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(CheckpointError::Name { name: name.to_owned() })
}

fn identity<T: Object>(source: &dyn ListerWatcher<T>, name: &str, checkpoint: &Checkpoint) -> Identity {
    let options = source.coverage().unwrap_or_default().options;
    Identity {
        cluster: checkpoint.cluster.as_str().to_owned(),
        path: source.path(),
        selection: format!(
            "{:?} {:?} {:?}",
            options.label_selector, options.field_selector, options.parameters
        ),
        object_type: std::any::type_name::<T>().to_owned(),
        handler: name.to_owned(),
        handler_version: checkpoint.handler_version.clone(),
    }
}

/// Locks and reads the checkpoint. Logs the reason if it cannot be used.
fn open(checkpoint: &Checkpoint, identity: &Identity, name: &str) -> (Option<Storage>, Option<Decoded>) {
    let folder = Escaped(checkpoint.folder.to_string_lossy());
    let texts = [identity.path.as_str(), &identity.selection, &identity.object_type];
    let storage = match Storage::lock(
        &checkpoint.folder,
        &file_name(&identity.handler, &texts),
        checkpoint.max_bytes,
    ) {
        Ok(storage) => storage,
        Err(reason) => {
            tracing::warn!(handler = name, %folder, %reason, "checkpoint is not used and not written; the handler starts cold");
            return (None, None);
        }
    };
    let file = Escaped(storage.path().to_string_lossy().into_owned());
    match read(&storage, identity) {
        Ok(Some(decoded)) => return (Some(storage), Some(decoded)),
        Ok(None) => tracing::info!(handler = name, %file, "no checkpoint exists; the handler starts cold"),
        Err(reason) => {
            tracing::warn!(handler = name, %file, reason, "checkpoint is not used; the handler starts cold");
        }
    }
    (Some(storage), None)
}

fn read(storage: &Storage, identity: &Identity) -> Result<Option<Decoded>, String> {
    let read = storage.read().map_err(|error: StorageError| error.to_string())?;
    let Some(bytes) = read else { return Ok(None) };
    let decoded = decode(&bytes).map_err(|unusable| unusable.to_string())?;
    match identity.difference(&decoded.header.identity) {
        None => Ok(Some(decoded)),
        Some((field, saved)) => Err(format!("the saved {field} differs: {}", Escaped(saved))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_safe_in_a_path() {
        assert!(check_name("audit-log_2").is_ok());
        for name in ["", "a/b", "..", "a.b", "ä", &"x".repeat(101)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
