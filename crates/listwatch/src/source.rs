//! `ListerWatcher`: the trait of a source of objects.

use std::sync::Arc;

use futures_util::{TryStreamExt, stream::BoxStream};
use kube_object::{CacheProbe, DecodeContext, NoCache, ResourceVersion, Shard};

use crate::{ListAt, ListOptions, ListPart, ListRequest, ListWatchError, WatchEvent, WatchRequest};

/// Lists and watches objects, like client-go's `ListerWatcher`.
///
/// Both methods return lazy streams: the first poll sends the request. If the request fails, the first
/// item is the error. A stream ends after an error. Dropping a stream cancels its request.
///
/// An implementation must not retry or block. The reflector decides on retries.
pub trait ListerWatcher<T>: Send + Sync + 'static {
    /// Returns the parts of one page while the response arrives. [`ListPart::End`] is the last item.
    ///
    /// If `known` finds a listed object unchanged in the cache, the stream returns the cached entry and
    /// does not decode the object.
    fn list(
        &self,
        request: ListRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<ListPart<T>, ListWatchError>>;

    /// Returns the events of a watch. Each item contains the available events, and is never empty.
    ///
    /// The first event is [`WatchEvent::Opened`]. Send `Opened` only after the server has accepted the
    /// request, because a request can wait in a queue of the server. If a source does not send `Opened`,
    /// the reflector does not check whether the server was restored to an older state. The reflector
    /// then regards a streaming list as started when the first other event arrives.
    fn watch(
        &self,
        request: WatchRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>>;

    /// Returns a source of only the objects of this shard, which shares the connections of this source.
    /// The program must not send requests for a shard without slots.
    ///
    /// The default returns `None`. The caller then uses this source, and removes the other objects itself.
    fn for_shard(&self, _shard: &Shard) -> Option<Arc<dyn ListerWatcher<T>>> {
        None
    }

    /// Returns whether this source supports [`InitialEvents`](crate::WatchFrom::InitialEvents).
    ///
    /// Return `false` if the source cannot send the bookmark after the initial events. The reflector
    /// then does not request streaming lists.
    fn streams_lists(&self) -> bool {
        true
    }

    /// Returns the namespace and selectors of this source, or `None` if they are unknown.
    fn coverage(&self) -> Option<Coverage> {
        None
    }

    /// Returns how this source decodes the JSON of the server, and the place of the seed of its digests.
    /// Returns `None` if the digests of two processes cannot be compared.
    fn decode_context(&self) -> Option<&DecodeContext> {
        None
    }

    /// Returns the path of the resource, without a query, for error messages. The default is the name of
    /// the Rust type of the source.
    fn path(&self) -> String {
        std::any::type_name::<Self>().to_owned()
    }
}

/// Describes the objects of a resource that a source lists and watches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The namespace, or `None` for all namespaces and for cluster-scoped resources.
    pub namespace: Option<String>,
    /// The selectors and further query parameters.
    pub options: ListOptions,
}

/// Requests one object of the most recent state, and returns the resourceVersion of the list. Every write
/// that the server accepted before the request has this resourceVersion or a lower one.
///
/// Returns `None` if the source does not complete the list.
///
/// # Errors
/// Returns the error of the list.
///
/// # Cancel safety
/// If you drop the future, the request is cancelled. No state changes.
pub async fn current_version<T: Send + Sync + 'static>(
    source: &dyn ListerWatcher<T>,
) -> Result<Option<ResourceVersion>, ListWatchError> {
    let request = ListRequest { at: ListAt::Consistent, limit: Some(1) };
    let mut parts = source.list(request, Arc::new(NoCache));
    while let Some(part) = parts.try_next().await? {
        if let ListPart::End(end) = part {
            return Ok(Some(end.version));
        }
    }
    Ok(None)
}
