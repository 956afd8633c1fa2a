//! A `ListWatch` from two functions, like client-go's ListFunc and WatchFunc.

use std::{future::Future, sync::Arc};

use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture, stream, stream::BoxStream};
use kube_client::core::{ObjectList, Resource, WatchEvent as KubeWatchEvent};
use kube_object::{CacheProbe, Entry, Object, ObjectId, ResourceVersion};

use crate::{
    Decoded, ListEnd, ListPart, ListRequest, ListWatch, ListWatchError, Target, Verb, WatchEvent, WatchFrom,
    WatchRequest,
    event::deleted,
    retry_after::retry_after,
    transform::{self, Transform},
};

/// The number of items of a list part. It bounds the work of one poll, because a function can return a
/// page of any size.
const ITEMS_PER_PART: usize = 500;

/// Represents one page of a list. The list function of [`ListWatch::from_functions`] returns pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage<T> {
    /// The objects of the page.
    pub items: Vec<T>,
    /// The resourceVersion of the list.
    pub version: ResourceVersion,
    /// The continue token of the next page, or `None` on the last page.
    pub next: Option<String>,
}

impl<K: Resource + Clone> From<ObjectList<K>> for ListPage<K> {
    fn from(list: ObjectList<K>) -> Self {
        Self {
            items: list.items,
            version: ResourceVersion::new(list.metadata.resource_version.as_deref().unwrap_or_default()),
            next: list.metadata.continue_.filter(|token| !token.is_empty()),
        }
    }
}

type ListFn<T> = dyn Fn(ListRequest) -> BoxFuture<'static, Result<ListPage<T>, ListWatchError>> + Send + Sync;
type WatchFn<T> =
    dyn Fn(WatchRequest) -> BoxStream<'static, Result<WatchEvent<T>, ListWatchError>> + Send + Sync;

/// The two functions of a [`ListWatch`].
pub(crate) struct Functions<T> {
    list: Arc<ListFn<T>>,
    watch: Arc<WatchFn<T>>,
    transform: Option<Transform<T>>,
}

impl<T: Object> ListWatch<T> {
    /// Creates a source from two functions, for example two calls of a `kube_client::Api`.
    ///
    /// `list` returns the requested page, and `watch` returns the events after a resourceVersion. Create
    /// their errors with [`ListWatchError::list_function`] and [`ListWatchError::watch_function`]. These
    /// constructors keep a `kube_client::Error`, from which [`ListWatchError::class`] determines the
    /// class of the failure. Both functions must apply the selectors, because [`ListWatch::labels`],
    /// [`ListWatch::fields`] and [`ListWatch::options`] have no effect on this source.
    ///
    /// The resourceVersion of an object must change whenever its content changes, as on kube-apiserver.
    /// A list does not update a cached object with the same uid and resourceVersion, because the source
    /// has no JSON to compare. If the objects of your source have no resourceVersions, leave
    /// `metadata.resourceVersion` empty. A list then updates each cached object.
    pub fn from_functions<L, F, W, S>(list: L, watch: W) -> Self
    where
        L: Fn(ListRequest) -> F + Send + Sync + 'static,
        F: Future<Output = Result<ListPage<T>, ListWatchError>> + Send + 'static,
        W: Fn(WatchRequest) -> S + Send + Sync + 'static,
        S: Stream<Item = Result<WatchEvent<T>, ListWatchError>> + Send + 'static,
    {
        Self::from_parts(Functions {
            list: Arc::new(move |request| list(request).boxed()),
            watch: Arc::new(move |request| watch(request).boxed()),
            transform: None,
        })
    }
}

impl<T: 'static> Functions<T> {
    /// Adds a transform after the existing transforms.
    pub(crate) fn transform(&mut self, transform: Transform<T>) {
        self.transform = Some(match self.transform.take() {
            None => transform,
            Some(first) => Arc::new(move |object| first(object).and_then(|()| transform(object))),
        });
    }
}

