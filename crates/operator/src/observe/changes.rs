//! `ChangeLog`: the changed fields and the field manager of the latest change of each object.
//!
//! It reads the responses of lists and watches while the informers read them. It stores hashes of fields, and
//! never their values.

use std::{
    collections::{HashMap, VecDeque},
    hash::BuildHasher,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use foldhash::quality::RandomState;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube_client::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::Value;
use tower::BoxError;

/// The maximum number of remembered objects. A new object replaces the object that was added first.
const MAX_OBJECTS: usize = 4096;

/// The maximum number of remembered fields of an object. Changes of further fields are not reported.
const MAX_FIELDS: usize = 64;

/// The maximum size of a watch event, or of a list, in bytes. Larger ones are not read.
const MAX_BYTES: usize = 16 << 20;

/// The fields of which the log compares the parts.
const DIVIDED: [&str; 4] = ["metadata", "spec", "status", "data"];

/// The fields of the metadata that change with each write.
const BOOKKEEPING: [&str; 3] = ["managedFields", "resourceVersion", "generation"];

/// The latest change of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectChange {
    pub(crate) version: String,
    /// The changed fields, such as `spec.replicas`. `None` if the log does not know the state before.
    pub(crate) fields: Option<Vec<String>>,
    /// The field manager that wrote last, according to `managedFields`.
    pub(crate) manager: Option<String>,
}

/// Remembers the changes of objects. A clone shares the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeLog(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    objects: HashMap<String, Known>,
    order: VecDeque<String>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Known {
    fields: Vec<(String, u64)>,
    managers: Vec<Manager>,
    last: ObjectChange,
}

/// An entry of `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Manager {
    name: String,
    /// The operation and the subresource. A manager can have an entry for each.
    part: String,
    time: String,
    hash: u64,
    bytes: usize,
}

impl ChangeLog {
    /// Returns a client for informers. If changes are logged, also returns their log.
    pub(crate) fn attach(client: &Client, is_enabled: bool) -> (Client, Option<Self>) {
        if !is_enabled {
            return (client.clone(), None);
        }
        let log = Self::default();
        (log.follow(client.clone()), Some(log))
    }

    /// Returns the latest change of an object. `kind` is the kind without group.
    pub(crate) fn latest(&self, kind: &str, key: &str) -> Option<ObjectChange> {
        self.0.lock().objects.get(&format!("{kind} {key}")).map(|known| known.last.clone())
    }

    /// Returns a client whose lists and watches are logged.
    pub(crate) fn follow(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let log = self.clone();
        let send = tower::service_fn(move |request: Request<Body>| {
            let (client, log) = (client.clone(), log.clone());
            async move {
                let query = request.uri().query().unwrap_or_default();
                let is_watch = query.split('&').any(|part| part.starts_with("watch="));
                let is_read = *request.method() == http::Method::GET;
                let response: Response<Body> = client.send(request).await.map_err(BoxError::from)?;
                let log = log.clone();
                let reader = (is_read && response.status().is_success()).then(|| Reader::new(log, is_watch));
                Ok::<_, BoxError>(response.map(|body| Followed { body, reader }))
            }
        });
        Client::new(send, namespace)
    }

