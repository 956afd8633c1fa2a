//! The configuration of a server.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Duration;

use crate::access::rbac;
use crate::access::users::{MASTERS, Rights, Users};
use crate::clock::{Clock, RunningClock};
use crate::faults::{FaultPlan, StreamingLists};
use crate::read::watch::MAX_WATCH_DURATION;
use crate::server::Server;
use crate::state::{Config, Shared};
use crate::storage::log::{Retention, Window};

const HISTORY: Window = Window { events: 65_536, age: None };

/// Configures a server. [`Server::builder`] creates the builder.
#[derive(Clone, Debug)]
#[must_use]
pub struct ServerBuilder(Config, Option<FaultPlan>);

impl Default for ServerBuilder {
    fn default() -> Self {
        let config = Config {
            clock: RunningClock::from(Clock::default()),
            hold_paused_clock: false,
            seed: 0,
            retention: Retention { watches: HISTORY, lists: HISTORY },
            bookmark_period: Duration::from_secs(60),
            sharded_lists: false,
            streaming_lists: StreamingLists::Served,
            gzip_watches: false,
            watch_cache: true,
            garbage_collector: false,
            max_body_bytes: 0,
            field_ownership: true,
            validation: true,
            users: Users::default(),
            requires_token: true,
            strict: true,
            rbac: false,
            host_names: Vec::new(),
        };
        Self(config, None)
    }
}

