//! Tests informers whose source is two functions of the program.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::{
    Informer, ListWatch,
    listwatch::{ListPage, ListRequest, WatchRequest},
};

/// A source without list versions. Each list returns other content of the object, with this version.
fn changing_source(version: &'static str) -> ListWatch<ConfigMap> {
    let lists = Arc::new(AtomicU64::new(0));
    let list = move |_: ListRequest| {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".to_owned());
        object.metadata.namespace = Some("default".to_owned());
        object.metadata.uid = Some("u".to_owned());
        object.metadata.resource_version = Some(version.to_owned()).filter(|version| !version.is_empty());
        let number = lists.fetch_add(1, Ordering::SeqCst);
        object.data = Some([("list".to_owned(), number.to_string())].into());
        async move { Ok(ListPage { items: vec![object], version: "".into(), next: None }) }
    };
    ListWatch::from_functions(list, |_: WatchRequest| stream::pending())
}

/// The rustdoc of `from_functions` contains this limit.
#[tokio::test(start_paused = true)]
async fn listed_object_is_updated_unless_its_version_is_equal() {
    for (version, is_updated) in [("", true), ("5", false)] {
        let informer = Informer::from_source(changing_source(version)).build();
        informer.start();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(informer.status().reflector.lists > 2, "{}", informer.status());
        let cached = informer.lister().list_all().to_vec().remove(0);
        let number: u64 = cached.data.as_ref().unwrap()["list"].parse().unwrap();
        assert_eq!(number > 0, is_updated, "version {version:?}: the content of list {number}");
        informer.stop().await;
    }
}
