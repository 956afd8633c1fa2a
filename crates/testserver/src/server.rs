//! `Server`: the handle that programs and tests hold, and how one is set up.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Duration;

use crate::clock::Clock;
use crate::decode::{self, DeleteOptions, meta};
use crate::delete::Deleted;
use crate::faults::{Faults, Match};
use crate::journal::Journal;
use crate::list::prefix;
use crate::listen::Listening;
use crate::open::Command;
use crate::service::ApiService;
use crate::state::{Config, Served, Shared};
use crate::status::{Named, Status};
use crate::storage::Retention;
use crate::users::{Rights, Users};
use crate::write::{self, Mode, Part, Target, Via};

/// How a server behaves. Made by [`Server::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ServerBuilder(Config);

impl ServerBuilder {
    /// Where timestamps in objects come from. Default: the wall clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.0.clock = clock;
        self
    }

    /// What uids, generated names and the length of watches without `timeoutSeconds` are drawn from. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.0.seed = seed;
        self
    }

    /// How often an idle watch gets a bookmark. Default: a minute, as the real server.
    pub fn bookmark_period(mut self, period: Duration) -> Self {
        self.0.bookmark_period = period;
        self
    }

    /// How many events of each resource are kept for watches and paged lists; older ones expire. Default: 65,536.
    pub fn history(mut self, events: usize) -> Self {
        self.0.retention.events = events;
        self
    }

    /// Events older than this expire. Default: never.
    pub fn expire_after(mut self, age: Duration) -> Self {
        self.0.retention.age = Some(age);
        self
    }

    /// Whether `sendInitialEvents` is understood; `false` is a server with the gate WatchList off. Default: `true`.
    pub fn streaming_lists(mut self, on: bool) -> Self {
        self.0.streaming_lists = on;
        self
    }

    /// From now on requests need the bearer token of a user: an unknown one is refused with 401, and what the user
    /// may not do with 403. May be called for several users. Default: everyone may do everything.
    pub fn user(mut self, token: &str, name: &str, rights: Rights) -> Self {
        self.0.users.add(token, name, rights);
        self
    }

    /// The server, with the four initial namespaces and nothing else.
    pub fn build(self) -> Server {
        let shared = Arc::new(Shared::new(self.0));
        crate::namespaces::populate(&shared);
        Server { shared, never: Arc::new(watch::Sender::new(false)) }
    }
}

/// An API server in memory. Cloning gives another handle to the same server.
///
/// Reach it without a socket by [`Server::service`], over TCP by [`Server::listen`], or directly by the verbs
/// below, which go the same way as requests but are synchronous and not in the journal.
#[derive(Clone, Debug)]
pub struct Server {
    shared: Arc<Shared>,
    /// In-process services never shut down.
    never: Arc<watch::Sender<bool>>,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

/// Where an object is, from its own text.
struct Place {
    target: Target,
}

impl Server {
    /// A server with the defaults of [`ServerBuilder`].
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A server to be set up first.
    pub fn builder() -> ServerBuilder {
        ServerBuilder(Config {
            clock: Clock::default(),
            seed: 0,
            retention: Retention { events: 65_536, age: None },
            bookmark_period: Duration::from_secs(60),
            streaming_lists: true,
            users: Users::default(),
        })
    }

    /// The server as a [`tower::Service`], for `kube_client::Client::new(server.service(), "default")`.
    pub fn service(&self) -> ApiService {
        ApiService::new(self.shared.clone(), self.never.subscribe())
    }

    /// Serves HTTP/1.1 on a TCP address; port 0 picks a free one.
    ///
    /// # Errors
    /// When the address can't be bound.
    ///
    /// # Cancel safety
    /// Dropped before it returns, nothing listens.
    pub async fn listen(&self, addr: SocketAddr) -> std::io::Result<Listening> {
        Listening::bind(self.shared.clone(), addr).await
    }

    /// The latest resourceVersion.
    pub fn resource_version(&self) -> u64 {
        self.shared.revision()
    }

