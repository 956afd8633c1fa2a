//! `ErasedInformer`: the operations of a factory on an informer of any object type.

use std::{any::Any, future::Future, pin::Pin, sync::Arc, time::Duration};

use kube_object::{Object, ObjectMemory, ResourceVersion, Shard, SlotSet};
use tokio::sync::watch;

use crate::{
    Informer, InformerId, InformerStatus, SlotsError, UnsyncedInformer, WaitForLatestError,
    informer::WeakInformer, tasks::InformerTasks,
};

type BoxFuture<'a, O> = Pin<Box<dyn Future<Output = O> + Send + 'a>>;

/// The operations of a factory on an informer of any object type.
pub(super) trait ErasedInformer: Send + Sync {
    fn id(&self) -> InformerId;
    fn start(&self);
    fn refuse_index_function(&self);
    /// Stops the informer without waiting for its tasks.
    fn begin_stop(&self);
    fn tasks(&self) -> InformerTasks;
    fn is_stopped(&self) -> bool;
    fn wait_for_sync(&self, timeout: Duration) -> BoxFuture<'_, Option<UnsyncedInformer>>;
    fn unsynced(&self) -> Option<UnsyncedInformer>;
    fn wait_for_latest(
        &self,
        within: Duration,
    ) -> BoxFuture<'_, Result<Option<ResourceVersion>, WaitForLatestError>>;
    fn downgrade(&self) -> Arc<dyn AnyWeakInformer>;
    fn wait_for_version<'a>(&'a self, version: &'a ResourceVersion) -> BoxFuture<'a, ()>;
    fn shard(&self) -> Option<Shard>;
    fn set_slots(&self, slots: SlotSet) -> Result<(), SlotsError>;
    fn filled_slots(&self) -> Result<watch::Receiver<SlotSet>, SlotsError>;
    fn status(&self) -> InformerStatus;
    fn memory(&self) -> ObjectMemory;
    fn as_any(&self) -> &dyn Any;
}

/// Refers to an informer of any object type without keeping it alive.
pub(super) trait AnyWeakInformer: Send + Sync {
    fn informer(&self) -> Option<Arc<dyn ErasedInformer>>;
    fn is_dropped(&self) -> bool;
}

impl<T: Object> AnyWeakInformer for WeakInformer<T> {
    fn informer(&self) -> Option<Arc<dyn ErasedInformer>> {
        Some(Arc::new(self.upgrade()?))
    }

    fn is_dropped(&self) -> bool {
        WeakInformer::is_dropped(self)
    }
}

impl<T: Object> ErasedInformer for Informer<T> {
    fn id(&self) -> InformerId {
        Informer::id(self)
    }

    fn start(&self) {
        Informer::start(self);
    }

    fn refuse_index_function(&self) {
        self.shared.store.refuse_index_function();
    }

    fn begin_stop(&self) {
        self.shared.stop();
    }

    fn tasks(&self) -> InformerTasks {
        self.shared.tasks.clone()
    }

    fn is_stopped(&self) -> bool {
        Informer::is_stopped(self)
    }

    fn wait_for_sync(&self, timeout: Duration) -> BoxFuture<'_, Option<UnsyncedInformer>> {
        Box::pin(async move { Informer::wait_for_sync(self, timeout).await.err().map(|_| self.unsynced()) })
    }

    fn wait_for_latest(
        &self,
        within: Duration,
    ) -> BoxFuture<'_, Result<Option<ResourceVersion>, WaitForLatestError>> {
        Box::pin(self.wait_for_latest_version(within))
    }

    fn downgrade(&self) -> Arc<dyn AnyWeakInformer> {
        Arc::new(Informer::downgrade(self))
    }

    fn wait_for_version<'a>(&'a self, version: &'a ResourceVersion) -> BoxFuture<'a, ()> {
        Box::pin(self.wait_until_reached(version))
    }

    fn shard(&self) -> Option<Shard> {
        Informer::shard(self)
    }

    fn set_slots(&self, slots: SlotSet) -> Result<(), SlotsError> {
        Informer::set_slots(self, slots)
    }

    fn filled_slots(&self) -> Result<watch::Receiver<SlotSet>, SlotsError> {
        Informer::filled_slots(self)
    }

    fn unsynced(&self) -> Option<UnsyncedInformer> {
        (!self.has_synced()).then(|| Informer::unsynced(self))
    }

    fn status(&self) -> InformerStatus {
        Informer::status(self)
    }

    fn memory(&self) -> ObjectMemory {
        Informer::memory(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
