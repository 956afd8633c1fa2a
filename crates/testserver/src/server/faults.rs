//! The methods of `Server` that inject faults immediately.

use bytes::Bytes;
use jiff::SignedDuration;

use crate::clock::Clock;
use crate::faults::open_watches::{Command, EventFault};
use crate::faults::{Disruption, Faults, StreamingLists};
use crate::journal::RequestMatch;
use crate::server::Server;
use crate::state::Shared;
use crate::status::{Named, Status};
use crate::storage::log::{Expiry, UnreadableState};
use crate::storage::watch_cache::{CacheId, Lag};

/// # Faults
impl Server {
    /// Returns the list of faults for future requests. Use it to add and remove faults.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Disrupts the entire server immediately.
    pub fn disrupt(&self, disruption: Disruption) {
        self.shared.disrupt(disruption);
    }

    /// Removes all history. Watches from an older resourceVersion and further pages of older lists then
    /// fail with 410.
    pub fn compact(&self) {
        self.expire(u64::MAX);
    }

    /// Removes the history up to and including this resourceVersion, for lists and for watches.
    pub fn expire(&self, up_to: u64) {
        self.shared.expire(Expiry::Both, up_to);
    }

    /// Compacts etcd up to and including this resourceVersion. Lists with `resourceVersionMatch=Exact`
    /// at an older resourceVersion then fail with 410, as do further pages of older lists. Watches from
    /// an older resourceVersion still work, because they read the watch cache.
    pub fn expire_lists(&self, up_to: u64) {
        self.shared.expire(Expiry::Lists, up_to);
    }

    /// Removes the events up to and including this resourceVersion from the watch caches. Watches from
    /// an older resourceVersion then fail with 410. Lists at an older resourceVersion still work,
    /// because they read etcd.
    pub fn expire_watches(&self, up_to: u64) {
        self.shared.expire(Expiry::Watches, up_to);
    }

    /// Restarts the server. Its watches break, and its watch cache starts with the current state.
    ///
    /// Watches from an older resourceVersion then fail with 410. Lists at an older resourceVersion, and
    /// further pages of older lists, still work, because they read etcd. The server is available again
    /// immediately. To make it unavailable for some time, also call [`Server::outage`].
    pub fn restart(&self) {
        self.shared.restart(CacheId::MAIN);
    }

    /// Restores the state at an older resourceVersion, like an etcd that is restored from a backup.
    ///
    /// Later writes are lost, and the server uses their resourceVersions again. All watches break, the
    /// watch caches restart, and the server serves the CRDs of the restored state. For a resourceVersion
    /// in the future, the state does not change, but watches break.
    ///
    /// # Errors
    /// Returns a status with the reason Expired if the history does not contain the resourceVersion. The
    /// state is then unchanged. The server drops the history of a deleted CRD if 64 CRDs with objects are
    /// deleted later. The state before its deletion then cannot be restored.
    pub fn restore(&self, version: u64) -> Result<(), Status> {
        self.shared.restore(version, 0)
    }

    /// Restores the state at an older resourceVersion, like `etcdutl snapshot restore --bump-revision
    /// --mark-compacted`.
    ///
    /// In contrast to [`Server::restore`], the current resourceVersion then increases by `bump`, up to
    /// 2^62. Choose a `bump` that makes the new resourceVersion greater than all used resourceVersions.
    /// All older resourceVersions are expired. The objects keep their resourceVersions.
    ///
    /// # Errors
    /// Returns a status with the reason Expired if the history does not contain the resourceVersion. The
    /// state is then unchanged.
    pub fn restore_bumped(&self, version: u64, bump: u64) -> Result<(), Status> {
        self.shared.restore(version, bump)
    }

    /// Sets the lag of the server's own watch cache behind the storage. [`crate::Replica`] describes the
    /// requests that a watch cache serves.
    pub fn set_lag(&self, lag: Lag) {
        self.shared.lag(CacheId::MAIN, lag);
    }

    /// Sets the response of the server to streaming lists.
    pub fn set_streaming_lists(&self, mode: impl Into<StreamingLists>) {
        self.shared.set_streaming_lists(mode.into());
    }

    /// Sets the clock for the timestamps of objects.
    pub fn set_clock(&self, clock: Clock) {
        self.shared.config.clock.set(clock);
    }

    /// Moves the clock for the timestamps of objects, forwards or backwards. Timers are not affected.
    pub fn jump_clock(&self, by: SignedDuration) {
        self.shared.config.clock.jump(by);
    }

