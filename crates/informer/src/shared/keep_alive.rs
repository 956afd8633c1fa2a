//! `KeepAlive`: stops an informer when its last reference is dropped.

use tokio_util::sync::CancellationToken;

use crate::{factory::FactoryLink, tasks::InformerTasks};

/// Keeps the informer running. Dropping the last reference stops the informer.
pub(crate) struct KeepAlive {
    pub(super) stopping: CancellationToken,
    pub(super) tasks: InformerTasks,
    factory: Option<FactoryLink>,
}

impl KeepAlive {
    pub(crate) fn new(factory: Option<FactoryLink>) -> Self {
        let tasks = InformerTasks::new(factory.as_ref().map(FactoryLink::tasks));
        Self { stopping: CancellationToken::new(), tasks, factory }
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.stopping.cancel();
        self.tasks.close();
        if let Some(factory) = &self.factory {
            factory.informer_dropped();
        }
    }
}
