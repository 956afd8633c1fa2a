//! The storage service: buckets in memory, served over HTTP.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::storage::StoredBucket;

/// A running storage service. It stops when this value is dropped.
pub struct StorageServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<io::Result<()>>,
}

/// Contains the number of requests to the storage service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageRequests {
    /// The number of GET requests.
    pub gets: u64,
    /// The number of PUT requests.
    pub puts: u64,
    /// The number of DELETE requests.
    pub deletes: u64,
    /// The number of failed requests of all methods.
    pub failed: u64,
}

impl StorageRequests {
    /// Returns the number of requests of all methods.
    pub fn total(self) -> u64 {
        self.gets + self.puts + self.deletes
    }
}

struct Shared {
    contents: Mutex<Contents>,
    /// Sends a new value after each change of the contents.
    changes: watch::Sender<()>,
}

#[derive(Default)]
struct Contents {
    buckets: BTreeMap<(String, String), StoredBucket>,
    is_failing: bool,
    requests: StorageRequests,
}

impl StorageServer {
    /// Starts a service without buckets on a free port of the loopback interface.
    ///
    /// # Errors
    ///
    /// Fails if no port is available.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { contents: Mutex::default(), changes: watch::Sender::new(()) });
        let router = Router::new()
            .route("/buckets/{namespace}/{name}", get(read).put(write).delete(remove))
            .with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, shared, task })
    }

    /// Returns the URL of the service.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns a bucket.
    pub fn bucket(&self, namespace: &str, name: &str) -> Option<StoredBucket> {
        self.shared.lock().buckets.get(&key(namespace, name)).cloned()
    }

    /// Replaces a bucket, or deletes it if `bucket` is `None`.
    pub fn set_bucket(&self, namespace: &str, name: &str, bucket: Option<StoredBucket>) {
        self.shared.change(|contents| match bucket {
            Some(bucket) => drop(contents.buckets.insert(key(namespace, name), bucket)),
            None => drop(contents.buckets.remove(&key(namespace, name))),
        });
    }

    /// Selects whether each request fails with status 503.
    pub fn set_failing(&self, is_failing: bool) {
        self.shared.change(|contents| contents.is_failing = is_failing);
    }

    /// Returns the number of requests so far.
    pub fn requests(&self) -> StorageRequests {
        self.shared.lock().requests
    }

    /// Waits until `check` returns a value. Calls it after each request and each change.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn wait_until<T>(&self, mut check: impl FnMut(&Self) -> Option<T>) -> T {
        let mut changes = self.shared.changes.subscribe();
        loop {
            if let Some(value) = check(self) {
                return value;
            }
            // The sender is part of this value, so an error is impossible.
            drop(changes.changed().await);
        }
    }
}

impl Drop for StorageServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Contents) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changes.send_replace(());
        changed
    }

    /// Counts a request, and executes it unless the service fails.
    fn answer(
        &self,
        count: impl FnOnce(&mut StorageRequests),
        execute: impl FnOnce(&mut Contents) -> Response,
    ) -> Response {
        self.change(|contents| {
            count(&mut contents.requests);
            if contents.is_failing {
                contents.requests.failed += 1;
                return StatusCode::SERVICE_UNAVAILABLE.into_response();
            }
            execute(contents)
        })
    }
}

fn key(namespace: &str, name: &str) -> (String, String) {
    (namespace.to_owned(), name.to_owned())
}

async fn read(State(shared): State<Arc<Shared>>, Path(key): Path<(String, String)>) -> Response {
    let count = |requests: &mut StorageRequests| requests.gets += 1;
    shared.answer(count, |contents| match contents.buckets.get(&key) {
        Some(bucket) => Json(bucket).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}

/// Creates or updates a bucket. The number of used bytes does not change.
async fn write(
    State(shared): State<Arc<Shared>>,
    Path(key): Path<(String, String)>,
    Json(mut bucket): Json<StoredBucket>,
) -> Response {
    let count = |requests: &mut StorageRequests| requests.puts += 1;
    shared.answer(count, |contents| {
        bucket.used_bytes = contents.buckets.get(&key).map_or(0, |existing| existing.used_bytes);
        contents.buckets.insert(key, bucket.clone());
        Json(bucket).into_response()
    })
}

async fn remove(State(shared): State<Arc<Shared>>, Path(key): Path<(String, String)>) -> Response {
    let count = |requests: &mut StorageRequests| requests.deletes += 1;
    shared.answer(count, |contents| match contents.buckets.remove(&key) {
        Some(_) => StatusCode::NO_CONTENT.into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}
