//! `ListerWatcher`: the trait of a source of objects.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use kube_object::CacheProbe;

use crate::{ListOptions, ListPart, ListRequest, ListWatchError, WatchEvent, WatchRequest};

/// Lists and watches objects, like client-go's `ListerWatcher`.
///
/// Both streams are lazy: the first poll sends the request. A failed request is the first item. Dropping
/// a stream ends the request. A stream ends after an error.
///
/// An implementation must not retry or block. The reflector decides on retries.
pub trait ListerWatcher<T>: Send + Sync + 'static {
    /// Returns the parts of one page while the response arrives. [`ListPart::End`] is the last item.
    ///
    /// If `known` contains an object unchanged, the cached entry is returned and the object is not
    /// decoded.
    fn list(
        &self,
        request: ListRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<ListPart<T>, ListWatchError>>;

    /// Returns the events of a watch. Each item contains the available events, and is never empty.
    ///
    /// The first event is [`WatchEvent::Opened`], when the server has accepted the request. Until then,
    /// the request can wait in a queue of the server. If a source does not send this event, the first
    /// other event counts as the start of a streaming list, and the reflector never checks whether the
    /// server was restored.
    fn watch(
        &self,
        request: WatchRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>>;

    /// Returns whether this source supports [`InitialEvents`](crate::WatchFrom::InitialEvents).
    ///
    /// Return `false` if the source cannot send the bookmark after the initial events. The reflector
    /// then requests only lists.
    fn streams_lists(&self) -> bool {
        true
    }

    /// Returns the namespace and selectors of this source, or `None` if they are unknown.
    fn coverage(&self) -> Option<Coverage> {
        None
    }

    /// Returns the path of the resource, without a query, for error messages. The default is the name of
    /// the type.
    fn path(&self) -> String {
        std::any::type_name::<Self>().to_owned()
    }
}

/// Describes which objects of a resource a source lists and watches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The namespace, or `None` for all namespaces and for cluster-scoped resources.
    pub namespace: Option<String>,
    /// The selectors and parameters.
    pub options: ListOptions,
}