impl ServerBuilder {
    /// Sets the clock for the timestamps in objects. Default: the wall clock, even if tokio's clock is
    /// paused.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.0.clock = clock.into();
        self
    }

    /// Sets whether a paused clock of tokio stops while the server listens. Default: `false`.
    ///
    /// tokio advances a paused clock when all tasks wait, even if they wait for data from a socket.
    /// Timeouts can then expire at once. With `true`, the clock advances only by `tokio::time::advance`
    /// until the [`Listening`](crate::Listening) shuts down or is dropped. A `sleep` or a timeout of the
    /// test also waits for `advance`.
    pub fn hold_paused_clock(mut self, on: bool) -> Self {
        self.0.hold_paused_clock = on;
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

    /// Sets the number of events that the server keeps for each resource. Watches and paged lists read
    /// these events. Default: 65,536.
    ///
    /// The server drops older events. If the server drops an event before a watch has read it, the watch
    /// fails with 410. With 0, a watch fails at the next event. Each event holds the previous state of
    /// its object, and the limit does not count bytes. Set a lower limit if a program often writes large
    /// objects.
    pub fn history(mut self, events: usize) -> Self {
        self.0.retention.watches.events = events;
        self.0.retention.lists.events = events;
        self
    }

    /// Sets the age at which events expire, for watches and for lists. Default: events do not expire by
    /// age.
    pub fn expire_after(self, age: Duration) -> Self {
        self.expire_watches_after(age).expire_lists_after(age)
    }

    /// Sets the age at which events expire for watches, like in a busy watch cache. Default: events do
    /// not expire by age.
    pub fn expire_watches_after(mut self, age: Duration) -> Self {
        self.0.retention.watches.age = Some(age);
        self
    }

    /// Sets the age at which a resourceVersion expires for lists, and for further pages of older lists.
    /// Default: resourceVersions do not expire by age.
    ///
    /// kube-apiserver compacts etcd every five minutes.
    pub fn expire_lists_after(mut self, age: Duration) -> Self {
        self.0.retention.lists.age = Some(age);
        self
    }

    /// Sets the response to streaming lists (`sendInitialEvents`). `false` simulates a server without
    /// the feature gate WatchList. Default: `true`.
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

    /// Sets whether the server supports `shardSelector`, like with the feature gate ShardedListAndWatch.
    /// Otherwise, the server ignores the parameter. Default: `false`.
    pub fn sharded_lists(mut self, on: bool) -> Self {
        self.0.sharded_lists = on;
        self
    }

    /// Sets whether reads use a watch cache. Default: `true`.
    ///
    /// `false` simulates a server with `--watch-cache=false`. Such a server also splits a list with
    /// `resourceVersion=0` into pages. It sends only one bookmark, at the end of the initial state of a
    /// streaming list.
    pub fn watch_cache(mut self, on: bool) -> Self {
        self.0.watch_cache = on;
        self
    }

    /// Enables the garbage collector. It deletes objects whose owners no longer exist, and handles the
    /// finalizers `orphan` and `foregroundDeletion`. Default: `false`, like an API server without
    /// controllers.
    ///
    /// The collector runs within each write, before the server sends the response.
    pub fn garbage_collector(mut self, on: bool) -> Self {
        self.0.garbage_collector = on;
        self
    }

    /// Records the bodies of requests in the journal, up to `max_bytes` in total. Default: 0, which records
    /// no bodies.
    ///
    /// If the bodies need more bytes, the journal drops the bodies of the oldest requests. It omits empty
    /// bodies, and bodies of more than `max_bytes`. [`Request::body`](crate::Request::body) returns the
    /// body, also of a request that a fault rejects. The server never logs bodies.
    ///
    /// With this option, the server reads the body of a request before it applies faults, timeouts and
    /// rules.
    pub fn record_bodies(mut self, max_bytes: usize) -> Self {
        self.0.max_body_bytes = max_bytes;
        self
    }

    /// Sets whether `managedFields` records the owners of fields from the creation of an object.
    /// Default: `true`.
    ///
    /// Set `false` for load tests: writes are faster, and objects are smaller. The first server-side
    /// apply of an object always starts the record, like on kube-apiserver.
    pub fn field_ownership(mut self, on: bool) -> Self {
        self.0.field_ownership = on;
        self
    }

    /// Sets whether the server validates the contents of built-in kinds, like kube-apiserver. Default:
    /// `true`.
    ///
    /// Set `false` for tests that store incomplete objects, for example Pods without containers. Metadata,
    /// ConfigMaps, Secrets, Leases, Events and custom resources are always validated.
    pub fn validation(mut self, on: bool) -> Self {
        self.0.validation = on;
        self
    }

    /// Sets whether the server rejects requests that rely on a feature that it does not implement, with
    /// the code 501. Default: `true`, so that a test cannot pass only because the server ignored an object.
    ///
    /// `false` accepts these requests, and logs the first use of each feature.
    /// [`unsupported_features`](crate::unsupported_features) lists the features, and says which ones a
    /// strict server only logs.
    pub fn strict(mut self, on: bool) -> Self {
        self.0.strict = on;
        self
    }

    /// Sets whether requests on TCP need the token of [`Listening::kubeconfig`](crate::Listening::kubeconfig)
    /// if the server has no users. Default: `true`.
    ///
    /// Each server creates a random token. Without it, the server rejects requests on TCP with 401. Without
    /// tokens, each process on the machine has all rights. Go clients do not send tokens of a kubeconfig
    /// over HTTP. Use `Server::listen_tls` or `false` for them.
    pub fn require_token(mut self, on: bool) -> Self {
        self.0.requires_token = on;
        self
    }

    /// Adds a user with a bearer token. Default: no users, and the server permits all requests.
    ///
    /// If a user exists, the server rejects an unknown token with 401, and a missing right with 403. A
    /// request without a token belongs to the user `system:anonymous`, which may only read health and
    /// version. Call this method once for each user. [`Server::access`] can change users and rights at
    /// run time.
    ///
    /// # Panics
    /// Panics if the token is empty.
    pub fn user(mut self, token: &str, name: &str, rights: Rights) -> Self {
        let groups: &[&str] = match rights {
            Rights::All => &[MASTERS],
            Rights::None => &[],
        };
        self.0.users.add(token, name, groups);
        self
    }

    /// Sets whether Roles, ClusterRoles and their bindings grant rights, like in a cluster. The server then
    /// starts with the roles `cluster-admin`, `admin`, `edit` and `view`, and with the roles of all users.
    /// Default: `false`.
    ///
    /// The rules of [`Access`](crate::Access) also apply. Without users, requests have all rights unless
    /// they impersonate a user. Aggregated ClusterRoles have the rules of the roles that they select, but
    /// the server does not write these rules to the object.
    pub fn rbac(mut self, on: bool) -> Self {
        self.0.rbac = on;
        self
    }

    /// Adds a host name under which TCP clients reach the server, for example `server.test`. IP addresses,
    /// `localhost` and the names of the service `kubernetes` need not be added.
    ///
    /// The server rejects requests for other hosts, and requests of web pages, with 403. Otherwise, any web
    /// page in a browser could write to a server without users.
    pub fn host_name(mut self, name: &str) -> Self {
        self.0.host_names.push(name.into());
        self
    }

    /// Sets a plan of random faults, which starts with the first request. Default: no plan.
    pub fn plan(mut self, plan: FaultPlan) -> Self {
        self.1 = Some(plan);
        self
    }

    /// Creates the server. It contains only the namespaces `default`, `kube-node-lease`, `kube-public`
    /// and `kube-system`.
    pub fn build(self) -> Server {
        let shared = Arc::new(Shared::new(self.0, crate::gc::settle));
        crate::write::namespaces::populate(&shared);
        let server = Server { shared: shared.clone(), never: Arc::new(watch::Sender::new(false)) };
        if shared.config.rbac {
            for object in rbac::bootstrap() {
                server.create(&serde_json::Value::Object(object)).expect("bootstrap roles are valid");
            }
        }
        shared.write(|state| state.store.begin());
        if let Some(plan) = self.1 {
            shared.run_plan(plan);
        }
        server
    }
}