    /// Makes an object undecodable, like data whose encryption key is lost. This stores the object
    /// again, with a new resourceVersion.
    ///
    /// Until the guard is dropped, each watch that reaches this resourceVersion fails with an ERROR
    /// event. A watch also fails at the next change of the object, because the event contains the
    /// previous state. Requests for the object, and lists that include the object, fail with 500.
    ///
    /// A kube-apiserver without a watch cache behaves in this way. With a watch cache, kube-apiserver
    /// instead stops updating the watch cache of the kind. [`Lag::Frozen`] simulates this behaviour.
    ///
    /// # Errors
    /// Returns a status with the reason NotFound if the object or the kind does not exist.
    pub fn corrupt(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Corruption, Status> {
        let target = self.target(api_version, kind, namespace, name)?;
        let table = target.served.table;
        let corrupted = self.shared.write(|state| state.store.corrupt(table, &target.key()));
        let (group, resource) = (target.served.kind.group.as_str(), target.served.kind.plural.as_str());
        let damage = corrupted.ok_or_else(|| Status::not_found(Named { group, resource }, name))?;
        Ok(Corruption { damage, shared: self.shared.clone() })
    }
}

/// # Open watches
///
/// These methods return immediately. They take effect when the task that reads the watch runs again. The
/// watch first sends all pending events, also events that occurred after the call. To change an object
/// while a watch is broken, first let the task run, for example with
/// `tokio::time::sleep(Duration::from_millis(1))`.
impl Server {
    /// Returns the number of open watches. A watch that the server has closed counts until the client
    /// drops it. The watcher of `kube` does this only when it starts the next watch.
    pub fn open_watches(&self) -> usize {
        self.shared.open.count()
    }

    /// Sends a bookmark to every open watch that requested bookmarks and started before the current
    /// resourceVersion. Each watch sends its pending events before the bookmark. Returns the number of
    /// all open watches.
    pub fn send_bookmarks(&self) -> usize {
        self.shared.open.send_command(&Command::Bookmark(self.resource_version()), |_| true)
    }

    /// Closes every open watch without an error. Returns the number of these watches.
    pub fn close_watches(&self) -> usize {
        self.shared.open.send_command(&Command::Close, |_| true)
    }

    /// Breaks the connection of every open watch that `matches` selects. Returns the number of these
    /// watches.
    pub fn cut_watches(&self, matches: &RequestMatch) -> usize {
        self.shared.open.send_command(&Command::Cut, |request| matches.selects(request))
    }

    /// Closes every open watch that `matches` selects with an ERROR event. Returns the number of these
    /// watches.
    ///
    /// After [`Status::expired`], clients list again. The new list also repairs the effects of lost
    /// events.
    pub fn fail_watches(&self, matches: &RequestMatch, status: Status) -> usize {
        self.shared.fail_watches(matches, status)
    }

    /// Omits the next event on every open watch that `matches` selects. Returns the number of watches
    /// that accepted this fault. A watch queues at most 1,024 faults of events.
    pub fn lose_next_event(&self, matches: &RequestMatch) -> usize {
        self.shared.open.event_fault(EventFault::Lose, |request| matches.selects(request))
    }

    /// Sends the next event twice on every open watch that `matches` selects. Returns the number of
    /// watches that accepted this fault. A watch queues at most 1,024 faults of events.
    pub fn repeat_next_event(&self, matches: &RequestMatch) -> usize {
        self.shared.open.event_fault(EventFault::Repeat, |request| matches.selects(request))
    }

    /// Sends these bytes unchanged to every open watch that `matches` selects. Returns the number of
    /// watches that accepted the bytes. A watch queues at most 1,024 frames and other commands. Add a
    /// newline to the bytes, because clients read a watch line by line.
    pub fn inject_frame(&self, matches: &RequestMatch, frame: impl Into<Bytes>) -> usize {
        self.shared.open.send_command(&Command::Inject(frame.into()), |request| matches.selects(request))
    }
}

/// Keeps an object undecodable until it is dropped.
#[derive(Debug)]
#[must_use = "the object is decodable again when the guard is dropped"]
pub struct Corruption {
    damage: UnreadableState,
    shared: std::sync::Arc<Shared>,
}

impl Corruption {
    /// Returns the resourceVersion at which the object became undecodable.
    pub fn resource_version(&self) -> u64 {
        self.damage.revision
    }
}

impl Drop for Corruption {
    fn drop(&mut self) {
        self.shared.write(|state| state.store.heal(self.damage));
    }
}
