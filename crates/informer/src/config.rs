//! The settings of an informer, as plain data.

use std::{sync::Arc, time::Duration};

use kube_listwatch::{ListWatchError, ListerWatcher};
use kube_reflector::{ReflectorOptions, ServerVersions};

use crate::slots::Division;

pub(crate) type OnError = Arc<dyn Fn(&ListWatchError) + Send + Sync>;

/// Holds the source, the name and the settings of an informer.
pub(crate) struct InformerConfig<T> {
    pub(crate) source: Arc<dyn ListerWatcher<T>>,
    /// The name of the informer in errors and logs.
    pub(crate) name: String,
    pub(crate) settings: InformerSettings,
}

/// Holds the settings that a factory passes to all its informers.
#[derive(Clone)]
pub(crate) struct InformerSettings {
    /// The name of the cluster in logs.
    pub(crate) cluster: Option<Arc<str>>,
    pub(crate) reflector: ReflectorOptions,
    pub(crate) on_error: Option<OnError>,
    /// The resync period of all handlers that do not set a period.
    pub(crate) resync: Option<Duration>,
    /// The number of pending events of one handler from which events are coalesced.
    pub(crate) coalesce_threshold: usize,
    /// The maximum number of objects in the queue between the reflector and the store.
    pub(crate) queue_capacity: usize,
    /// All informers of a factory share these checks.
    pub(crate) server_versions: ServerVersions,
    /// The division into slots of a sharded informer. `None` for an informer of all objects.
    pub(crate) division: Option<Division>,
}

impl Default for InformerSettings {
    fn default() -> Self {
        Self {
            cluster: None,
            reflector: ReflectorOptions::default(),
            on_error: None,
            resync: None,
            coalesce_threshold: kube_delta_fifo::DEFAULT_COALESCE_THRESHOLD,
            queue_capacity: kube_delta_fifo::DEFAULT_CAPACITY,
            server_versions: ServerVersions::default(),
            division: None,
        }
    }
}
