//! How a server is set up.

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

/// How a server behaves. Made by [`Server::builder`].
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
    /// Where timestamps in objects come from. Default: the wall clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.0.clock = clock.into();
        self
    }

    /// What uids, generated names and the length of watches without `timeoutSeconds` are drawn from. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.0.seed = seed;
        self
    }

    /// How often an idle watch gets a bookmark: from a millisecond to a year. Default: a minute, as the real server.
    pub fn bookmark_period(mut self, period: Duration) -> Self {
        self.0.bookmark_period = period.clamp(Duration::from_millis(1), MAX_WATCH_DURATION);
        self
    }

    /// How many events of each resource are kept for watches and paged lists; older ones expire. Default: 65,536. The bound
    /// is of events, not of bytes: each holds the state that it replaced, so a program that writes large objects often may
    /// want fewer. A watch that has not read an event before it expires ends with 410; with 0 each does.
    pub fn history(mut self, events: usize) -> Self {
        self.0.retention.watches.events = events;
        self.0.retention.lists.events = events;
        self
    }

    /// Events older than this expire, for watches and for lists. Default: never.
    pub fn expire_after(self, age: Duration) -> Self {
        self.expire_watches_after(age).expire_lists_after(age)
    }

    /// Watches can't start from versions older than this: what the window of a busy watch cache holds. Default: never.
    pub fn expire_watches_after(mut self, age: Duration) -> Self {
        self.0.retention.watches.age = Some(age);
        self
    }

    /// Versions older than this can't be listed, nor further pages of lists that began so long ago: kube-apiserver
    /// compacts etcd every five minutes. Default: never.
    pub fn expire_lists_after(mut self, age: Duration) -> Self {
        self.0.retention.lists.age = Some(age);
        self
    }

    /// Whether, or how, `sendInitialEvents` is understood; `false` is a server with the gate WatchList off. Default:
    /// `true`.
    pub fn streaming_lists(mut self, how: impl Into<StreamingLists>) -> Self {
        self.0.streaming_lists = how.into();
        self
    }

    /// Whether a watch is compressed, each event a gzip member of its own, where the client accepts gzip.
    /// kube-apiserver 1.36 does not. Default: `false`.
    pub fn gzip_watches(mut self, on: bool) -> Self {
        self.0.gzip_watches = on;
        self
    }

    /// Whether `shardSelector` is understood; `true` is a server with the gate ShardedListAndWatch, without which the
    /// parameter is not looked at. Default: `false`.
    pub fn sharded_lists(mut self, on: bool) -> Self {
        self.0.sharded_lists = on;
        self
    }

    /// Whether reads come from a watch cache; `false` is a server with `--watch-cache=false`, which pages lists at
    /// version 0, too, and sends no bookmarks but the one that ends an initial state. Default: `true`.
    pub fn watch_cache(mut self, on: bool) -> Self {
        self.0.watch_cache = on;
        self
    }

    /// Whether objects that have lost their owners are deleted, and the finalizers `orphan` and `foregroundDeletion` are
    /// acted on, as the garbage collector of a cluster does. Here it acts at once: what a write gives it to do is done
    /// before the write is answered. Default: `false`, as an API server without controllers.
    pub fn garbage_collector(mut self, on: bool) -> Self {
        self.0.garbage_collector = on;
        self
    }

    /// Whether it is written down, in `managedFields`, who owns which field of objects that are created. `false` is for
    /// load tests: writes are cheaper, and objects smaller. What is applied is tracked in any case, as the real
    /// server tracks an object from its first apply on. Default: `true`.
    pub fn field_ownership(mut self, on: bool) -> Self {
        self.0.field_ownership = on;
        self
    }

    /// Adds a user, known by a bearer token: from now on requests need one. An unknown one is refused with 401, and
    /// what the user may not do with 403. May be called for several users; [`Server::access`] changes them, and gives
    /// finer rights, while the server runs. Default: everyone may do everything.
    pub fn user(mut self, token: &str, name: &str, rights: Rights) -> Self {
        let groups: &[&str] = match rights {
            Rights::All => &[MASTERS],
            Rights::None => &[],
        };
        self.0.users.add(token, name, groups);
        self
    }

    /// Faults that are drawn from a seed, from the first request on. Default: none.
    pub fn plan(mut self, plan: FaultPlan) -> Self {
        self.1 = Some(plan);
        self
    }

    /// The server, with the four initial namespaces and nothing else.
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