    /// What was asked so far.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// The faults that requests will meet.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// How many watches are open.
    pub fn open_watches(&self) -> usize {
        self.shared.open.count()
    }

    /// Forgets all history: watches from any earlier version and old pages are expired from now on.
    pub fn compact(&self) {
        self.expire(u64::MAX);
    }

    /// Forgets the history up to and including this version.
    pub fn expire(&self, up_to: u64) {
        self.shared.write(|state| state.store.compact(up_to));
    }

    /// Goes back to an earlier version, as a cluster does whose etcd was restored from a backup: what was written
    /// since is lost, its versions will be given again, and all watches break. Kinds defined since stay served.
    ///
    /// # Errors
    /// Expired where the history does not reach back so far; nothing has changed then.
    pub fn restore(&self, version: u64) -> Result<(), Status> {
        let restored = self.shared.write(|state| state.store.restore(version));
        restored.map_err(|_| Status::list_expired())?;
        self.cut_watches(&Match::any());
        Ok(())
    }

    /// Sends a bookmark to every open watch that allows them and started before the present version; gives how many
    /// watches are open. A watch that is read later sends what happened before the bookmark first.
    pub fn bookmark_now(&self) -> usize {
        self.shared.open.tell(&Command::Bookmark(self.resource_version()), |_| true)
    }

    /// Ends every open watch cleanly; gives how many there were.
    pub fn close_watches(&self) -> usize {
        self.shared.open.tell(&Command::Close, |_| true)
    }

    /// Breaks the connection of every open watch that `matches` picks; gives how many there were.
    pub fn cut_watches(&self, matches: &Match) -> usize {
        self.shared.open.tell(&Command::Cut, |about| matches.picks(about))
    }

    /// Sends these bytes, as they are, into every open watch that `matches` picks; gives how many took them. A watch
    /// takes at most 1,024 such frames before it sends them. A frame should end with a newline.
    pub fn inject(&self, matches: &Match, frame: impl Into<Bytes>) -> usize {
        self.shared.open.tell(&Command::Inject(frame.into()), |about| matches.picks(about))
    }

    /// Creates an object, as a POST to its collection does. Kind and apiVersion are needed; a namespaced object
    /// without a namespace goes to `default`.
    ///
    /// # Errors
    /// What the server would answer.
    pub fn create(&self, object: Value) -> Result<Value, Status> {
        let (place, object) = self.place(object)?;
        let written = write::create(&self.shared, &place.target, object, false)?;
        Ok(parsed(&written.bytes(&place.view())))
    }

    /// Replaces an object, as a PUT does: with a resourceVersion only that version, without one any.
    ///
    /// # Errors
    /// What the server would answer.
    pub fn update(&self, object: Value) -> Result<Value, Status> {
        self.put(object, Part::Main)
    }

    /// Replaces an object's status, as a PUT to `/status` does.
    ///
    /// # Errors
    /// What the server would answer.
    pub fn update_status(&self, object: Value) -> Result<Value, Status> {
        self.put(object, Part::Status)
    }

    /// Creates an object or, if it is there, replaces it; then its status, if it has one. A short way to say what
    /// should be there.
    ///
    /// # Errors
    /// What the server would answer to the first write that fails.
    pub fn apply(&self, object: Value) -> Result<Value, Status> {
        let status = object.get("status").cloned();
        let mut stored = match self.create(object.clone()) {
            Err(status) if status.reason() == "AlreadyExists" => self.update(object)?,
            created => created?,
        };
        if let (Some(status), Some(map)) = (status, stored.as_object_mut()) {
            map.insert("status".into(), status);
            stored = match self.update_status(stored.clone()) {
                Err(status) if status.code() == 404 => stored,
                updated => updated?,
            };
        }
        Ok(stored)
    }

