//! Tests which trees are cached, and that each equals its parsed bytes after any kind of write.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::server::Server;
use crate::storage::entry::{Change, Draft};

#[test]
fn cached_tree_equals_bytes_and_oldest_is_dropped() {
    let kind = crate::schemas::kinds::builtin::kinds().into_iter().find(|k| k.plural == "pods").unwrap();
    let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"x": "y".repeat(BYTES / 4)}});
    let pod = pod.as_object().unwrap();
    let recent = Recent::default();
    let entries: Vec<Arc<Entry>> =
        (1..=5).map(|revision| Arc::new(Draft::new(&kind, pod).seal(Change::Added, revision))).collect();
    for entry in &entries {
        recent.keep(&kind, entry, Parsed::new(pod.clone()));
    }
    assert_eq!(entries.iter().filter(|entry| entry.has_object()).count(), 3);
    for entry in &entries {
        assert_eq!(entry.take_object(), Parsed::new(entry.object()));
        assert!(!entry.has_object());
    }
}

/// The path of the objects, their apiVersion and kind, and a field that accepts any value.
const KINDS: [(&str, &str, &str, &str); 4] = [
    ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap", "data"),
    ("/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment", "spec"),
    ("/apis/coordination.k8s.io/v1/namespaces/default/leases", "coordination.k8s.io/v1", "Lease", "spec"),
    ("/api/v1/namespaces/default/services", "v1", "Service", "spec"),
];

/// The ways to write an object: method, suffix of the path, media type.
const WRITES: [(&str, &str, &str); 8] = [
    ("POST", "", "application/json"),
    ("PUT", "", "application/json"),
    ("PUT", "/status", "application/json"),
    ("PATCH", "", "application/merge-patch+json"),
    ("PATCH", "", "application/strategic-merge-patch+json"),
    ("PATCH", "/status", "application/merge-patch+json"),
    ("PATCH", "?fieldManager=m&force=true", "application/apply-patch+yaml"),
    ("DELETE", "", "application/json"),
];

#[derive(Clone, Debug)]
struct Write {
    kind: usize,
    how: usize,
    name: &'static str,
    metadata: Value,
    content: Value,
}

impl Write {
    fn request(&self) -> Request<Full<Bytes>> {
        let (collection, version, kind, field) = KINDS[self.kind];
        let (method, part, media_type) = WRITES[self.how];
        let mut metadata = self.metadata.clone();
        metadata["name"] = self.name.into();
        let object = json!({
            "apiVersion": version, "kind": kind, "metadata": metadata, field: self.content, "status": self.content,
        });
        let body = if method == "DELETE" { String::new() } else { object.to_string() };
        let path = match method {
            "POST" => collection.to_owned(),
            _ => format!("{collection}/{}{part}", self.name),
        };
        let request = Request::builder().method(method).uri(path).header("content-type", media_type);
        request.body(Full::new(body.into())).unwrap()
    }
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z\"\\\\é]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..3).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn write() -> impl Strategy<Value = Write> {
    let texts = prop::collection::btree_map("[a-c]", "[a-c]{0,2}", 0..3);
    let finalizers = prop::collection::vec(Just("ex.test/f"), 0..2);
    let metadata = (texts.clone(), texts, finalizers).prop_map(|(labels, annotations, finalizers)| {
        json!({"labels": labels, "annotations": annotations, "finalizers": finalizers})
    });
    let content = prop_oneof![
        prop::collection::btree_map("[a-d]", anything(), 0..4).prop_map(|map| map.into_iter().collect()),
        anything(),
    ];
    (0..KINDS.len(), 0..WRITES.len(), prop::sample::select(vec!["a", "b"]), metadata, content)
        .prop_map(|(kind, how, name, metadata, content)| Write { kind, how, name, metadata, content })
}

proptest! {
    #[test]
    fn cached_trees_equal_bytes_after_random_writes(writes in prop::collection::vec(write(), 1..24)) {
        let server = Server::builder().validation(false).build();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for write in writes {
            let answer = runtime.block_on(server.service().respond(write.request())).unwrap();
            let state = server.shared.read(|state| {
                let tables = state.registry.tables();
                let all = tables.flat_map(|served| state.store.table(served.table).objects().values().cloned());
                all.collect::<Vec<_>>()
            });
            for entry in state.iter().filter(|entry| entry.has_object()) {
                let tree = entry.take_object();
                prop_assert_eq!(&tree, &Parsed::new(entry.object()), "after {:?}: {}", &write, answer.status());
                entry.keep_object(tree);
            }
        }
    }
}
