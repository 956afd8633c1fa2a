//! Tests the removal of dropped informers.

use futures_util::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_listwatch::{ListRequest, ListWatch, WatchRequest};

use super::*;

/// Another thread can drop the last reference to an informer while the registry is locked. The drop does not
/// wait for the lock, so the holder of the lock must remove the slot.
#[test]
fn informer_dropped_during_lock_leaves_no_slot() {
    let registry = Arc::new(Registry::default());
    let key = InformerKey {
        cached: TypeId::of::<ConfigMap>(),
        kind_and_path: "ConfigMap".to_owned(),
        labels: None,
        fields: None,
        slots: SelectedSlots::All,
    };
    let list = |_: ListRequest| std::future::pending();
    let watch = |_: WatchRequest| stream::pending();
    let build = |link| {
        let mut builder = Informer::from_source(ListWatch::<ConfigMap>::from_functions(list, watch));
        builder.factory = Some(link);
        builder.build()
    };
    let informer = Registry::get_or_insert(&registry, &key, Ownership::Users, build).unwrap();
    assert_eq!(registry.informers.lock().len(), 1);
    registry.with_informers(|_| drop(informer));
    assert_eq!(registry.informers.lock().len(), 0);
    assert!(registry.dropped.lock().is_empty());
}