    /// Changes an object by a merge patch, as a PATCH does.
    ///
    /// # Errors
    /// What the server would answer.
    pub fn patch(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
        patch: &Value,
    ) -> Result<Value, Status> {
        let place = self.find(api_version, kind, namespace, name)?;
        let body = Bytes::from(patch.to_string());
        let patch = crate::patch::Patch::read("application/merge-patch+json", &body, place.target.kind())?;
        let mode = Mode { via: Via::Patch, part: Part::Main, dry_run: false };
        let written = write::update(&self.shared, &place.target, mode, |object| patch.apply(object.clone()))?;
        Ok(parsed(&written.bytes(&place.view())))
    }

    /// An object, if it is there.
    ///
    /// # Errors
    /// NotFound, also for an unknown kind.
    pub fn get(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Value, Status> {
        let place = self.find(api_version, kind, namespace, name)?;
        let target = &place.target;
        let entry =
            self.shared.read(|state| state.store.table(target.served.table).get(&target.key()).cloned());
        let entry = entry.ok_or_else(|| target.not_found())?;
        Ok(parsed(&place.view().object(&entry)))
    }

    /// Deletes an object at once (grace period 0), as a DELETE does; finalizers still hold it.
    ///
    /// # Errors
    /// What the server would answer.
    pub fn delete(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Value, Status> {
        let place = self.find(api_version, kind, namespace, name)?;
        let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
        let deleted = crate::delete::delete(&self.shared, &place.target, &options)?;
        Ok(match deleted {
            Deleted::Object(entry) => parsed(&place.view().object(&entry)),
            gone @ Deleted::Gone { .. } => parsed(&gone.bytes(place.target.kind(), &place.view())),
        })
    }

    fn put(&self, object: Value, part: Part) -> Result<Value, Status> {
        let (place, object) = self.place(object)?;
        let mode = Mode { via: Via::Put, part, dry_run: false };
        let written = write::replace(&self.shared, &place.target, object, mode)?;
        Ok(parsed(&written.bytes(&place.view())))
    }

    fn place(&self, object: Value) -> Result<(Place, write::Object), Status> {
        let Value::Object(object) = object else {
            return Err(Status::bad_request("an object must be a JSON map"));
        };
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or("");
        let namespace = Some(meta(&object, "namespace")).filter(|namespace| !namespace.is_empty());
        let place = self.find(text("apiVersion"), text("kind"), namespace, meta(&object, "name"))?;
        decode::check_metadata(&object, place.target.kind())?;
        Ok((place, object))
    }

    fn find(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Place, Status> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let served = self.shared.read(|state| {
            let resources = state.registry.resources(group, version)?;
            resources.values().find(|served| served.kind.kind == kind).cloned()
        });
        let served: Served =
            served.ok_or_else(|| Status::not_found(Named { group, resource: kind }, name))?;
        let namespace = served.kind.rules.namespaced.then(|| namespace.unwrap_or("default").to_owned());
        Ok(Place { target: Target { served, namespace, name: name.into() } })
    }

    /// All objects of a kind, in all namespaces or in one, in the order of their keys.
    ///
    /// # Errors
    /// NotFound for an unknown kind.
    pub fn list(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Result<Vec<Value>, Status> {
        let place = self.find(api_version, kind, None, "")?;
        let (prefix, view, table) = (prefix(namespace), place.view(), place.target.served.table);
        let entries: Vec<_> = self
            .shared
            .read(|state| state.store.table(table).under(&prefix).map(|(_, e)| e.clone()).collect());
        Ok(entries.iter().map(|entry| parsed(&view.object(entry))).collect())
    }

    /// How many objects of a kind there are, in all namespaces or in one.
    ///
    /// # Errors
    /// NotFound for an unknown kind.
    pub fn count(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Result<usize, Status> {
        let place = self.find(api_version, kind, None, "")?;
        let prefix = prefix(namespace);
        Ok(self.shared.read(|state| state.store.table(place.target.served.table).under(&prefix).count()))
    }
}

impl Place {
    fn view(&self) -> crate::view::View {
        crate::view::View::new(self.target.served.kind.clone(), crate::view::Form::Whole)
    }
}

fn parsed(json: &[u8]) -> Value {
    // The server's own bytes always parse; null keeps the function total.
    serde_json::from_slice(json).unwrap_or_default()
}
