//! The verbs of a `Server` handle that make things go wrong, now.

use bytes::Bytes;
use jiff::SignedDuration;

use crate::clock::Clock;
use crate::faults::{Disruption, Faults, RequestMatch, StreamingLists};
use crate::read::open_watches::{Command, EventFault};
use crate::server::Server;
use crate::state::Shared;
use crate::status::{Named, Status};
use crate::storage::log::{Expiry, UnreadableState};
use crate::storage::watch_cache::{CacheId, Lag};

/// # Faults
impl Server {
    /// The faults that requests will meet.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Lets this happen to the whole server.
    pub fn disrupt(&self, disruption: Disruption) {
        self.shared.disrupt(disruption);
    }

    /// Forgets all history: watches from any earlier version and old pages are expired from now on.
    pub fn compact(&self) {
        self.expire(u64::MAX);
    }

    /// Forgets the history up to and including this version, for lists and for watches.
    pub fn expire(&self, up_to: u64) {
        self.shared.expire(Expiry::Both, up_to);
    }

    /// Compacts etcd up to and including this version: lists of exactly an earlier one and their pages are expired.
    /// Watches from there go on, from the watch cache.
    pub fn expire_lists(&self, up_to: u64) {
        self.shared.expire(Expiry::Lists, up_to);
    }

    /// Lets the watch caches forget the events up to and including this version: no watch can start before it. Lists of
    /// earlier versions go on, from etcd.
    pub fn expire_watches(&self, up_to: u64) {
        self.shared.expire(Expiry::Watches, up_to);
    }

    /// Starts the server anew: its watches break, and its watch cache begins with the present state, so that no watch
    /// can start from an earlier version. Lists of earlier versions and their pages go on, from etcd. For a while in
    /// which it is not there, add [`Server::outage`].
    pub fn restart(&self) {
        self.shared.restart(CacheId::MAIN);
    }

    /// Goes back to an earlier version, as a cluster does whose etcd was restored from a backup: what was written
    /// since is lost, its versions will be given again, all watches break, and the watch caches begin anew. The
    /// CRDs of then are served. A version of the future is the present one: nothing is lost, but watches break.
    ///
    /// # Errors
    /// Expired where the history does not reach back so far, at most to the new server; nothing has changed then.
    pub fn restore(&self, version: u64) -> Result<(), Status> {
        self.shared.restore(version, 0)
    }

    /// Goes back to an earlier version as [`Server::restore`] does, but as `etcdutl snapshot restore --bump-revision
    /// --mark-compacted` does it: the version then goes up by `bump` (as far as 2^62), beyond all that was given if that is
    /// large enough, and all earlier versions are expired. Objects keep theirs.
    ///
    /// # Errors
    /// Expired where the history does not reach back so far; nothing has changed then.
    pub fn restore_bumped(&self, version: u64, bump: u64) -> Result<(), Status> {
        self.shared.restore(version, bump)
    }

    /// Lets the server's own watch cache lag behind storage from now on. See [`crate::Replica`] for what comes from it.
    pub fn set_lag(&self, lag: Lag) {
        self.shared.lag(CacheId::MAIN, lag);
    }

    /// What the server does with streaming lists from now on.
    pub fn set_streaming_lists(&self, how: impl Into<StreamingLists>) {
        self.shared.set_streaming_lists(how.into());
    }

    /// Shows this time in the timestamps of objects from now on.
    pub fn set_clock(&self, clock: Clock) {
        self.shared.config.clock.set(clock);
    }

    /// Lets the time in the timestamps of objects jump, forwards or back; timers go on as they were.
    pub fn jump_clock(&self, by: SignedDuration) {
        self.shared.config.clock.jump(by);
    }

    /// Stores an object so that it can't be decoded again, as where the key of an encryption at rest is lost: this is a
    /// write with a version of its own. Until the guard is dropped, a watch that comes to that version (or to the next
    /// change of the object, which carries the state before) ends with an ERROR event, each time it is tried; lists
    /// that come to the object, and requests for it, fail with 500.
    ///
    /// This is what a kube-apiserver without watch cache shows. With one, the cache of that kind stands still instead:
    /// [`Lag::Frozen`].
    ///
    /// # Errors
    /// NotFound where there is no such object or kind.
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
impl Server {
    /// How many watches are open.
    pub fn open_watches(&self) -> usize {
        self.shared.open.count()
    }

    /// Sends a bookmark to every open watch that allows them and started before the present version; gives how many
    /// watches are open. A watch that is read later sends what happened before the bookmark first.
    pub fn send_bookmarks(&self) -> usize {
        self.shared.open.send_command(&Command::Bookmark(self.resource_version()), |_| true)
    }

    /// Ends every open watch cleanly; gives how many there were.
    pub fn close_watches(&self) -> usize {
        self.shared.open.send_command(&Command::Close, |_| true)
    }

    /// Breaks the connection of every open watch that `matches` picks; gives how many there were.
    pub fn cut_watches(&self, matches: &RequestMatch) -> usize {
        self.shared.open.send_command(&Command::Cut, |request| matches.selects(request))
    }

    /// Ends every open watch that `matches` picks with an ERROR event; gives how many there were. With
    /// [`Status::expired`] their clients list anew, which heals what a lost event has done.
    pub fn fail_watches(&self, matches: &RequestMatch, status: Status) -> usize {
        self.shared.fail_watches(matches, status)
    }

    /// Leaves out the next event on every open watch that `matches` picks; gives how many there are. A watch remembers
    /// at most 1,024 such slips.
    pub fn lose_next_event(&self, matches: &RequestMatch) -> usize {
        self.shared.open.event_fault(EventFault::Lose, |request| matches.selects(request))
    }

    /// Sends the next event twice on every open watch that `matches` picks; gives how many there are. A watch
    /// remembers at most 1,024 such slips.
    pub fn repeat_next_event(&self, matches: &RequestMatch) -> usize {
        self.shared.open.event_fault(EventFault::Repeat, |request| matches.selects(request))
    }

    /// Sends these bytes, as they are, into every open watch that `matches` picks; gives how many took them. A watch
    /// takes at most 1,024 such frames before it sends them. A frame should end with a newline.
    pub fn inject_frame(&self, matches: &RequestMatch, frame: impl Into<Bytes>) -> usize {
        self.shared.open.send_command(&Command::Inject(frame.into()), |request| matches.selects(request))
    }
}

/// Keeps an object undecodable; dropping it heals it.
#[derive(Debug)]
#[must_use = "the object can be read again when the guard is dropped"]
pub struct Corruption {
    damage: UnreadableState,
    shared: std::sync::Arc<Shared>,
}

impl Corruption {
    /// The version at which the object can't be read.
    pub fn resource_version(&self) -> u64 {
        self.damage.revision
    }
}

impl Drop for Corruption {
    fn drop(&mut self) {
        self.shared.write(|state| state.store.heal(self.damage));
    }
}
