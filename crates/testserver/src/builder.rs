//! The configuration of a server.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Duration;

use crate::access::users::{MASTERS, Rights, Users};
use crate::clock::{Clock, RunningClock};
use crate::faults::{FaultPlan, StreamingLists};
use crate::read::watch::MAX_WATCH_DURATION;
use crate::server::Server;
use crate::state::{Config, Shared};
use crate::storage::log::{Retention, Window};

const HISTORY: Window = Window { events: 65_536, age: None };

/// Configures a server. Created by [`Server::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ServerBuilder(Config, Option<FaultPlan>);

impl Default for ServerBuilder {
    fn default() -> Self {
        let config = Config {
            clock: RunningClock::from(Clock::default()),
            seed: 0,
            retention: Retention { watches: HISTORY, lists: HISTORY },
            bookmark_period: Duration::from_secs(60),
            sharded_lists: false,
            streaming_lists: StreamingLists::Served,
            gzip_watches: false,
            watch_cache: true,
            garbage_collector: false,
            field_ownership: true,
            users: Users::default(),
        };
        Self(config, None)
    }
}

impl ServerBuilder {
    /// Sets the clock for the timestamps in objects. Default: the wall clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.0.clock = clock.into();
        self
    }

    /// Sets the seed for uids, generated names, and the timeout of watches without `timeoutSeconds`.
    /// Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.0.seed = seed;
        self
    }

    /// Sets the period of bookmarks on an idle watch, from one millisecond to one year. Default: one
    /// minute, like kube-apiserver.
    pub fn bookmark_period(mut self, period: Duration) -> Self {
        self.0.bookmark_period = period.clamp(Duration::from_millis(1), MAX_WATCH_DURATION);
        self
    }

    /// Sets the number of retained events of each resource, for watches and paged lists. Default: 65,536.
    ///
    /// The server drops older events. A watch fails with 410 if it has not read an event before the event
    /// expires. With 0, each watch fails. Each event holds the previous state of its object, and the
    /// limit does not count bytes. A program that often writes large objects can set a lower limit.
    pub fn history(mut self, events: usize) -> Self {
        self.0.retention.watches.events = events;
        self.0.retention.lists.events = events;
        self
    }

    /// Sets the age at which events expire, for watches and for lists. Default: never.
    pub fn expire_after(self, age: Duration) -> Self {
        self.expire_watches_after(age).expire_lists_after(age)
    }

    /// Sets the age at which events expire for watches, like in a busy watch cache. Default: never.
    pub fn expire_watches_after(mut self, age: Duration) -> Self {
        self.0.retention.watches.age = Some(age);
        self
    }

    /// Sets the age at which versions expire for lists and for their further pages. Default: never.
    ///
    /// kube-apiserver compacts etcd every five minutes.
    pub fn expire_lists_after(mut self, age: Duration) -> Self {
        self.0.retention.lists.age = Some(age);
        self
    }

    /// Sets the response to `sendInitialEvents`. `false` simulates a server without the feature gate
    /// WatchList. Default: `true`.
    pub fn streaming_lists(mut self, mode: impl Into<StreamingLists>) -> Self {
        self.0.streaming_lists = mode.into();
        self
    }

    /// Compresses each event of a watch as a separate gzip member if the client accepts gzip. Default:
    /// `false`, like kube-apiserver 1.36.
    pub fn gzip_watches(mut self, on: bool) -> Self {
        self.0.gzip_watches = on;
        self
    }

    /// Enables `shardSelector`, like the feature gate ShardedListAndWatch. Otherwise, the server
    /// ignores the parameter. Default: `false`.
    pub fn sharded_lists(mut self, on: bool) -> Self {
        self.0.sharded_lists = on;
        self
    }

    /// Serves reads from a watch cache. Default: `true`.
    ///
    /// `false` simulates a server with `--watch-cache=false`. It also splits lists at version 0 into
    /// pages, and sends only the bookmark after an initial state.
    pub fn watch_cache(mut self, on: bool) -> Self {
        self.0.watch_cache = on;
        self
    }

    /// Enables the garbage collector. It deletes objects without remaining owners, and handles the
    /// finalizers `orphan` and `foregroundDeletion`. Default: `false`, like an API server without
    /// controllers.
    ///
    /// The collector runs within each write, before the response.
    pub fn garbage_collector(mut self, on: bool) -> Self {
        self.0.garbage_collector = on;
        self
    }

    /// Tracks field ownership in `managedFields` from the creation of an object. Default: `true`.
    ///
    /// Set `false` for load tests: writes are faster, and objects are smaller. Like on the real server,
    /// the first apply of an object always starts the tracking.
    pub fn field_ownership(mut self, on: bool) -> Self {
        self.0.field_ownership = on;
        self
    }

    /// Adds a user with a bearer token. Default: no users, and all requests are permitted.
    ///
    /// If a user exists, the server rejects an unknown token with 401, and a missing right with 403. A
    /// request without a token belongs to the user `system:anonymous`, who has no rights. Call this
    /// once for each user. [`Server::access`] can change users and rights at run time.
    pub fn user(mut self, token: &str, name: &str, rights: Rights) -> Self {
        let groups: &[&str] = match rights {
            Rights::All => &[MASTERS],
            Rights::None => &[],
        };
        self.0.users.add(token, name, groups);
        self
    }

    /// Sets the plan for random faults, from the first request. Default: none.
    pub fn plan(mut self, plan: FaultPlan) -> Self {
        self.1 = Some(plan);
        self
    }

    /// Creates the server. It contains only the four initial namespaces.
    pub fn build(self) -> Server {
        let shared = Arc::new(Shared::new(self.0));
        crate::write::namespaces::populate(&shared);
        shared.write(|state| state.store.begin());
        if let Some(plan) = self.1 {
            shared.run_plan(plan);
        }
        Server { shared, never: Arc::new(watch::Sender::new(false)) }
    }
}