    fn add(&self, kind: &str, object: &Value) {
        let meta = &object["metadata"];
        let Some(name) = meta["name"].as_str() else { return };
        let key = match meta["namespace"].as_str() {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        };
        let version = meta["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let mut log = self.0.lock();
        let fields = fields(object, &log.hasher);
        let managers = managers(meta, &log.hasher);
        let Some(known) = log.objects.get_mut(&key) else {
            let last = ObjectChange { version, fields: None, manager: writer(&[], &managers) };
            log.objects.insert(key.clone(), Known { fields, managers, last });
            log.order.push_back(key);
            if log.order.len() > MAX_OBJECTS
                && let Some(oldest) = log.order.pop_front()
            {
                log.objects.remove(&oldest);
            }
            return;
        };
        // A list, or another informer, can deliver the same state again.
        if known.last.version != version {
            let changed = difference(&known.fields, &fields);
            let manager = writer(&known.managers, &managers);
            *known =
                Known { fields, managers, last: ObjectChange { version, fields: Some(changed), manager } };
        }
    }

    fn remove(&self, kind: &str, object: &Value) {
        let meta = &object["metadata"];
        let (namespace, name) = (meta["namespace"].as_str(), meta["name"].as_str().unwrap_or_default());
        let key = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
        let mut log = self.0.lock();
        if let Some(known) = log.objects.get_mut(&format!("{kind} {key}")) {
            known.fields.clear();
            known.last = ObjectChange { version: String::new(), fields: None, manager: None };
        }
    }
}

/// Returns a hash of each field.
fn fields(object: &Value, hasher: &RandomState) -> Vec<(String, u64)> {
    let mut fields = Vec::new();
    // Items of a list have no kind and no apiVersion.
    let compared = |name: &str| !["apiVersion", "kind"].contains(&name);
    for (name, value) in object.as_object().into_iter().flatten().filter(|(name, _)| compared(name)) {
        match value.as_object().filter(|_| DIVIDED.contains(&&**name)) {
            Some(parts) => {
                let parts = parts.iter().filter(|(part, _)| !BOOKKEEPING.contains(&&***part));
                let hashed =
                    parts.map(|(part, value)| (format!("{name}.{part}"), hasher.hash_one(value.to_string())));
                fields.extend(hashed);
            }
            None => fields.push((name.clone(), hasher.hash_one(value.to_string()))),
        }
    }
    fields.truncate(MAX_FIELDS);
    fields
}

/// Returns the names of the fields that differ, with a name that is safe to print.
fn difference(old: &[(String, u64)], new: &[(String, u64)]) -> Vec<String> {
    let differs = |fields: &[(String, u64)], field: &(String, u64)| !fields.contains(field);
    let mut names: Vec<&String> =
        old.iter().filter(|field| differs(new, field)).map(|(name, _)| name).collect();
    names.extend(new.iter().filter(|field| differs(old, field)).map(|(name, _)| name));
    names.sort();
    names.dedup();
    names.into_iter().map(|name| crate::redact::single_line(name, 128)).collect()
}

fn managers(meta: &Value, hasher: &RandomState) -> Vec<Manager> {
    let entries = meta["managedFields"].as_array().into_iter().flatten().take(MAX_FIELDS);
    let manager = |entry: &Value| {
        let (text, field) = (entry.to_string(), |name: &str| entry[name].as_str().unwrap_or_default());
        Manager {
            name: crate::redact::single_line(field("manager"), 128),
            part: format!("{} {}", field("operation"), field("subresource")),
            time: field("time").to_owned(),
            hash: hasher.hash_one(&text),
            bytes: text.len(),
        }
    };
    entries.map(manager).collect()
}

/// Returns the manager of the changed entry with the latest time. Times are whole
/// seconds, so the entry that grew most decides: a manager that sets a field takes it from other managers.
fn writer(old: &[Manager], new: &[Manager]) -> Option<String> {
    let growth = |manager: &Manager| {
        let before = old.iter().find(|old| (&old.name, &old.part) == (&manager.name, &manager.part));
        manager.bytes as i64 - before.map_or(0, |old| old.bytes as i64)
    };
    let changed = new.iter().filter(|manager| !old.iter().any(|old| old.hash == manager.hash));
    changed.max_by_key(|manager| (manager.time.as_str(), growth(manager))).map(|manager| manager.name.clone())
}

/// Reads the response to a list or a watch.
struct Reader {
    log: ChangeLog,
    is_watch: bool,
    /// The incomplete line of a watch, or the list.
    bytes: Vec<u8>,
    /// The current line, or the list, is too large.
    is_too_large: bool,
}

impl Reader {
    fn new(log: ChangeLog, is_watch: bool) -> Self {
        Self { log, is_watch, bytes: Vec::new(), is_too_large: false }
    }

    fn read(&mut self, mut chunk: &[u8]) {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n').filter(|_| self.is_watch) {
            self.push(&chunk[..end]);
            self.finish();
            chunk = &chunk[end + 1..];
        }
        self.push(chunk);
    }

    fn push(&mut self, bytes: &[u8]) {
        self.is_too_large |= self.bytes.len() + bytes.len() > MAX_BYTES;
        if self.is_too_large {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Logs the objects of a complete line or list.
    fn finish(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if std::mem::take(&mut self.is_too_large) || bytes.is_empty() {
            return;
        }
        // The informer reports data that is not JSON.
        let Ok(value) = serde_json::from_slice::<Value>(&bytes) else { return };
        if self.is_watch {
            let object = &value["object"];
            let kind = object["kind"].as_str().unwrap_or_default();
            match value["type"].as_str() {
                Some("ADDED" | "MODIFIED") => self.log.add(kind, object),
                Some("DELETED") => self.log.remove(kind, object),
                _ => {}
            }
        } else if let (Some(kind), Some(items)) = (value["kind"].as_str(), value["items"].as_array()) {
            let kind = kind.strip_suffix("List").unwrap_or(kind);
            for item in items {
                self.log.add(kind, item);
            }
        }
    }
}

/// A body that is logged while it is read.
struct Followed {
    body: Body,
    reader: Option<Reader>,
}

impl HttpBody for Followed {
    type Data = Bytes;
    type Error = kube_client::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match (&polled, &mut self.reader) {
            (Poll::Ready(Some(Ok(frame))), Some(reader)) => {
                frame.data_ref().into_iter().for_each(|data| reader.read(data));
            }
            (Poll::Ready(None), Some(reader)) => reader.finish(),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        // The end of a list must be polled, so that it is logged.
        self.reader.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
