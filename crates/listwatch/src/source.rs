//! `ListerWatcher`: anything that can be listed and watched.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use kube_object::CacheProbe;

use crate::{ListOptions, ListPart, ListRequest, ListWatchError, WatchEvent, WatchRequest};

/// A source of objects: client-go's interface of the same name.
///
/// Both streams are lazy: nothing is sent before the first poll, and a request that could not
/// be made is the first item. Dropping a stream ends the request. After an error a stream ends.
///
/// An implementation never retries and never blocks; the reflector decides what follows an error.
pub trait ListerWatcher<T>: Send + Sync + 'static {
    /// One page of the list, as its bytes arrive; [`ListPart::End`] is the last item.
    ///
    /// What `known` holds at the same version is handed back instead of being decoded.
    fn list(
        &self,
        request: ListRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<ListPart<T>, ListWatchError>>;

    /// The events after a version: each item is everything that one read gave, never empty.
    fn watch(
        &self,
        request: WatchRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>>;

    /// Whether a watch from [`InitialEvents`](crate::WatchFrom::InitialEvents) is worth a try. A source that can't send the
    /// bookmark at its end says no, and is asked for lists.
    fn streams_lists(&self) -> bool {
        true
    }

    /// What this source covers; `None` where it can't say.
    fn coverage(&self) -> Option<Coverage> {
        None
    }

    /// Where this source asks, for errors of those who wait for it: a path without a query. A source
    /// that has none goes by the name of its type.
    fn path(&self) -> String {
        std::any::type_name::<Self>().to_owned()
    }
}

/// Which objects of a resource a source lists and watches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Those of this namespace; `None` for all, and for cluster-scoped resources.
    pub namespace: Option<String>,
    /// Of them, those that these options leave over.
    pub options: ListOptions,
}
