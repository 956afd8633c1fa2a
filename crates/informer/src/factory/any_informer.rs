//! `AnyInformer`: an informer of a factory, without the type of its objects.

use std::{sync::Arc, time::Duration};

use kube_object::{ObjectMemory, ResourceVersion, Shard, SlotSet};
use tokio::sync::watch;

use super::erased_informer::{AnyWeakInformer, ErasedInformer};
use crate::{InformerId, InformerStatus, SlotsError, WaitForLatestError};

/// Refers to an informer of any object type.
/// [`InformerFactory::informers`](crate::InformerFactory::informers) returns the informers of a factory.
/// Clones refer to the same informer, and keep it alive.
#[derive(Clone)]
pub struct AnyInformer {
    pub(super) informer: Arc<dyn ErasedInformer>,
    pub(super) is_adopted: bool,
}

impl AnyInformer {
    /// Returns the id of the informer.
    pub fn id(&self) -> InformerId {
        self.informer.id()
    }

    /// Returns the current status of the informer and of its handlers.
    pub fn status(&self) -> InformerStatus {
        InformerStatus { adopted: self.is_adopted, ..self.informer.status() }
    }

    /// Counts the memory of the cached objects. See [`Informer::memory`](crate::Informer::memory).
    pub fn memory(&self) -> ObjectMemory {
        self.informer.memory()
    }

    /// Returns whether the informer was added to the factory with
    /// [`InformerFactory::adopt`](crate::InformerFactory::adopt). It can belong to another cluster.
    pub fn is_adopted(&self) -> bool {
        self.is_adopted
    }

    /// Returns a reference that does not keep the informer alive.
    pub fn downgrade(&self) -> WeakAnyInformer {
        WeakAnyInformer { informer: self.informer.downgrade(), is_adopted: self.is_adopted }
    }

    /// Returns whether the informer is stopped.
    pub fn is_stopped(&self) -> bool {
        self.informer.is_stopped()
    }

    /// Returns the requested slots. See [`Informer::shard`](crate::Informer::shard).
    pub fn shard(&self) -> Option<Shard> {
        self.informer.shard()
    }

    /// Sets the slots whose objects the informer caches. See
    /// [`Informer::set_slots`](crate::Informer::set_slots).
    ///
    /// # Errors
    /// Returns a [`SlotsError`] if the informer is not sharded, or if a slot does not exist.
    pub fn set_slots(&self, slots: SlotSet) -> Result<(), SlotsError> {
        self.informer.set_slots(slots)
    }

    /// Returns a watch channel of the slots in the cache. See
    /// [`Informer::filled_slots`](crate::Informer::filled_slots).
    ///
    /// # Errors
    /// Returns [`SlotsError::NotSharded`] if the informer is not sharded.
    pub fn filled_slots(&self) -> Result<watch::Receiver<SlotSet>, SlotsError> {
        self.informer.filled_slots()
    }

    /// Waits until the cache contains every write that the server has accepted before this call. See
    /// [`Informer::wait_for_latest`](crate::Informer::wait_for_latest). Returns the resourceVersion that the
    /// server had after the call, or `None` if a sharded informer has no slot.
    ///
    /// # Errors
    /// Returns a [`WaitForLatestError`] if the cache is not known to contain these writes within the timeout.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn wait_for_latest(
        &self,
        within: Duration,
    ) -> Result<Option<ResourceVersion>, WaitForLatestError> {
        self.informer.wait_for_latest(within).await
    }

    /// Waits until the cache contains every change up to this resourceVersion. Never returns if the informer
    /// stops before.
    ///
    /// The cache can have a lower resourceVersion although it lacks no change, until the next event or
    /// bookmark. Therefore use this method with a timeout, and with the version of an object of this type.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn wait_for_version(&self, version: &ResourceVersion) {
        self.informer.wait_for_version(version).await;
    }
}

/// Refers to an informer of any object type without keeping it alive.
#[derive(Clone)]
pub struct WeakAnyInformer {
    informer: Arc<dyn AnyWeakInformer>,
    is_adopted: bool,
}

impl WeakAnyInformer {
    /// Returns the informer. Returns `None` if it was dropped.
    pub fn upgrade(&self) -> Option<AnyInformer> {
        Some(AnyInformer { informer: self.informer.informer()?, is_adopted: self.is_adopted })
    }
}