impl<T: Object> Functions<T> {
    pub(crate) fn list(
        &self,
        request: ListRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<ListPart<T>, ListWatchError>> {
        let (list, transform) = (Arc::clone(&self.list), self.transform.clone());
        let parts = async move {
            match list(request).await {
                Ok(page) => stream::iter(parts(page, transform, known)).boxed(),
                Err(error) => stream::iter([Err(error)]).boxed(),
            }
        };
        parts.flatten_stream().boxed()
    }

    pub(crate) fn watch(
        &self,
        request: WatchRequest,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>> {
        let (watch, transform) = (Arc::clone(&self.watch), self.transform.clone());
        // The function does not report when the server accepts the request.
        let is_streaming_list = matches!(request.from, WatchFrom::InitialEvents(_));
        let opened = stream::iter(is_streaming_list.then(|| Ok(vec![WatchEvent::Opened])));
        let events = async move { watch(request) }.flatten_stream();
        let events = events.map(move |event| Ok(vec![transformed(event?, transform.as_ref())]));
        opened.chain(events).boxed()
    }
}

/// Returns a page as list parts. The items of a part are read when the part is requested.
fn parts<T: Object>(
    page: ListPage<T>,
    transform: Option<Transform<T>>,
    known: Arc<dyn CacheProbe<T>>,
) -> impl Iterator<Item = Result<ListPart<T>, ListWatchError>> {
    let ListPage { items, version, next } = page;
    let mut items = items.into_iter();
    let mut end = Some(ListEnd { version, next, remaining: None });
    std::iter::from_fn(move || {
        let part = items.by_ref().take(ITEMS_PER_PART);
        let items: Vec<_> = part.map(|item| listed(item, transform.as_ref(), &*known)).collect();
        if items.is_empty() {
            return end.take().map(|end| Ok(ListPart::End(end)));
        }
        Some(Ok(ListPart::Items { items, nameless: Vec::new() }))
    })
}

/// Returns the cached entry if the object is unchanged. The cached object is already transformed.
fn listed<T: Object>(
    mut object: T,
    transform: Option<&Transform<T>>,
    known: &dyn CacheProbe<T>,
) -> Decoded<T> {
    if let Some(entry) = known.find_unchanged(&object.id(), None) {
        return Decoded::Object(entry);
    }
    let id = ObjectId::from(object.id());
    match transform.map_or(Ok(()), |transform| transform::apply(transform, &mut object)) {
        Ok(()) => Decoded::Object(Entry::new(id, Arc::new(object))),
        Err(error) => Decoded::Undecodable { id, error },
    }
}

fn transformed<T>(event: WatchEvent<T>, transform: Option<&Transform<T>>) -> WatchEvent<T> {
    let Some(transform) = transform else { return event };
    let entry = |entry| transform::apply_to_entry(transform, entry);
    match event {
        WatchEvent::Added(Decoded::Object(added)) => WatchEvent::Added(entry(added)),
        WatchEvent::Modified(Decoded::Object(modified)) => WatchEvent::Modified(entry(modified)),
        WatchEvent::Deleted { last: Some(last), .. } => deleted(entry(last)),
        other => other,
    }
}

impl<K: Object> WatchEvent<K> {
    /// Converts an event of kube's watch.
    ///
    /// # Errors
    /// Returns [`ListWatchError::Status`] for an ERROR event.
    pub fn from_kube(event: KubeWatchEvent<K>) -> Result<Self, ListWatchError> {
        Ok(match event {
            KubeWatchEvent::Added(object) => WatchEvent::Added(Decoded::Object(Entry::from_object(object))),
            KubeWatchEvent::Modified(object) => {
                WatchEvent::Modified(Decoded::Object(Entry::from_object(object)))
            }
            KubeWatchEvent::Deleted(object) => {
                let last = Entry::from_object(object);
                WatchEvent::Deleted { id: last.id.clone(), last: Some(last) }
            }
            KubeWatchEvent::Bookmark(bookmark) => WatchEvent::Bookmark {
                version: ResourceVersion::new(&bookmark.metadata.resource_version),
                initial_events_end: bookmark
                    .metadata
                    .annotations
                    .get("k8s.io/initial-events-end")
                    .is_some_and(|value| value == "true"),
            },
            KubeWatchEvent::Error(status) => {
                let target = Target { verb: Verb::Watch, url: "(a watch function)".to_owned() };
                let retry_after = retry_after(&status);
                return Err(ListWatchError::status(target, status, retry_after));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ListAt, ListerWatcher};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_object::NoCache;

    #[tokio::test]
    async fn page_of_any_size_becomes_bounded_parts() {
        let page = || ListPage { items: vec![ConfigMap::default(); 1200], version: 9.into(), next: None };
        let list = move |_| async move { Ok(page()) };
        let source =
            ListWatch::from_functions(list, |_| stream::pending::<Result<WatchEvent<ConfigMap>, _>>());
        let request = ListRequest { at: ListAt::Consistent, limit: None };
        let parts: Vec<_> = source.list(request, Arc::new(NoCache)).collect().await;
        let sizes = parts.into_iter().map(|part| match part.unwrap() {
            ListPart::Items { items, .. } => Some(items.len()),
            ListPart::OtherSlots { .. } | ListPart::End(_) => None,
        });
        assert_eq!(sizes.collect::<Vec<_>>(), [Some(500), Some(500), Some(200), None]);
    }
}
